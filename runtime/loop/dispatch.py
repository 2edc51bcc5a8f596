"""Dispatch: commit that calls are sent, under fence, stop and budget, before anything is sent."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from accounts.statements import as_array
from approvals.policies import Ruling
from approvals.services import grant_use, ruling_record, wait_refuse
from checkpoints.envelope import withheld
from checkpoints.services import SaveRefused, conflict
from checkpoints.statements import save_params
from checkpoints.states import Phase, Trigger
from receipts.services import ReportText, call_refuse, claim_take, publication_exists, report_version_store
from receipts.statements import SentCall, dispatch_params
from receipts.states import CallStatus, EffectClass
from runs.canonical import bounded
from runs.errors import LeaseLost
from runs.faults import reach
from runs.live import hint_changed
from runs.statements import Purse, fence_params
from runtime import guards
from runtime.contracts import Arguments, Tool
from runtime.facts import bound_tool
from runtime.loop.budget import not_started, tool_reserve
from runtime.loop.lineage import ClaimedElsewhere
from runtime.session import Sending, Session
from runtime.statements import DISPATCH_AGAIN, DISPATCH_CALLS, Written, write


@dataclass(frozen=True)
class Going:
    """A recorded call that is about to be sent, on whose word, and what that commit consumes or records with it."""

    call: Any
    authorised_by: str
    wait: Any = None
    ruling: Ruling | None = None


@dataclass(frozen=True)
class NotGoing:
    """A call of a barrier that a person or time has refused."""

    call: Any
    wait: Any
    why: str


class _NotSent(Exception):
    """Rolls the dispatch back: new work may not start now, a guard failed, or an approval can't be used any more."""

    def __init__(self, written: Written | None = None, failed: guards.Failed | None = None) -> None:
        super().__init__()
        self.written = written
        self.failed = failed


def dispatch_first(
    session: Session,
    going: Sequence[Going],
    not_going: Sequence[NotGoing] = (),
    *,
    void: Callable[[guards.Failed], bool] = lambda _: True,
) -> bool:
    """Send recorded calls for the first time, side by side. One commit: [waits and wakeups CONSUMED or what the policy
    said, refused calls closed, claims, calls DISPATCHED with their attempts, publications DISPATCHED, head
    AWAITING_TOOL_RESULT, budget] (rulings 4 and 8).

    The guards 9 to 12 are asked inside it, on rows that stay as they are until the commit (ruling 4). Returns False when the
    run was given back instead. `void` says what follows where an approval can't be used; one that is gone is looked at again
    by the next step.
    """
    bound = [bound_tool(session, each.call) for each in going]
    snapshot = session.next_snapshot(Phase.AWAITING_TOOL_RESULT, node="act")
    prepared = session.prepared(snapshot, Trigger.CURSOR)
    params = fence_params(session.holding) | save_params(prepared, key_id=session.key_id)
    params |= _dispatch_params(going, bound, ["PROPOSED", "AWAITING_APPROVAL"])
    waits = [each.wait.id for each in going if each.wait is not None]
    try:
        with transaction.atomic():
            kept = guards.kept(session, waits)
            failed = _guarded(session, kept, going)
            if failed is not None or not kept.approved.issuperset(waits) or not _governed(session, kept, going):
                raise _NotSent(failed=failed)
            _close_decided(session, going, not_going)
            prepare_effects(session, [(each.call, *bind) for each, bind in zip(going, bound, strict=True)])
            for each in going:
                reach("inside_dispatch_tx", each.call.tool)
            written = write(
                DISPATCH_CALLS, params | {"waits": as_array(waits)} | _reserved(session, going, bound).params()
            )
            if written.started != len(going):
                raise _NotSent(written)
    except _NotSent as refused:
        if refused.failed is not None:
            return guards.hold(session, refused.failed) if refused.failed.holds else void(refused.failed)
        if refused.written is not None and refused.written.go and not refused.written.done:
            raise SaveRefused(conflict(prepared)) from refused
        return refused.written is None or not_started(session, refused.written)
    for each in going:
        if each.wait is not None:
            reach("after_wake_consumed", each.call.tool)
    session.moved(snapshot, prepared.digest)
    _now_sending(session, going, bound)
    return True


def _guarded(session: Session, kept: guards.Kept, going: Sequence[Going]) -> guards.Failed | None:
    """The first guard that one of the calls does not pass."""
    return _first(
        [
            guards.approval(session, kept, each.call, each.wait)
            if each.wait is not None
            else guards.unasked(session, kept, each.call)
            for each in going
        ]
    )


def _governed(session: Session, kept: guards.Kept, going: Sequence[Going]) -> bool:
    """Whether the policy that lets calls with an effect go is the one in force, and stays so until the commit (ruling 35)."""
    if all(each.ruling is None or each.call.effect_class == EffectClass.READ_ONLY for each in going):
        return True
    return kept.policy_number(session.run.tenant_id) == session.policy.number


