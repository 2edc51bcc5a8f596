"""Records of waits and their decisions."""

from typing import Any
from uuid import UUID

from django.db.models import Prefetch, QuerySet
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from accounts.codec import BodyChanged
from accounts.errors import Refused
from accounts.states import Actor
from approvals.models import Answer, Assignment, Decision, Vote, Wait
from approvals.selectors import access_wait, answer_value
from approvals.services import Answered, Decided, wait_looked
from approvals.states import (
    LIVE_WAIT,
    WAKES_A_WAIT,
    AnswerKind,
    DecisionVerdict,
    OnDeadline,
    Risk,
    WaitKind,
    WaitStatus,
)
from console.records import masks_in, record_for
from console.records.calls import arguments_of
from receipts.states import EffectClass
from runtime.masking import Mask


class DecisionRecord(serializers.Serializer[Decision]):
    """What was decided, by whom, and what they were shown."""

    verdict = serializers.ChoiceField(choices=list(DecisionVerdict))
    by = serializers.CharField(source="actor")
    reason = serializers.CharField()
    at = serializers.DateTimeField()
    seen_revision = serializers.IntegerField()
    seen_digest = serializers.CharField()
    seen_args_digest = serializers.CharField()


class VoteRecord(serializers.Serializer[Vote]):
    """What one person said. `voice` is whose authority it has: their own, or that of who has them decide meanwhile."""

    id = serializers.UUIDField()
    by = serializers.CharField(source="actor")
    voice = serializers.CharField()
    verdict = serializers.ChoiceField(choices=list(DecisionVerdict))
    reason = serializers.CharField()
    at = serializers.DateTimeField()
    withdrawn_at = serializers.DateTimeField(allow_null=True)
    withdrawn_because = serializers.CharField(source="withdrawal_reason")


class AnswerRecord(serializers.Serializer[Answer]):
    """What a person has answered to a question. `value` is null if the stored bytes lost their digest; of a file it is its name,
    digest and size.
    """

    kind = serializers.ChoiceField(choices=list(AnswerKind))
    digest = serializers.CharField()
    value = serializers.SerializerMethodField(method_name="get_stored")

    @extend_schema_field(serializers.JSONField(allow_null=True))
    def get_stored(self, answer: Answer) -> Any:
        try:
            return answer_value(answer)
        except BodyChanged:
            return None


class WaitSummary(serializers.Serializer[Wait]):
    """A wait as its run lists it. Revision and both digests are what a decision has to name."""

    id = serializers.UUIDField()
    kind = serializers.ChoiceField(choices=list(WaitKind))
    status = serializers.ChoiceField(choices=list(WaitStatus))
    revision = serializers.IntegerField(source="checkpoint_revision")
    digest = serializers.CharField(source="checkpoint_digest")
    args_digest = serializers.CharField()
    call = serializers.UUIDField(source="tool_call_id")
    step = serializers.CharField(source="tool_call.step_name")
    tool = serializers.CharField(source="tool_call.tool")
    deadline = serializers.DateTimeField()


