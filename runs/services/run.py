"""Writes around a run: moves of its status, stop requests, refusals, messages, artifacts, memory."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import connection, transaction
from django.db.models import F, Max

from accounts.selectors import current_data_key, sealed_body
from accounts.services import notice_write
from accounts.statements import fetch, stored_row
from accounts.states import NoticeKind, Subject
from runs.canonical import bounded, canonical, digest
from runs.live import hint_changed
from runs.models import (
    AgentVersion,
    MemoryItem,
    Refusal,
    Run,
    SweepFailure,
    Workspace,
    WorkspaceProgress,
)
from runs.selectors import open_pause
from runs.services.control import control_adopt
from runs.statements import MESSAGE, MOVE
from runs.states import ENDED_RUN, ControlKind, HoldReason, RefusalKind, RunStatus, WakeupCause
from runs.trace import Place, trace
from runs.wakeups import wakeup_write


def run_pin(run: Run, version: AgentVersion) -> None:
    """Pin a locked run to another version of its agent, in the transaction that moves its head with trigger REPIN (T25)."""
    Run.objects.filter(id=run.id).update(agent_version=version)
    run.agent_version = version


def message_append(*, run: Run, role: str, text: str, after_turn: int) -> int:
    """Append a message to the run's thread, in the caller's transaction with the run row locked. Returns its number."""
    fetch("SELECT id FROM runs_thread WHERE id = %(thread)s FOR NO KEY UPDATE", {"thread": run.thread_id})
    key_id, data = current_data_key(run.tenant_id), text.encode()
    message = {
        "thread": run.thread_id,
        "run": run.id,
        "role": role,
        "after_turn": after_turn,
        "sha256": digest(data),
        "body": sealed_body(key_id=key_id, plain=data),
        "data_key": key_id,
    }
    seq: int = fetch(MESSAGE, message)[0][0]
    return seq


def run_lock(run_id: UUID) -> Run:
    """Lock the run row, after its lease (ruling 37)."""
    return stored_row(Run, "id = %(run)s FOR NO KEY UPDATE", {"run": run_id})


ON_THE_RUN = 500  # characters of a detail that stand on the run itself; its transition has all of them


@dataclass(frozen=True)
class Move:
    """A move of a run's status as it is written: whereto, why, by whom. `run_move` says what the rest means."""

    to: RunStatus
    cause: str
    actor: str
    fence: int | None = None
    hold_reason: HoldReason | None = None
    detail: str = ""
    due_in: float | None = None
    about: UUID | None = None


def run_move(
    run: Run,
    to: RunStatus,
    *,
    cause: str,
    actor: str,
    fence: int | None = None,
    hold_reason: HoldReason | None = None,
    detail: str = "",
    due_in: float | None = None,
    about: UUID | None = None,
) -> None:
    """Move the status of a locked run and record the transition. The database refuses an illegal move.

    A holder (`fence` given) that gives the run back frees the lease with it, and so does the end of a run, which settles
    or voids its open requests too, and wakes its parent. `detail` says why it is held or has ended; a run that is queued with
    `due_in` seconds is not taken before they have passed. `about` is the call that it is held for. While a pause is open, a run that would be queued or would wait is
    held for it instead (ruling 32): its waits stay, and nothing queues it but the resume.
    """
    pause = open_pause(run) if to in (RunStatus.QUEUED, RunStatus.WAITING) else None
    if pause is not None:
        if run.hold_reason == HoldReason.PAUSED:
            return
        to, cause, hold_reason, detail, due_in = (
            RunStatus.HELD,
            "PAUSED",
            HoldReason.PAUSED,
            bounded(pause.reason, 500),
            None,
        )
    if hold_reason == HoldReason.PAUSED:
        control_adopt(run=run, kind=ControlKind.PAUSE, fence=fence)
    move = Move(to, cause, actor, fence, hold_reason, detail, due_in, about)
    if fetch(MOVE, move_params(run, move)) != [(1,)]:
        raise RuntimeError(f"run {run.id} is no longer {run.status}")
    run_moved(run, move)


