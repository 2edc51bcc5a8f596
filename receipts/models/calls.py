"""Model calls and tool calls, their attempts, verdicts, results and effects."""

from typing import ClassVar

import pgtrigger
from django.db import models
from django.db.models import Q

from accounts.keys import new_id
from accounts.models import (
    ClockTimestamp,
    Frozen,
    Moves,
    Tenant,
    among,
    append_only,
    no_delete,
    no_truncate,
    one_of,
    rule,
    starts_as,
    starts_without,
    whether,
)
from receipts.states import (
    CALL_MOVES,
    LIVE_CALL,
    MODEL_CALL_MOVES,
    AttemptOutcome,
    CallStatus,
    EffectClass,
    FollowUp,
    ModelCallStatus,
    ResultSource,
    Verdict,
)
from runs.models import Run


class ModelCall(models.Model):
    """One turn asked of the model. Committed before it is sent; sealed once with its answer."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, db_constraint=False, db_index=False)
    run = models.ForeignKey(
        Run, on_delete=models.PROTECT, related_name="model_calls", db_constraint=False, db_index=False
    )
    turn_no = models.IntegerField()
    at_revision = models.IntegerField()
    status = models.CharField(max_length=16)
    model = models.CharField(max_length=100)
    request_digest = models.CharField(max_length=64)
    response_digest = models.CharField(max_length=64, null=True)
    response_id = models.CharField(max_length=200, db_default="")
    input_tokens = models.BigIntegerField(null=True)
    output_tokens = models.BigIntegerField(null=True)
    attempts = models.IntegerField(db_default=1)
    retry_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(db_default=ClockTimestamp())
    sealed_at = models.DateTimeField(null=True)
    sealed_fence = models.BigIntegerField(null=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["run", "turn_no"], name="model_turn_once"),
            rule("model_call_status_known", among("status", ModelCallStatus)),
            rule(
                "model_call_sealed_has_answer",
                "CASE WHEN status = 'SEALED' THEN num_nonnulls(response_digest, sealed_at) = 2 "
                "ELSE response_digest IS NULL END",
            ),
            rule("model_call_retry_is_dated", "(status = 'RETRY_WAIT') = (retry_at IS NOT NULL)"),
        ]
        triggers: ClassVar = [
            Moves(name="legal_moves", field="status", transitions=MODEL_CALL_MOVES),
            starts_as(ModelCallStatus.DISPATCHED),
            no_delete(),
            no_truncate(),
        ]

    def __str__(self) -> str:
        return f"turn {self.turn_no}"


_IDENTITY = [
    *("run", "tool", "tool_version", "tool_hash", "effect_class", "proposed_by", "author", "instead_of"),
    *("step_name", "args_digest", "idempotency_key", "intent_key"),
]
_SETS_IDENTITY = pgtrigger.UpdateOf(  # type: ignore[no-untyped-call]
    *({"run": "run_id", "instead_of": "instead_of_id"}.get(field, field) for field in _IDENTITY)
)


class ToolCall(models.Model):
    """A logical call: one intent, one idempotency key, any number of attempts, at most one result."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, db_constraint=False, db_index=False)
    run = models.ForeignKey(
        Run, on_delete=models.PROTECT, related_name="tool_calls", db_constraint=False, db_index=False
    )
    ordinal = models.IntegerField()
    tool = models.CharField(max_length=100)
    tool_version = models.CharField(max_length=32)
    tool_hash = models.CharField(max_length=64)
    effect_class = models.CharField(max_length=16)
    proposed_by = models.CharField(max_length=8, db_default="MODEL")
    # Of a person's call: who wrote it, and the model's call that it stands for (T42).
    author = models.CharField(max_length=200, null=True)
    instead_of = models.ForeignKey(
        "self", on_delete=models.PROTECT, null=True, related_name="stand_ins", db_index=False, db_constraint=False
    )
    step_name = models.CharField(max_length=200)
    args_digest = models.CharField(max_length=64)
    args = models.BinaryField()
    data_key_id = models.UUIDField()
    idempotency_key = models.CharField(max_length=64)
    intent_key = models.CharField(max_length=64)
    status = models.CharField(max_length=20, db_default=CallStatus.PROPOSED)
    # What indexes ask of the status, in columns of their own: a move that changes neither rewrites no index.
    live = whether(among("status", sorted(LIVE_CALL)))
    unknown = whether(f"status = '{CallStatus.UNCERTAIN}'")
    blocking = models.BooleanField(db_default=True)
    contradicted = models.BooleanField(db_default=False)
    attempts = models.IntegerField(db_default=0)
    retry_at = models.DateTimeField(null=True)
    external_ref = models.CharField(max_length=500, null=True)
    error = models.CharField(max_length=500, db_default="")
    proposed_revision = models.IntegerField()
    turn_no = models.IntegerField()
    created_at = models.DateTimeField(db_default=ClockTimestamp())

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "id"], name="call_in_tenant"),
            models.UniqueConstraint(
                fields=["run", "idempotency_key"],
                condition=Q(live=True),
                name="one_live_call_per_key",
            ),
            rule("call_status_known", among("status", CallStatus)),
            rule("call_effect_class_known", among("effect_class", EffectClass)),
            rule(
                "call_of_a_person_has_author",
                "num_nonnulls(author, instead_of_id) = CASE proposed_by WHEN 'MODEL' THEN 0 WHEN 'HUMAN' THEN 2 ELSE -1 END",
            ),
            rule("call_retry_is_dated", "(status = 'RETRY_WAIT') = (retry_at IS NOT NULL)"),
            rule("call_sent_has_attempt", "attempts > 0 OR status <> ALL ('{DISPATCHED,UNCERTAIN}')"),
        ]
        indexes: ClassVar = [
            models.Index(fields=["run", "ordinal"], name="call_order"),
            models.Index(fields=["instead_of"], condition=Q(proposed_by="HUMAN"), name="call_stand_ins"),
            models.Index(fields=["tenant", "created_at"], condition=Q(unknown=True), name="call_unknown"),
        ]
        triggers: ClassVar = [
            Moves(name="legal_moves", field="status", transitions=CALL_MOVES),
            starts_as(CallStatus.PROPOSED, CallStatus.DISPATCHED),
            Frozen(name="identity_frozen", operation=_SETS_IDENTITY, fields=_IDENTITY),
            no_delete(),
            no_truncate(),
        ]

    def __str__(self) -> str:
        return f"{self.step_name} {self.status}"


