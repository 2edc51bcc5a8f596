"""Reads of what people, probes and late answers say of a call."""

from collections.abc import Sequence
from uuid import UUID

from django.db.models import QuerySet

from accounts.errors import NotFound
from accounts.states import Actor, Permission
from receipts.models import Attachment, Contradiction, Effect, FirstWord, Probe, Reconciliation, Result, ToolCall
from receipts.selectors.calls import call_result
from receipts.states import EffectClass, EvidenceSource, Verdict
from runs.models import Refusal
from runs.states import RefusalKind


def final_verdict(call: ToolCall) -> Reconciliation | None:
    """The verdict on a call's newest attempt that says whether it happened, or None. There is one at most."""
    said = Reconciliation.objects.filter(tool_call=call, seen_attempts=call.attempts)
    return said.exclude(verdict=Verdict.PROCEED_UNKNOWN).first()


def verdicts_on(call_id: UUID) -> int:
    """How many verdicts a call has."""
    return Reconciliation.objects.filter(tool_call_id=call_id).count()


def accepted_outcome(call: ToolCall, attempt_no: int) -> Verdict | None:
    """What was accepted about whether one attempt of a call with an effect happened: EXECUTED, NOT_EXECUTED, or None.

    A verdict speaks of all attempts that it has seen. EXECUTED says of one attempt that it happened only where there was
    no other one; a stored failure says that no attempt happened.
    """
    verdicts = list(Reconciliation.objects.filter(tool_call=call))
    return accepted_by(call, attempt_no, verdicts=verdicts, result=call_result(call))


def accepted_by(
    call: ToolCall, attempt_no: int, *, verdicts: Sequence[Reconciliation], result: Result | None
) -> Verdict | None:
    """The same, by all verdicts on a call and its accepted result."""
    if call.effect_class == EffectClass.READ_ONLY:
        return None
    final = [one for one in verdicts if one.verdict != Verdict.PROCEED_UNKNOWN and one.seen_attempts >= attempt_no]
    verdict = min(final, key=lambda one: one.seen_attempts, default=None)
    if verdict is not None and (verdict.verdict == Verdict.NOT_EXECUTED or verdict.seen_attempts == 1):
        return Verdict(verdict.verdict)
    return Verdict.NOT_EXECUTED if verdict is None and result is not None and not result.ok else None


def late_answers(call: ToolCall) -> list[Refusal]:
    """Answers that came after their worker had lost its lease: evidence that was not accepted (T29), the oldest first."""
    late = Refusal.objects.filter(run_id=call.run_id, subject_id=call.id, kind=RefusalKind.LATE_RESULT)
    return list(late.order_by("id"))


def contradictions_visible(actor: Actor) -> QuerySet[Contradiction]:
    """The flags of the actor's tenant; none without the permission to read."""
    if not actor.may(Permission.READ):
        return Contradiction.objects.none()
    return Contradiction.objects.filter(tenant_id=actor.tenant_id)


def access_contradiction(*, actor: Actor, id: UUID) -> Contradiction:
    """The flag with this id in the actor's tenant. Raises NotFound."""
    flag = contradictions_visible(actor).select_related("tool_call__run").filter(id=id).first()
    if flag is None:
        raise NotFound
    return flag


def contradiction_now(id: UUID) -> Contradiction:
    """A flag as it is stored now, for an act that has locked its call."""
    return Contradiction.objects.get(id=id)


def access_attachment(*, actor: Actor, call_id: UUID, id: UUID) -> Attachment:
    """A file beside a call of the actor's tenant. Raises NotFound."""
    if not actor.may(Permission.READ):
        raise NotFound
    row = Attachment.objects.filter(tenant_id=actor.tenant_id, tool_call_id=call_id, id=id).first()
    if row is None:
        raise NotFound
    return row


def attachments_of(call: ToolCall) -> list[Attachment]:
    """The files beside a call, the oldest first."""
    return list(Attachment.objects.filter(tool_call=call).order_by("added_at", "id"))


def open_word(call: ToolCall) -> FirstWord | None:
    """What one person said of the newest attempt of a call and no second one has answered, or None."""
    return FirstWord.objects.filter(tool_call=call, closed_at=None, seen_attempts=call.attempts).first()


def last_probe(call: ToolCall) -> Probe | None:
    """The newest look that a person asked for, answered or not."""
    return Probe.objects.filter(tool_call=call).order_by("-asked_at").first()


def doubt_answered(call: ToolCall, source: EvidenceSource) -> bool:
    """Whether a person has already closed a flag of this source about the newest attempt: it is not raised again."""
    flags = Contradiction.objects.filter(tool_call=call, attempt_no=call.attempts, source=source)
    return flags.filter(closed_at__isnull=False).exists()


def journal_entry(call: ToolCall) -> Effect | None:
    """The row of the effect journal under a call's key. It is committed with what the call did, so without it nothing was
    done; only an effect on this database can be looked up so.
    """
    return Effect.objects.filter(idempotency_key=call.idempotency_key).first()


def last_verdict(call: ToolCall) -> Reconciliation | None:
    """The newest verdict on a call."""
    return Reconciliation.objects.filter(tool_call=call).order_by("-at").first()