def _first(failures: Sequence[guards.Failed | None]) -> guards.Failed | None:
    return next((failed for failed in failures if failed is not None), None)


def _close_decided(session: Session, going: Sequence[Going], not_going: Sequence[NotGoing]) -> None:
    """Count what goes by a grant, record what the policy said of the calls that go, and close those that a person or time
    has refused.
    """
    _use_grants(going)
    for each in going:
        if each.ruling is not None:
            ruling_record(each.call, each.ruling)
    for refused in not_going:
        refuse_in_step(session, refused)


def _use_grants(going: Sequence[Going]) -> None:
    """Count the uses of grants, in the order of their ids, so that two runs never wait for each other."""
    by_grant = [(each.ruling.granted_by, each.call) for each in going if each.ruling and each.ruling.granted_by]
    for grant_id, call in sorted(by_grant, key=lambda use: str(use[0])):
        if not grant_use(grant_id, call):
            raise _NotSent


def refuse_in_step(session: Session, refused: NotGoing) -> None:
    """Close a call that a person or time has refused, with its wait and wakeup, in the caller's transaction."""
    call_refuse(refused.call, to=CallStatus.REJECTED, why=bounded(refused.why, 500))
    if not wait_refuse(refused.wait, fence=session.holding.fence):
        raise LeaseLost


def dispatch_again(session: Session, going: Sequence[Going]) -> bool:
    """Send the same logical calls another time: same ids, same keys, one attempt more. The head does not move.

    Where a verdict on one of them came in between, or nobody's word stands for it any more, nothing is written and the next
    step looks at them again.
    """
    bound = [bound_tool(session, each.call) for each in going]
    params = fence_params(session.holding) | _dispatch_params(going, bound, ["UNCERTAIN", "RETRY_WAIT"])
    with transaction.atomic():
        failed = _first([guards.retry(session, each.call) for each in going])
        if failed is None:
            written = write(DISPATCH_AGAIN, params | _reserved(session, going, bound).params())
        if failed is not None or written.started != len(going):
            transaction.set_rollback(True)
    if failed is not None:
        return not failed.holds or guards.hold(session, failed)
    if written.started != len(going):
        return written.go or not_started(session, written)
    _now_sending(session, going, bound)
    return True


def prepare_effects(session: Session, effects: Sequence[tuple[Any, Tool, Arguments]]) -> None:
    """Before calls with an effect are asked for or sent: their claims on the lineage, in the order of the intent keys so
    that two runs never wait for each other, and the versions that they would publish. Raises ClaimedElsewhere.
    """
    for call, tool, _ in sorted(effects, key=lambda effect: str(effect[0].intent_key)):
        if tool.effect_class == EffectClass.READ_ONLY:
            continue
        holder = claim_take(call, lineage_id=session.run.lineage_id)
        if holder is not None:
            raise ClaimedElsewhere(call, holder)
    for call, tool, args in effects:
        if tool.publishes and not publication_exists(call):
            _draft(session, call, tool, args)


def _draft(session: Session, call: Any, tool: Tool, args: Arguments) -> None:
    draft = tool.draft(args, session.results)
    if draft is None:
        raise LookupError(f"{tool.key} publishes, but drafts nothing")
    report_version_store(
        call,
        ReportText(draft.slug, withheld(draft.title), draft.body, draft.source_calls),
        thread_id=session.run.thread_id,
        fence=session.holding.fence,
        channel=tool.publishes,
    )


def _dispatch_params(
    going: Sequence[Going], bound: Sequence[tuple[Tool, Arguments]], sources: list[str]
) -> dict[str, Any]:
    sendings = [
        SentCall(each.call.id, each.call.attempts + 1, tool.timeout_seconds, each.authorised_by)
        for each, (tool, _) in zip(going, bound, strict=True)
    ]
    return dispatch_params(sendings, sources=sources)


def _reserved(session: Session, going: Sequence[Going], bound: Sequence[tuple[Tool, Arguments]]) -> Purse:
    purse = Purse()
    for each, (tool, _) in zip(going, bound, strict=True):
        purse.reserve(each.call.id, each.call.attempts + 1, tool_reserve(session, tool))
    return purse


def _now_sending(session: Session, going: Sequence[Going], bound: Sequence[tuple[Tool, Arguments]]) -> None:
    session.sends(
        [
            sending_of(each.call, tool, args, attempt=each.call.attempts + 1)
            for each, (tool, args) in zip(going, bound, strict=True)
        ]
    )
    hint_changed(tenant_id=session.run.tenant_id, run_id=session.run.id)


def sending_of(call: Any, tool: Tool, args: Arguments, *, attempt: int) -> Sending:
    """One attempt of a stored call."""
    return Sending(
        call_id=call.id,
        attempt=attempt,
        tool=tool,
        args=args,
        args_digest=call.args_digest,
        step_name=call.step_name,
        key=call.idempotency_key,
    )
