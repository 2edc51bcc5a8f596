"""Looks under the key of a call that people ask for: evidence, never a verdict."""

from datetime import timedelta
from uuid import UUID

from accounts.models import ClockTimestamp
from receipts.models import Probe, ToolCall
from receipts.states import Found
from runs.canonical import bounded

LOST_AFTER_SECONDS = 30.0  # beyond the tool's own limit: whoever asked is gone, and the next look may be asked for


def probe_open(call: ToolCall, *, asked_by: str, limit: float) -> Probe | None:
    """Store that somebody is asked about a locked call, before anybody is. None where another look is under way.

    `limit`: the seconds that one look has. One that nobody answered long after that is closed: it told nothing.
    """
    before = Probe.objects.filter(tool_call=call, answered_at=None)
    gone = ClockTimestamp() - timedelta(seconds=limit + LOST_AFTER_SECONDS)
    before.filter(asked_at__lt=gone).update(
        found=Found.UNTOLD, how="whoever asked was lost before the answer", answered_at=ClockTimestamp()
    )
    if before.exists():
        return None
    return Probe.objects.create(tenant_id=call.tenant_id, tool_call=call, attempt_no=call.attempts, asked_by=asked_by)


def probe_answer(probe_id: UUID, *, found: Found, how: str, external_ref: str | None, early: bool) -> bool:
    """Store what a look has found, once. False where it counts as lost already."""
    said = {"found": found, "how": bounded(how, 200), "external_ref": external_ref, "early": early}
    return bool(Probe.objects.filter(id=probe_id, answered_at=None).update(answered_at=ClockTimestamp(), **said))