def move_params(run: Run, move: Move) -> dict[str, Any]:
    """The parameters of MOVED, for whoever joins it into a statement of their own; `run_moved` follows."""
    to, fence, hold_reason = move.to, move.fence, move.hold_reason
    ended = to in ENDED_RUN
    # Only a holder, or whoever ends the run, has the lease locked; touching it otherwise would turn the lock order around.
    frees = ended or (fence is not None and to not in (RunStatus.RUNNING, RunStatus.STOPPING))
    return {
        "run": run.id,
        "before": str(run.status),
        "to": str(to),
        "cause": move.cause,
        "actor": move.actor,
        "fence": fence,
        "hold_reason": None if hold_reason is None else str(hold_reason),
        "detail": move.detail,
        "hold_detail": bounded(move.detail, ON_THE_RUN) if to == RunStatus.HELD else "",
        "end_reason": bounded(move.detail, ON_THE_RUN) if ended else "",
        "due_in": move.due_in,
        "ended": ended,
        "stopped": to == RunStatus.CANCELLED,
        "frees": frees,
    }


def run_moved(run: Run, move: Move) -> None:
    """What goes with a move in its transaction: the parent is woken where the run has ended, people are told of
    a hold, and pages of everything.
    """
    if move.to in ENDED_RUN:
        parent_wake(run, f"child:{run.id}")
    if move.to == RunStatus.HELD and move.hold_reason is not None:
        _tell_of_hold(run, HoldReason(move.hold_reason), move)
    place = Place(run.tenant_id, run.id, run.thread_id)
    trace("run_moved", place, before=str(run.status), after=str(move.to), cause=move.cause, fence=move.fence)
    run.status, run.hold_reason = move.to, move.hold_reason
    hint_changed(tenant_id=run.tenant_id, run_id=run.id)


# Holds that the run can't leave by a decision about it: something around it has to be looked at.
_STUCK = {HoldReason.TAKEOVER_LIMIT, HoldReason.SAVE_UNKNOWN, HoldReason.SAVE_REFUSED, HoldReason.STORE_ERROR}


def _tell_of_hold(run: Run, reason: HoldReason, move: Move) -> None:
    """Tell people outside the pages that a run is held, in the transaction that holds it. Who paused it knows; of a pause that
    comes from a scope or from a parent, nobody is told run by run.
    """
    pause = open_pause(run) if reason == HoldReason.PAUSED else None
    if pause is not None and (pause.scope_control_id or pause.cascade_of_id):
        return
    kind = NoticeKind.STUCK if reason in _STUCK else NoticeKind.HELD
    notice_write(
        tenant_id=run.tenant_id,
        kind=NoticeKind.UNKNOWN_CALL if reason == HoldReason.UNCERTAIN_CALL else kind,
        subject=Subject.RUN if move.about is None else Subject.CALL,
        subject_id=move.about or run.id,
        dedupe_key=f"run:{run.id}:{reason}:{pause.id if pause else move.fence}",
        facts={"reason": str(reason), "run": str(run.id)},
        but=pause.requested_by.partition(":")[2] if pause else "",
    )


def parent_wake(run: Run, dedupe_key: str) -> None:
    """Wake the parent of a child, if it is one: the child has ended, whether or not the parent waits for it already (A-161), or
    what it had used turns out to be less. The parent is not locked (ruling 13).
    """
    if run.parent_run_id is not None:
        wakeup_write(tenant_id=run.tenant_id, run_id=run.parent_run_id, cause=WakeupCause.CHILD, dedupe_key=dedupe_key)


def stop_adopt(*, run: Run, fence: int, actor: str) -> None:
    """The holder adopts the open stop, with lease and run locked: request ADOPTED, run STOPPING."""
    control_adopt(run=run, kind=ControlKind.STOP, fence=fence)
    if run.status == RunStatus.RUNNING:
        run_move(run, RunStatus.STOPPING, cause="STOP_ADOPTED", actor=actor, fence=fence)


