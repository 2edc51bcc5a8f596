"""Dispatch: commit that a call is sent, under fence, stop and budget, before anything is sent."""

from typing import Any

from django.db import transaction

from approvals.policies import Ruling
from approvals.services import arguments_intact, ruling_record, wait_consume
from checkpoints.errors import Unreadable
from checkpoints.services import SaveRefused, conflict
from checkpoints.statements import save_params
from checkpoints.states import Phase, Trigger
from receipts.selectors import call_arguments
from receipts.services import ReportText, claim_take, publication_exists, report_version_store
from receipts.states import EffectClass
from runs.errors import LeaseLost
from runs.faults import reach
from runs.leases import lease_lock
from runs.live import hint_changed
from runs.statements import Purse, fence_params
from runtime import guards
from runtime.contracts import Arguments, Tool
from runtime.loop.budget import TOOL_RESERVE, not_started
from runtime.loop.lineage import ClaimedElsewhere
from runtime.registry import tool_of
from runtime.session import Sending, Session
from runtime.statements import DISPATCH_AGAIN, DISPATCH_CALL, Written, write


class _NotSent(Exception):
    """Rolls the dispatch back: new work may not start now, a guard failed, or the approval can't be used any more."""

    def __init__(self, written: Written | None = None, failed: guards.Failed | None = None) -> None:
        super().__init__()
        self.written = written
        self.failed = failed


def dispatch_first(
    session: Session, call: Any, *, authorised_by: str, wait: Any = None, ruling: Ruling | None = None
) -> bool:
    """Send a recorded call for the first time. One commit: [wait and wakeup CONSUMED or what the policy said, claim, call
    DISPATCHED with its attempt, publication DISPATCHED, head AWAITING_TOOL_RESULT, budget] (ruling 4).

    The guards 9 to 12 are asked inside it, on rows that stay as they are until the commit (ruling 4). Returns False when the
    run was given back instead. An approval that has lapsed since it was checked is not used: the next step looks at it
    again.
    """
    tool, args = bound_tool(session, call)
    snapshot = session.next_snapshot(Phase.AWAITING_TOOL_RESULT, node="act")
    prepared = session.prepared(snapshot, Trigger.CURSOR, go=True)
    params = fence_params(session.holding) | save_params([prepared], key_id=session.key_id)
    params |= _dispatch_params(call, tool, authorised_by, ["PROPOSED", "AWAITING_APPROVAL"])
    purse = Purse().reserve(call.id, call.attempts + 1, TOOL_RESERVE)
    try:
        with transaction.atomic():
            if lease_lock(session.holding) is None:
                raise LeaseLost
            failed = guards.approval(session, call, wait) if wait is not None else guards.unasked(session, call)
            if failed is not None:
                raise _NotSent(failed=failed)
            if wait is not None and not wait_consume(wait, fence=session.holding.fence):
                raise _NotSent
            if ruling is not None:
                ruling_record(call, ruling)
            prepare_effect(session, call, tool, args)
            reach("inside_dispatch_tx", call.tool)
            written = write(DISPATCH_CALL, params | purse.params())
            if written.started is None:
                raise _NotSent(written)
    except _NotSent as refused:
        if refused.failed is not None and refused.failed.holds:
            return guards.hold(session, refused.failed)
        if refused.written is not None and refused.written.go and not refused.written.done:
            raise SaveRefused(conflict(prepared)) from refused
        return refused.written is None or not_started(session, refused.written)
    if wait is not None:
        reach("after_wake_consumed", call.tool)
    session.moved(snapshot, prepared.digest)
    _now_sending(session, call, tool, args, written)
    return True


def dispatch_again(session: Session, call: Any, *, authorised_by: str) -> bool:
    """Send the same logical call another time: same id, same key, one attempt more. The head does not move.

    Where a verdict on the call came in between, nothing is written and the next step looks at it again.
    """
    tool, args = bound_tool(session, call)
    params = fence_params(session.holding) | _dispatch_params(call, tool, authorised_by, ["UNCERTAIN", "RETRY_WAIT"])
    purse = Purse().reserve(call.id, call.attempts + 1, TOOL_RESERVE)
    with transaction.atomic():
        failed = guards.retry(session, call)
        if failed is None:
            written = write(DISPATCH_AGAIN, params | purse.params())
        if failed is not None or written.started is None:
            transaction.set_rollback(True)
    if failed is not None:
        return guards.hold(session, failed)
    if written.started is None:
        return written.go or not_started(session, written)
    _now_sending(session, call, tool, args, written)
    return True


def bound_tool(session: Session, call: Any) -> tuple[Tool, Arguments]:
    """The pinned tool of a stored call, and its arguments read back from the stored canonical bytes.

    Raises Unreadable where these are not the bytes that the call was recorded with.
    """
    tool = tool_of(session.spec, call.tool)
    if tool is None:
        raise LookupError(f"the pinned agent version has no tool {call.tool}")
    if not arguments_intact(call):
        raise Unreadable("DIGEST_MISMATCH", f"the arguments of call {call.id} are not the recorded ones")
    return tool, tool.arguments.model_validate_json(call_arguments(call))


def prepare_effect(session: Session, call: Any, tool: Tool, args: Arguments) -> None:
    """Before a call with an effect is asked for or sent: its claim on the lineage, and the version it would publish.

    Raises ClaimedElsewhere.
    """
    if tool.effect_class != EffectClass.READ_ONLY:
        holder = claim_take(call, lineage_id=session.run.lineage_id)
        if holder is not None:
            raise ClaimedElsewhere(call, holder)
    if not tool.publishes or publication_exists(call):
        return
    draft = tool.draft(args, session.results)
    if draft is None:
        raise LookupError(f"{tool.key} publishes, but drafts nothing")
    report_version_store(
        call,
        ReportText(draft.slug, draft.title, draft.body, draft.source_calls),
        thread_id=session.run.thread_id,
        fence=session.holding.fence,
        channel=tool.publishes,
    )


def _dispatch_params(call: Any, tool: Tool, authorised_by: str, sources: list[str]) -> dict[str, Any]:
    return {
        "call": call.id,
        "call_from": sources,
        "call_timeout": tool.timeout_seconds,
        "call_authorised_by": authorised_by,
    }


def _now_sending(session: Session, call: Any, tool: Tool, args: Arguments, written: Written) -> None:
    if written.started is None:
        raise LeaseLost
    session.sending = Sending(
        call_id=call.id,
        attempt=written.started,
        tool=tool,
        args=args,
        args_digest=call.args_digest,
        step_name=call.step_name,
        key=call.idempotency_key,
    )
    hint_changed(tenant_id=session.run.tenant_id, run_id=session.run.id)