class Proposal(models.Model):
    """One proposal of a sealed turn, in its order, and what became of it."""

    pk = models.CompositePrimaryKey("model_call_id", "ordinal")
    model_call = models.ForeignKey(ModelCall, on_delete=models.PROTECT, related_name="proposals", db_index=False)
    ordinal = models.IntegerField()
    tool = models.CharField(max_length=200)
    args_digest = models.CharField(max_length=64)
    disposition = models.CharField(max_length=8)
    tool_call = models.ForeignKey(ToolCall, on_delete=models.PROTECT, null=True, related_name="proposals")
    refusal = models.CharField(max_length=500, db_default="")

    class Meta:
        constraints: ClassVar = [
            rule(
                "proposal_names_its_call",
                "disposition = ANY (CASE WHEN tool_call_id IS NULL THEN '{REFUSED,FINISH}'::text[] "
                "ELSE '{NEW,REUSED}' END)",
            ),
        ]
        triggers: ClassVar = [append_only(), no_truncate()]

    def __str__(self) -> str:
        return f"{self.tool} {self.disposition}"


class Attempt(models.Model):
    """One try of a model call or a tool call. Committed before anything is sent; settled once."""

    tool_call = models.ForeignKey(ToolCall, on_delete=models.PROTECT, null=True, related_name="tries", db_index=False)
    model_call = models.ForeignKey(ModelCall, on_delete=models.PROTECT, null=True, related_name="tries", db_index=False)
    attempt_no = models.IntegerField()
    fence = models.BigIntegerField()
    dispatched_at = models.DateTimeField(db_default=ClockTimestamp())
    deadline_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    outcome = models.CharField(max_length=20, null=True)
    error = models.CharField(max_length=500, db_default="")
    response_digest = models.CharField(max_length=64, null=True)
    authorised_by = models.CharField(max_length=200)

    class Meta:
        constraints: ClassVar = [
            rule("attempt_of_one_receipt", "(tool_call_id IS NULL) <> (model_call_id IS NULL)"),
            rule(
                "attempt_outcome_is_dated",
                f"(outcome IS NULL) = (finished_at IS NULL) AND {among('outcome', AttemptOutcome)}",
            ),
            models.UniqueConstraint(
                fields=["tool_call", "attempt_no"], condition=Q(tool_call__isnull=False), name="tool_attempt_once"
            ),
            models.UniqueConstraint(
                fields=["model_call", "attempt_no"], condition=Q(model_call__isnull=False), name="model_attempt_once"
            ),
        ]
        triggers: ClassVar = [
            starts_without("NEW.outcome IS NOT NULL"),
            pgtrigger.Protect(
                name="settled_once",
                when=pgtrigger.After,
                operation=pgtrigger.Update,
                condition=pgtrigger.Q(old__outcome__isnull=False),
            ),
            no_delete(),
            no_truncate(),
        ]

    def __str__(self) -> str:
        return f"attempt {self.attempt_no}"


