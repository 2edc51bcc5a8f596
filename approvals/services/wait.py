"""Writes of waits: opened and closed under the locks of their run, and consumed under the fence of a worker."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction

from accounts.models import ClockTimestamp
from accounts.selectors import still_may
from accounts.services import notice_write
from accounts.statements import fetch, stored, stored_rows
from accounts.states import NoticeKind, Permission, Subject
from approvals.models import DEMANDED, Assignment, PolicyDecision, Wait
from approvals.policies import Demand, Ruling
from approvals.selectors import givers_to, wait_is_open
from approvals.statements import DECIDE, ESCALATE, LOOKED_AT_BEFORE, REMIND, SEEN
from approvals.states import DEADLINE, LIVE_WAIT, DecisionVerdict, OnDeadline, Risk, WaitKind, WaitStatus
from receipts.models import ToolCall
from receipts.services import call_await
from receipts.states import CallStatus
from runs.live import hint_changed
from runs.models import Run
from runs.services import run_lock, run_move
from runs.states import RunStatus, WakeupCause, WakeupStatus
from runs.wakeups import hint_run, wait_wakeups_close, wakeup_write


def ruling_record(call: ToolCall, ruling: Ruling) -> None:
    """Store what the policy said about a call, in the worker's transaction."""
    PolicyDecision.objects.create(
        tool_call=call,
        policy_version=ruling.version,
        outcome=ruling.outcome,
        rule=ruling.rule,
        verdict_people=ruling.verdict_people,
    )


def wait_open(call: ToolCall, ruling: Ruling, *, revision: int, checkpoint_digest: str, fence: int) -> Wait:
    """Open the wait of one call, bound to the head, in the worker's transaction with lease, run and head locked."""
    call_await(call, CallStatus.AWAITING_APPROVAL)
    return _opened(call, ruling, ruling.demand, WaitKind.APPROVAL, revision, checkpoint_digest, fence)


def question_open(
    call: ToolCall,
    ruling: Ruling,
    *,
    within_seconds: int | None,
    revision: int,
    checkpoint_digest: str,
    fence: int,
) -> Wait:
    """Open the wait of one question, as `wait_open` does. Policy says whom it asks, and when they are reminded; one of them
    answers, at any time until its deadline: that of the policy, else `within_seconds`, else the installation's. Where nobody
    does, it expires.
    """
    call_await(call, CallStatus.AWAITING_INPUT)
    demand = replace(
        ruling.demand,
        quorum=1,
        dwell_seconds=0,
        step_up=False,
        batchable=False,
        on_deadline=OnDeadline.EXPIRE,
        deadline_seconds=ruling.demand.deadline_seconds or within_seconds,
    )
    return _opened(call, ruling, demand, WaitKind.QUESTION, revision, checkpoint_digest, fence)


def _opened(
    call: ToolCall, ruling: Ruling, demand: Demand, kind: WaitKind, revision: int, checkpoint_digest: str, fence: int
) -> Wait:
    ruling_record(call, ruling)
    wait = Wait.objects.create(
        kind=kind,
        tenant_id=call.tenant_id,
        run_id=call.run_id,
        tool_call=call,
        checkpoint_revision=revision,
        checkpoint_digest=checkpoint_digest,
        args_digest=call.args_digest,
        tool_hash=call.tool_hash,
        policy_version=ruling.version,
        policy_rule=ruling.rule,
        opened_fence=fence,
        deadline=ClockTimestamp() + timedelta(seconds=demand.deadline_seconds or settings.WAIT_DEADLINE_SECONDS),
        remind_at=_after(demand.reminder_seconds),
        escalate_at=_after(demand.escalate_seconds),
        **{name: getattr(demand, name) for name in DEMANDED}
        | {"validity_seconds": demand.validity_seconds or settings.WAIT_VALIDITY_SECONDS},
    )
    hint_changed(tenant_id=call.tenant_id, run_id=call.run_id)
    _carry(wait)
    wait_tell(wait, NoticeKind.OPENED, {"tool": call.tool})
    return wait


def _after(seconds: int | None) -> Any:
    """So many seconds from now by the database's clock, or never."""
    return None if seconds is None else ClockTimestamp() + timedelta(seconds=seconds)


def _carry(wait: Wait) -> None:
    """Have whoever looked at what this call was asked about before look at it again, while they may decide.

    What was asked before is closed, so nobody gives it to another one meanwhile.
    """
    for before in stored_rows(Assignment, LOOKED_AT_BEFORE, {"call": wait.tool_call_id, "wait": wait.id}):
        name = before.person.partition(":")[2]
        standing = {"tenant_id": wait.tenant_id}
        if still_may(**standing, label=before.person, permission=Permission.DECIDE) or givers_to(
            **standing, taker=before.person
        ):
            given = Assignment.objects.create(
                wait=wait,
                person=before.person,
                assigned_by=before.assigned_by,
                reason=before.reason,
                carried_from=before,
            )
            assignment_tell(given, wait, NoticeKind.ASSIGNED, by=name)