class WaitRecord(WaitSummary):
    """A wait with everything that one decides by. Of a question the arguments are what is asked. `arguments` is null if the stored
    bytes lost their digest; `masked` are the places in it that are not shown to whoever asks, with which nothing is approved: ask
    for the wait by itself. `wakes_by`:
    what may reconnect it to its run, at the revision and digest that it is bound to.
    """

    run = serializers.UUIDField(source="run_id")
    run_title = serializers.CharField(source="run.title")
    tool_version = serializers.CharField(source="tool_call.tool_version")
    effect_class = serializers.ChoiceField(source="tool_call.effect_class", choices=list(EffectClass))
    arguments = serializers.SerializerMethodField()
    masked = serializers.SerializerMethodField()
    author = serializers.CharField(source="tool_call.author", allow_null=True)
    why = serializers.CharField(source="policy_rule")
    quorum = serializers.IntegerField()
    required_role = serializers.CharField()
    required_group = serializers.CharField()
    starter_may_decide = serializers.BooleanField()
    dwell_seconds = serializers.IntegerField()
    step_up = serializers.BooleanField()
    risk = serializers.ChoiceField(choices=list(Risk))
    batchable = serializers.BooleanField()
    on_deadline = serializers.ChoiceField(choices=list(OnDeadline))
    validity_seconds = serializers.IntegerField()
    reminder_seconds = serializers.IntegerField(allow_null=True)
    escalate_seconds = serializers.IntegerField(allow_null=True)
    escalate_to = serializers.CharField()
    escalated_at = serializers.DateTimeField(allow_null=True)
    opened_at = serializers.DateTimeField()
    valid_until = serializers.DateTimeField(allow_null=True)
    closed_at = serializers.DateTimeField(allow_null=True)
    wakes_by = serializers.SerializerMethodField()
    closed_because = serializers.CharField(source="status_reason")
    decision = DecisionRecord(allow_null=True)
    answer = serializers.SerializerMethodField()
    votes = serializers.SerializerMethodField()
    looked_at_by = serializers.SerializerMethodField()

    @extend_schema_field(AnswerRecord(allow_null=True))
    def get_answer(self, wait: Wait) -> Any:
        answer = getattr(wait, "answer", None)
        return None if answer is None else AnswerRecord(answer).data

    @extend_schema_field(VoteRecord(many=True))
    def get_votes(self, wait: Wait) -> list[Any]:
        votes = sorted(wait.votes.all(), key=lambda vote: vote.at)
        return [VoteRecord(vote).data for vote in votes]

    @extend_schema_field(serializers.CharField(allow_null=True))
    def get_looked_at_by(self, wait: Wait) -> str | None:
        return next((one.person for one in wait.assignments.all() if one.ended_at is None), None)

    @extend_schema_field(serializers.ListField(child=serializers.CharField()))
    def get_wakes_by(self, wait: Wait) -> list[str]:
        return list(WAKES_A_WAIT) if wait.status in LIVE_WAIT else []

    def get_arguments(self, wait: Wait) -> dict[str, Any] | None:
        return arguments_of(wait.tool_call, self._mask(wait))

    @extend_schema_field(serializers.ListField(child=serializers.CharField()))
    def get_masked(self, wait: Wait) -> list[str]:
        return list(self._mask(wait).paths)

    def _mask(self, wait: Wait) -> Mask:
        return masks_in(self).of(wait.tool_call, run=wait.run)


def wait_shown(actor: Actor, id: UUID, *, looks: bool = False) -> dict[str, Any]:
    """The record of the one wait that somebody asked for, as they may see it; with `looks`, that they have looked at it is stored where
    all of it was shown. Raises NotFound.
    """
    record = record_for(actor, WaitRecord, access_wait(actor=actor, id=id))
    if looks and record["arguments"] is not None and not record["masked"]:
        wait_looked(actor=actor, wait_id=id)
    return record


def wait_rows(waits: QuerySet[Wait]) -> QuerySet[Wait]:
    """The same waits with what their records need, in one query."""
    looking = Prefetch("assignments", Assignment.objects.filter(ended_at=None))
    return waits.select_related("run", "tool_call", "decision", "answer").prefetch_related("votes", looking)


class BatchAnswer(serializers.Serializer[Answered]):
    """What came of one item: the state of its wait now, and how many have approved; or why nothing was decided."""

    wait = serializers.UUIDField(source="wait_id")
    outcome = serializers.ChoiceField(choices=["DECIDED", "VOTED", "REFUSED"])
    code = serializers.CharField()
    detail = serializers.CharField()


def batch_answer(answered: Answered) -> dict[str, Any]:
    """What came of one item of a batch, for programs."""
    outcome = answered.outcome
    said = {"wait": str(answered.wait_id), "code": "", "detail": ""}
    if isinstance(outcome, Refused):
        return {**said, "outcome": "REFUSED", "code": outcome.code, "detail": outcome.sentence}
    return {**said, "outcome": "DECIDED" if isinstance(outcome, Decided) else "VOTED"}
