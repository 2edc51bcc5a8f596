"""Records of tool calls: what was asked, each try, what came of it, and what people said about it."""

from typing import Any
from uuid import UUID

from django.db.models import Prefetch, QuerySet, prefetch_related_objects
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from accounts.codec import BodyChanged
from accounts.states import Actor
from approvals.models import PolicyDecision
from approvals.selectors import two_have_to_say
from approvals.services import arguments_intact
from approvals.states import PolicyOutcome
from console.pages.tool_facts import places_of
from console.records import masks_in, record_for, records_of
from console.records.budgets import MovementRecord, settled
from console.records.contradictions import ContradictionRecord
from receipts.models import (
    Attachment,
    Attempt,
    Contradiction,
    Effect,
    FirstWord,
    Probe,
    Publication,
    Reconciliation,
    Result,
    ToolCall,
)
from receipts.selectors import access_call, late_answers, result_bytes
from receipts.states import (
    AttemptOutcome,
    CallStatus,
    EffectClass,
    FollowUp,
    Found,
    PublicationStatus,
    ResultSource,
    Verdict,
    WordClosing,
)
from runs.canonical import digest, parse
from runs.models import BudgetEntry, Refusal
from runs.selectors import budget_entries
from runtime.masking import Mask
from runtime.services import can_probe


def arguments_of(call: ToolCall, mask: Mask) -> dict[str, Any] | None:
    """The arguments of a call as they are shown, or None when the stored bytes no longer have the digest they were recorded with."""
    if not arguments_intact(call):
        return None
    arguments: dict[str, Any] = mask.arguments.value
    return arguments


class CallSummary(serializers.Serializer[ToolCall]):
    """A call as its run lists it. `attempts` counts how often it was sent."""

    id = serializers.UUIDField()
    ordinal = serializers.IntegerField()
    step = serializers.CharField(source="step_name")
    tool = serializers.CharField()
    effect_class = serializers.ChoiceField(choices=list(EffectClass))
    status = serializers.ChoiceField(choices=list(CallStatus))
    attempts = serializers.IntegerField()
    args_digest = serializers.CharField()
    external_ref = serializers.CharField(allow_null=True)


class CallRecord(CallSummary):
    """A call with its arguments and its keys. `arguments` is null if the stored bytes lost their digest; `masked` are the
    places in it that hold a type, a length and a digest instead of a value. A person's call (HUMAN) names its `author` and
    the model's call that it stands for.
    """

    run = serializers.UUIDField(source="run_id")
    run_title = serializers.CharField(source="run.title")
    tool_version = serializers.CharField()
    arguments = serializers.SerializerMethodField()
    masked = serializers.SerializerMethodField()
    idempotency_key = serializers.CharField()
    blocking = serializers.BooleanField()
    error = serializers.CharField()
    retry_at = serializers.DateTimeField(allow_null=True)
    proposed_revision = serializers.IntegerField()
    proposed_by = serializers.ChoiceField(choices=["MODEL", "HUMAN"])
    author = serializers.CharField(allow_null=True)
    instead_of = serializers.UUIDField(source="instead_of_id", allow_null=True)
    created_at = serializers.DateTimeField()

    def get_arguments(self, call: ToolCall) -> dict[str, Any] | None:
        return arguments_of(call, masks_in(self).of(call))

    @extend_schema_field(serializers.ListField(child=serializers.CharField()))
    def get_masked(self, call: ToolCall) -> list[str]:
        return list(masks_in(self).of(call).paths)


class AttemptRecord(serializers.Serializer[Attempt]):
    """One try. `outcome` is null while nobody knows it."""

    attempt_no = serializers.IntegerField()
    fence = serializers.IntegerField()
    authorised_by = serializers.CharField()
    dispatched_at = serializers.DateTimeField()
    finished_at = serializers.DateTimeField(allow_null=True)
    outcome = serializers.ChoiceField(choices=list(AttemptOutcome), allow_null=True)
    error = serializers.CharField()