def assignment_tell(given: Assignment, wait: Wait, kind: NoticeKind, *, by: str) -> None:
    """Tell people outside the pages who looks at a wait, in the transaction of that: an assignment to whom it was given and
    to the tenant, whatever was given back to everybody else.
    """
    name = given.person.partition(":")[2]
    assigned = kind == NoticeKind.ASSIGNED
    notice_write(
        tenant_id=wait.tenant_id,
        kind=kind,
        subject=Subject.WAIT,
        subject_id=wait.id,
        dedupe_key=f"assignment:{given.id}:{kind}",
        facts={"tool": wait.tool_call.tool, "person": name, "by": by},
        but="" if assigned else by,
        to=name if assigned else "",
        low_risk=wait.risk == Risk.LOW,
    )


def wait_expire(*, wait_id: UUID) -> bool:
    """Close an open wait whose deadline has passed, with a wakeup that tells the run. Called by the sweep.

    What that means is the wait's own `on_deadline`: it expires without a decision, or it is rejected by one. It never means yes.
    """
    with transaction.atomic():
        run = run_lock(Wait.objects.values_list("run_id", flat=True).get(id=wait_id))
        due = "id = %(wait)s AND status = 'OPEN' AND deadline <= clock_timestamp() FOR NO KEY UPDATE"
        for wait in stored_rows(Wait, due, {"wait": wait_id}):
            _close_late(wait)
            wakeup_write(
                tenant_id=run.tenant_id,
                run_id=run.id,
                wait_id=wait_id,
                cause=WakeupCause.TIMER,
                dedupe_key=f"wait:{wait_id}:TIMER",
            )
            queue_if_all_are_closed(run, cause="WAIT_EXPIRED", actor="system:sweep")
            hint_changed(tenant_id=run.tenant_id, run_id=run.id)
            return True
    return False


def _close_late(wait: Wait) -> None:
    """Expire a locked wait, or reject it in the name of its deadline. People are told, and whether anybody had looked."""
    expires = wait.on_deadline == OnDeadline.EXPIRE
    if expires:
        said = "answered" if wait.kind == WaitKind.QUESTION else "decided"
        close_wait(wait, WaitStatus.EXPIRED, f"nobody {said} in time")
    else:
        _reject_late(wait)
    tool = ToolCall.objects.values_list("tool", flat=True).get(id=wait.tool_call_id)
    verdict = "expired" if expires else str(DecisionVerdict.REJECT)
    wait_tell(wait, NoticeKind.DECIDED, {"tool": tool, "verdict": verdict, "by": "the deadline"})
    if not fetch(SEEN, {"wait": wait.id}):
        wait_tell(wait, NoticeKind.STUCK, {"tool": tool, "reason": "UNSEEN"})


def _reject_late(wait: Wait) -> None:
    rejection = {
        "wait": wait.id,
        "verdict": str(DecisionVerdict.REJECT),
        "revision": wait.checkpoint_revision,
        "digest": wait.checkpoint_digest,
        "args_digest": wait.args_digest,
        "reason": "nobody decided in time, and the policy takes that as no",
        "actor": DEADLINE,
        "status": str(WaitStatus.REJECTED),
        "validity": None,
    }
    fetch(DECIDE, rejection)


def wait_remind(*, wait_id: UUID) -> bool:
    """Remind people, once, of an open wait whose time for that has come. Called by the sweep."""
    return _note(REMIND, wait_id, NoticeKind.REMINDER)


def wait_escalate(*, wait_id: UUID) -> bool:
    """Ask those of `escalate_to` as well, once, about an open wait whose time for that has come. Called by the sweep."""
    return _note(ESCALATE, wait_id, NoticeKind.ESCALATED)


def _note(statement: str, wait_id: UUID, kind: NoticeKind) -> bool:
    with transaction.atomic():
        for tool, *row in fetch(statement, {"wait": wait_id}):
            (wait,) = stored(Wait, [row])
            wait_tell(wait, kind, {"tool": tool})
            hint_changed(tenant_id=wait.tenant_id, run_id=wait.run_id)
            return True
    return False


def wait_tell(wait: Wait, kind: NoticeKind, facts: dict[str, str], *, but: str = "") -> None:
    """Tell people outside the pages about a wait, once a kind, in the transaction of the fact."""
    notice_write(
        tenant_id=wait.tenant_id,
        kind=kind,
        subject=Subject.WAIT,
        subject_id=wait.id,
        dedupe_key=f"wait:{wait.id}:{kind}",
        facts=facts | ({"asks": "question"} if wait.kind == WaitKind.QUESTION else {}),
        but=but,
        low_risk=wait.risk == Risk.LOW,
    )


