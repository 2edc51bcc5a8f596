"""Flags where evidence speaks against what was accepted (T38)."""

from dataclasses import dataclass

from accounts.models import ClockTimestamp
from receipts.models import Contradiction, ToolCall
from receipts.selectors import accepted_outcome
from receipts.states import Closing, EvidenceSource, Verdict


@dataclass(frozen=True)
class Against:
    """Something that speaks of one attempt of a call: whether it happened, and how one knows."""

    attempt_no: int
    source: EvidenceSource
    says: Verdict
    evidence: str
    external_ref: str | None
    raised_by: str


def contradiction_raise(call: ToolCall, against: Against) -> Contradiction | None:
    """Raise a flag where evidence speaks against what was accepted (T38). The call must be locked.

    It flips nothing. While it is open, the call is not sent again: DISPATCH asks for it on the call's own row. Returns
    None where nothing is contradicted or where the same source has an open flag already.
    """
    accepted = accepted_outcome(call, against.attempt_no)
    if accepted is None or accepted == against.says:
        return None
    same = Contradiction.objects.filter(tool_call=call, attempt_no=against.attempt_no, source=against.source)
    if same.filter(closed_at=None).exists():
        return None
    ToolCall.objects.filter(id=call.id).update(contradicted=True)
    return Contradiction.objects.create(tenant_id=call.tenant_id, tool_call=call, accepted=accepted, **vars(against))


def contradiction_close(flag: Contradiction, *, closing: Closing, reason: str, actor: str) -> None:
    """Close a flag on a person's word. The call, which must be locked, may be sent again once no flag of it is open."""
    Contradiction.objects.filter(id=flag.id, closed_at=None).update(
        closing=closing, closing_reason=reason, closed_by=actor, closed_at=ClockTimestamp()
    )
    if not Contradiction.objects.filter(tool_call_id=flag.tool_call_id, closed_at=None).exists():
        ToolCall.objects.filter(id=flag.tool_call_id).update(contradicted=False)