class VerdictRecord(serializers.Serializer[Reconciliation]):
    """What a person or a probe said about an unknown outcome, and on what evidence."""

    verdict = serializers.ChoiceField(choices=list(Verdict))
    then = serializers.ChoiceField(source="follow_up", choices=list(FollowUp))
    method = serializers.CharField()
    evidence = serializers.CharField()
    external_ref = serializers.CharField(allow_null=True)
    seen_attempts = serializers.IntegerField()
    by = serializers.CharField(source="actor")
    at = serializers.DateTimeField()


class ResultRecord(serializers.Serializer[Result]):
    """The one accepted result. `value` is null if the stored bytes lost their digest; it repeats nothing that is masked of the arguments."""

    ok = serializers.BooleanField()
    origin = serializers.ChoiceField(source="source", choices=list(ResultSource))
    value = serializers.SerializerMethodField("read_value")
    digest = serializers.CharField()
    at = serializers.DateTimeField()

    def read_value(self, result: Result) -> dict[str, Any] | None:
        try:
            stored = result_bytes(result)
        except BodyChanged:
            return None
        if digest(stored) != result.digest:
            return None
        value: dict[str, Any] = masks_in(self).of(result.tool_call).value(parse(stored))
        return value


class EffectRecord(serializers.Serializer[Effect]):
    """An effect that is known to have happened."""

    kind = serializers.CharField()
    target = serializers.CharField()
    external_ref = serializers.CharField(allow_null=True)
    at = serializers.DateTimeField()


class PublicationRecord(serializers.Serializer[Publication]):
    """A report version on a channel."""

    channel = serializers.CharField()
    status = serializers.ChoiceField(choices=list(PublicationStatus))
    external_ref = serializers.CharField(allow_null=True)
    changed_at = serializers.DateTimeField()


class LateRecord(serializers.Serializer[Refusal]):
    """An answer that came after its worker had lost its lease. Evidence that was not accepted; it decides nothing."""

    at = serializers.DateTimeField()
    attempt_no = serializers.IntegerField(source="detail.attempt")
    outcome = serializers.CharField(source="detail.outcome", default=None)
    said = serializers.CharField(source="detail.said", default="")
    external_ref = serializers.CharField(source="detail.external_ref", default=None)
    digest = serializers.CharField(source="evidence_digest")


class PlaceRecord(serializers.Serializer[Any]):
    """Where a person can look in the other system, and what for, as the tool's owner names it."""

    what = serializers.CharField()
    url = serializers.CharField()


class WordRecord(serializers.Serializer[FirstWord]):
    """What a first person said where two have to say the same. It settles nothing; `closing` is null while a second one is awaited."""

    verdict = serializers.ChoiceField(choices=list(Verdict))
    then = serializers.ChoiceField(source="follow_up", choices=list(FollowUp))
    evidence = serializers.CharField()
    external_ref = serializers.CharField(allow_null=True)
    seen_attempts = serializers.IntegerField()
    by = serializers.CharField(source="actor")
    at = serializers.DateTimeField()
    closing = serializers.ChoiceField(choices=list(WordClosing), allow_null=True)


class AttachmentRecord(serializers.Serializer[Attachment]):
    """A file that a person has put beside the call. Its bytes are at `/calls/{id}/attachments/{attachment}/`."""

    id = serializers.UUIDField()
    filename = serializers.CharField()
    sha256 = serializers.CharField()
    size = serializers.IntegerField()
    note = serializers.CharField()
    by = serializers.CharField(source="added_by")
    at = serializers.DateTimeField(source="added_at")


class ProbeRecord(serializers.Serializer[Probe]):
    """A look that a person asked for. What it found was observed and not accepted: it is evidence, no verdict. `found` is null while nobody has answered; `early`: what was not there then may have come after it."""

    attempt_no = serializers.IntegerField()
    by = serializers.CharField(source="asked_by")
    asked_at = serializers.DateTimeField()
    answered_at = serializers.DateTimeField(allow_null=True)
    found = serializers.ChoiceField(choices=list(Found), allow_null=True)
    early = serializers.BooleanField()
    how = serializers.CharField()
    external_ref = serializers.CharField(allow_null=True)


class PolicySaidRecord(serializers.Serializer[PolicyDecision]):
    """What policy said about a call, by which version and rule; a standing grant that stood for a person is named in the rule."""

    outcome = serializers.ChoiceField(choices=list(PolicyOutcome))
    version = serializers.CharField(source="policy_version")
    rule = serializers.CharField()
    verdict_people = serializers.IntegerField(help_text="who have to say the same of its outcome, if nobody knows it")
    at = serializers.DateTimeField()