def queue_if_all_are_closed(run: Run, *, cause: str, actor: str) -> None:
    """Queue a waiting run once nobody is asked any more about a call of it (rulings 8 and 37), with the run locked."""
    if run.status == RunStatus.WAITING and not wait_is_open(run_id=run.id):
        run_move(run, RunStatus.QUEUED, cause=cause, actor=actor)
        hint_run(run_id=run.id)


def waits_cancel(*, run_id: UUID, why: str) -> int:
    """Cancel every live wait of a run, in the transaction that closes it."""
    live = Wait.objects.filter(run_id=run_id, status__in=sorted(LIVE_WAIT))
    return live.update(status=WaitStatus.CANCELLED, status_reason=why, closed_at=ClockTimestamp())


def waits_supersede(*, run: Run, cause: WakeupCause, why: str) -> int:
    """Take back every live wait before the head moves (ruling 9), each with a wakeup of that cause.

    Lease, run and head are locked. An open wait becomes SUPERSEDED, a decided one INVALIDATED; its decision stays as
    evidence, and its older pending wakeup is cancelled.
    """
    waits = list(Wait.objects.select_for_update(no_key=True).filter(run=run, status__in=sorted(LIVE_WAIT)))
    for wait in waits:
        is_open = wait.status == WaitStatus.OPEN
        close_wait(wait, WaitStatus.SUPERSEDED if is_open else WaitStatus.INVALIDATED, why)
        wait_wakeups_close(wait_id=wait.id, status=WakeupStatus.CANCELLED)
        wakeup_write(
            tenant_id=run.tenant_id,
            run_id=run.id,
            wait_id=wait.id,
            cause=cause,
            dedupe_key=f"wait:{wait.id}:{cause}",
        )
    return len(waits)


def decided_waits_invalidate(*, run_id: UUID, why: str) -> None:
    """Void every decided wait of a run after the check of one failed before dispatch (ruling 31); the wakeups are
    REFUSED. Lease and run are locked.
    """
    decided = Wait.objects.select_for_update(no_key=True).filter(
        run_id=run_id, status__in=[WaitStatus.APPROVED, WaitStatus.REJECTED, WaitStatus.ANSWERED]
    )
    for wait in decided.order_by("opened_at"):
        close_wait(wait, WaitStatus.INVALIDATED, why)
        wait_wakeups_close(wait_id=wait.id, status=WakeupStatus.REFUSED)


def call_waits_invalidate(*, call_ids: Sequence[UUID], why: str) -> None:
    """Void the live waits of calls that are not sent after all; their wakeups are REFUSED. Lease and run are locked."""
    live = Wait.objects.select_for_update(no_key=True).filter(tool_call__in=call_ids, status__in=sorted(LIVE_WAIT))
    for wait in live.order_by("opened_at"):
        close_wait(wait, WaitStatus.INVALIDATED, why)
        wait_wakeups_close(wait_id=wait.id, status=WakeupStatus.REFUSED)


def waits_invalidate(*, run_id: UUID, why: str) -> int:
    """Void every live wait of a run that is held, in the worker's transaction; decisions stay as evidence (ruling 31)."""
    live = Wait.objects.filter(run_id=run_id, status__in=sorted(LIVE_WAIT))
    return live.update(status=WaitStatus.INVALIDATED, status_reason=why, closed_at=ClockTimestamp())


_CONSUME = """
UPDATE approvals_wait SET status = 'CONSUMED'
WHERE id = %(wait)s AND status = %(decided)s AND coalesce(valid_until > clock_timestamp(), true) RETURNING id"""


def wait_consume(wait: Wait, *, fence: int) -> bool:
    """Consume a decided wait and its wakeup under the fence. False when it is no longer decided, or no longer valid."""
    consumed = fetch(_CONSUME, {"wait": wait.id, "decided": wait.status})
    wait_wakeups_close(wait_id=wait.id, status=WakeupStatus.CONSUMED, fence=fence)
    return bool(consumed)


def wait_refuse(wait: Wait, *, fence: int) -> bool:
    """Consume the wait of a call that was rejected, or whose time to decide has passed. False when it was rejected, but
    is not so any more.
    """
    if wait.status != WaitStatus.EXPIRED:
        return wait_consume(wait, fence=fence)
    wait_wakeups_close(wait_id=wait.id, status=WakeupStatus.CONSUMED, fence=fence)
    return True


def wait_lock(wait_id: UUID) -> Wait:
    """Lock a wait, after lease, run, head and call (ruling 37)."""
    return Wait.objects.select_for_update(no_key=True).get(id=wait_id)


def close_wait(wait: Wait, status: WaitStatus, why: str) -> None:
    Wait.objects.filter(id=wait.id, status=wait.status).update(
        status=status, status_reason=why, closed_at=ClockTimestamp()
    )
    hint_changed(tenant_id=wait.tenant_id, run_id=wait.run_id)