class Reconciliation(models.Model):
    """A verdict on a call of unknown outcome, with its evidence and who says so."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tool_call = models.ForeignKey(ToolCall, on_delete=models.PROTECT, related_name="reconciliations")
    verdict = models.CharField(max_length=16)
    follow_up = models.CharField(max_length=8)
    method = models.CharField(max_length=8)
    seen_attempts = models.IntegerField()
    evidence = models.TextField()
    external_ref = models.CharField(max_length=500, null=True)
    actor = models.CharField(max_length=200)
    at = models.DateTimeField(db_default=ClockTimestamp())

    class Meta:
        constraints: ClassVar = [
            one_of("verdict", list(Verdict), "verdict_known"),
            one_of("follow_up", list(FollowUp), "follow_up_known"),
            one_of("method", ["HUMAN", "PROBE"], "verdict_method_known"),
            models.CheckConstraint(
                condition=Q(verdict="NOT_EXECUTED") | Q(follow_up="NONE"), name="follow_up_needs_not_executed"
            ),
            models.CheckConstraint(condition=~Q(evidence=""), name="verdict_has_evidence"),
            models.UniqueConstraint(
                fields=["tool_call", "seen_attempts"],
                condition=~Q(verdict="PROCEED_UNKNOWN"),
                name="one_final_verdict_per_attempt",
            ),
        ]
        triggers: ClassVar = [append_only(), no_truncate()]

    def __str__(self) -> str:
        return self.verdict


class Result(models.Model):
    """The one accepted result of a logical call."""

    tool_call = models.OneToOneField(ToolCall, primary_key=True, on_delete=models.PROTECT, related_name="result")
    source = models.CharField(max_length=8)
    ok = models.BooleanField()
    attempt_no = models.IntegerField(null=True)
    value = models.BinaryField()
    data_key_id = models.UUIDField()
    digest = models.CharField(max_length=64)
    reconciliation = models.ForeignKey(Reconciliation, on_delete=models.PROTECT, null=True, db_index=False)
    # Of a question that a person has answered: the wait that keeps who did, and when.
    answered_wait_id = models.UUIDField(null=True)
    fence = models.BigIntegerField(null=True)
    at = models.DateTimeField(db_default=ClockTimestamp())

    class Meta:
        constraints: ClassVar = [
            rule("result_source_known", among("source", ResultSource)),
            rule(
                "result_asserted_has_verdict",
                "num_nonnulls(reconciliation_id, answered_wait_id) = (source = ANY ('{HUMAN,PROBE}'))::int "
                "AND (answered_wait_id IS NULL OR source = 'HUMAN')",
            ),
            rule("result_live_has_attempt", "source <> 'LIVE' OR attempt_no IS NOT NULL"),
        ]
        triggers: ClassVar = [append_only(), no_truncate()]

    def __str__(self) -> str:
        return f"{self.source} {'ok' if self.ok else 'not ok'}"


class Effect(models.Model):
    """An effect that is known to have happened outside this run's memory."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, db_constraint=False, db_index=False)
    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="effects", db_constraint=False)
    tool_call = models.OneToOneField(ToolCall, on_delete=models.PROTECT, related_name="effect")
    idempotency_key = models.CharField(max_length=64, unique=True)
    kind = models.CharField(max_length=100)
    target = models.CharField(max_length=200)
    external_ref = models.CharField(max_length=500, null=True)
    payload_digest = models.CharField(max_length=64)
    at = models.DateTimeField(db_default=ClockTimestamp())

    class Meta:
        triggers: ClassVar = [append_only(), no_truncate()]

    def __str__(self) -> str:
        return f"{self.kind} at {self.target}"


class Claim(models.Model):
    """An intent with an effect, claimed once per lineage while it is live (ruling 25)."""

    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT)
    lineage_id = models.UUIDField()
    intent_key = models.CharField(max_length=64)
    tool_call = models.OneToOneField(ToolCall, on_delete=models.PROTECT, related_name="claim")
    released_at = models.DateTimeField(null=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["tenant", "lineage_id", "intent_key"],
                condition=Q(released_at=None),
                name="one_live_claim_per_intent",
            ),
        ]
        triggers: ClassVar = [no_delete(), no_truncate()]

    def __str__(self) -> str:
        return self.intent_key


class SecondEffect(models.Model):
    """A person's leave for one effect more of an intent that has happened in a lineage: it adds an epoch to its step (T07)."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT)
    lineage_id = models.UUIDField()
    intent_key = models.CharField(max_length=64)
    tool_call = models.ForeignKey(ToolCall, on_delete=models.PROTECT, related_name="second_effects")
    granted_by = models.CharField(max_length=200)
    reason = models.TextField()
    at = models.DateTimeField(db_default=ClockTimestamp())

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "lineage_id", "intent_key"], name="second_effect_once"),
            models.CheckConstraint(condition=~Q(reason=""), name="second_effect_has_reason"),
        ]
        triggers: ClassVar = [append_only(), no_truncate()]

    def __str__(self) -> str:
        return self.intent_key