class CallDetail(CallRecord):
    """A call with its tries, its result and effect, and every verdict on it.

    Three questions apart (A-065): was it `sent`; is its `outcome` NONE (never sent, or closed before), KNOWN or UNKNOWN; is
    what it reserved of the budget `settled`.
    """

    policy = serializers.SerializerMethodField()
    tries = AttemptRecord(many=True)
    result = ResultRecord(allow_null=True)
    effect = EffectRecord(allow_null=True)
    publication = PublicationRecord(allow_null=True)
    verdicts = VerdictRecord(source="reconciliations", many=True)
    sent = serializers.SerializerMethodField()
    outcome = serializers.SerializerMethodField()
    settled = serializers.SerializerMethodField()
    budget = serializers.SerializerMethodField()
    late_answers = serializers.SerializerMethodField()
    contradictions = ContradictionRecord(many=True)
    probes = ProbeRecord(many=True)
    attachments = AttachmentRecord(many=True)
    two_needed = serializers.SerializerMethodField()
    first_words = WordRecord(many=True)
    can_probe = serializers.SerializerMethodField()
    places = serializers.SerializerMethodField()

    def get_two_needed(self, call: ToolCall) -> bool:
        return call.status == CallStatus.UNCERTAIN and two_have_to_say(call)

    def get_can_probe(self, call: ToolCall) -> bool:
        return can_probe(call)

    @extend_schema_field(PlaceRecord(many=True))
    def get_places(self, call: ToolCall) -> list[dict[str, Any]]:
        return [vars(place) for place in places_of(call)]

    @extend_schema_field(PolicySaidRecord(many=True))
    def get_policy(self, call: ToolCall) -> list[dict[str, Any]]:
        return records_of(PolicySaidRecord, PolicyDecision.objects.filter(tool_call=call).order_by("at"))

    def get_sent(self, call: ToolCall) -> bool:
        return call.attempts > 0

    @extend_schema_field(serializers.ChoiceField(choices=["NONE", "KNOWN", "UNKNOWN"]))
    def get_outcome(self, call: ToolCall) -> str:
        if call.status in (CallStatus.DISPATCHED, CallStatus.UNCERTAIN):
            return "UNKNOWN"
        return "KNOWN" if hasattr(call, "result") else "NONE"

    def get_settled(self, call: ToolCall) -> bool:
        return settled(self._moved(call))

    @extend_schema_field(MovementRecord(many=True))
    def get_budget(self, call: ToolCall) -> list[dict[str, Any]]:
        return records_of(MovementRecord, self._moved(call))

    def _moved(self, call: ToolCall) -> list[BudgetEntry]:
        return budget_entries([call.id]).get(call.id, [])

    @extend_schema_field(LateRecord(many=True))
    def get_late_answers(self, call: ToolCall) -> list[dict[str, Any]]:
        return [LateRecord(row).data for row in late_answers(call)]


def call_rows(calls: QuerySet[ToolCall]) -> QuerySet[ToolCall]:
    """The same calls with what their records need, in one query."""
    return calls.select_related("run")


def call_shown(actor: Actor, id: UUID) -> dict[str, Any]:
    """The detail of the one call that somebody asked for, as they may see it. Raises NotFound."""
    return record_for(actor, CallDetail, call_with_parts(access_call(actor=actor, id=id)))


def call_with_parts(call: ToolCall) -> ToolCall:
    """A call with what its detail needs, in a fixed number of queries."""
    parts: list[Any] = [
        Prefetch("tries", Attempt.objects.order_by("attempt_no")),
        Prefetch("contradictions", Contradiction.objects.select_related("tool_call").order_by("raised_at", "id")),
        Prefetch("attachments", Attachment.objects.order_by("added_at", "id")),
        Prefetch("first_words", FirstWord.objects.order_by("at", "id")),
        Prefetch("probes", Probe.objects.order_by("asked_at", "id")),
        Prefetch("reconciliations", Reconciliation.objects.order_by("at", "id")),
        *("result", "effect", "publication"),
    ]
    prefetch_related_objects([call], *parts)
    return call