def refusal_record(
    *,
    tenant_id: UUID,
    run_id: UUID,
    kind: RefusalKind,
    fence: int | None = None,
    subject_id: UUID | None = None,
    evidence_digest: str | None = None,
    expected_revision: int | None = None,
    actual_revision: int | None = None,
    detail: dict[str, Any] | None = None,
) -> None:
    """Record a refused write or resume, after the refused transaction has ended (ruling 14). Never the content."""
    Refusal.objects.create(
        tenant_id=tenant_id,
        run_id=run_id,
        kind=kind,
        fence=fence,
        subject_id=subject_id,
        evidence_digest=evidence_digest,
        expected_revision=expected_revision,
        actual_revision=actual_revision,
        detail=detail or {},
    )
    hint_changed(tenant_id=tenant_id, run_id=run_id)


_SWEPT = """
INSERT INTO runs_sweepmark (single, at) VALUES (true, clock_timestamp())
ON CONFLICT (single) DO UPDATE SET at = clock_timestamp()"""


def sweep_failures_record(failures: Mapping[tuple[UUID, str], str]) -> None:
    """Store what a sweep failed on, by (run, step), forget what it got past, and when it ended. Called at the end of each sweep."""
    with transaction.atomic():
        fetch(_SWEPT, {})
        past = [
            row.id for row in SweepFailure.objects.order_by("run_id", "step") if (row.run_id, row.step) not in failures
        ]
        if past:
            SweepFailure.objects.filter(id__in=past).delete()
        for (run_id, step), error in sorted(failures.items()):
            _sweep_failure_store(run_id, step, error)


def _sweep_failure_store(run_id: UUID, step: str, error: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO runs_sweepfailure AS known (run_id, step, error) VALUES (%s, %s, %s) "
            "ON CONFLICT (run_id, step) DO UPDATE SET error = EXCLUDED.error, times = known.times + 1, "
            "last_at = clock_timestamp()",
            [run_id, step, error],
        )


def takeover_limit_raise(*, run: Run) -> None:
    """Give a run that spent its takeovers as many again, with the run locked."""
    Run.objects.filter(id=run.id).update(max_takeovers=F("takeovers") + 5)


def run_settle(run: Run, *, actor: str, fence: int | None, settlement: Mapping[str, Any], why: str) -> None:
    """End a locked run by what is known, keeping that as JSON: done, unknown, not done."""
    Run.objects.filter(id=run.id).update(settlement=settlement)
    run_move(run, RunStatus.SETTLED, cause="SETTLED", actor=actor, fence=fence, detail=why)


def workspace_open(*, tenant_id: UUID, title: str) -> Workspace:
    """The tenant's workspace of this title, made if there is none."""
    workspace, _ = Workspace.objects.get_or_create(tenant_id=tenant_id, title=title)
    return workspace


def progress_store(*, workspace_id: UUID, run: Run, said: dict[str, Any], report_version_id: UUID) -> WorkspaceProgress:
    """Store the next version of a workspace's progress: `said` is {"summary", "questions", "bodies"}, checked before."""
    workspace = Workspace.objects.select_for_update(no_key=True).get(id=workspace_id, tenant_id=run.tenant_id)
    last = workspace.progress.aggregate(last=Max("version"))["last"] or 0
    key_id, plain = current_data_key(run.tenant_id), canonical(said)
    return WorkspaceProgress.objects.create(
        tenant_id=run.tenant_id,
        workspace=workspace,
        version=last + 1,
        sha256=digest(plain),
        body=sealed_body(key_id=key_id, plain=plain),
        data_key_id=key_id,
        report_version_id=report_version_id,
        source_run=run,
    )


def memory_store(*, run: Run, call_id: UUID, subject: str, text: str) -> None:
    """Remember a text about a subject, once however often it is said."""
    plain = text.encode()
    key_id = current_data_key(run.tenant_id)
    item = MemoryItem(
        tenant_id=run.tenant_id,
        subject=subject,
        sha256=digest(plain),
        body=sealed_body(key_id=key_id, plain=plain),
        data_key_id=key_id,
        source_run=run,
        source_call_id=call_id,
    )
    MemoryItem.objects.bulk_create([item], ignore_conflicts=True)
