"""Writes around a run: admission, moves of the status, stop requests, refusals, messages, artifacts, memory."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import connection, transaction
from django.db.models import F, Max

from accounts.keys import new_id
from accounts.selectors import current_data_key, plain_body, sealed_body
from accounts.statements import fetch, stored_row
from runs.canonical import canonical, digest
from runs.live import hint_changed
from runs.models import (
    Agent,
    AgentVersion,
    Artifact,
    Lease,
    MemoryItem,
    Message,
    Refusal,
    Run,
    RunInput,
    RunTransition,
    SweepFailure,
    Thread,
    Workspace,
    WorkspaceProgress,
)
from runs.selectors import open_pause
from runs.services.budget import budgets_open
from runs.services.control import control_adopt
from runs.statements import MOVE
from runs.states import ENDED_RUN, ControlKind, HoldReason, Origin, RefusalKind, RunStatus, WakeupCause
from runs.trace import Place, trace
from runs.wakeups import wakeup_write


@dataclass(frozen=True)
class NewRun:
    """What admission fixes: the pinned agent, the inputs, the limits and who asked."""

    tenant_id: UUID
    agent_key: str
    agent_version: str
    model: str
    gateway: str
    manifest: dict[str, Any]
    thread_key: str
    title: str
    recovery_policy: str
    max_takeovers: int
    admission_key: str
    created_by: str
    caps: Mapping[str, int]
    inputs: Mapping[str, tuple[str, bytes]]
    descent: "Descent | None" = None
    id: UUID | None = None
    workspace_id: UUID | None = None


@dataclass(frozen=True)
class Descent:
    """What a run that is not new comes from. A child runs in a thread of its own; the others share their source's."""

    origin: Origin
    source: Run
    revision: int | None = None
    turns: int = 0
    messages: int = 0

    def fields(self) -> dict[str, Any]:
        """The columns of the new run."""
        shared: dict[str, Any] = {"origin": self.origin, "lineage_id": self.source.lineage_id}
        if self.origin == Origin.CHILD:
            return shared | {"parent_run_id": self.source.id, "root_run_id": self.source.root_run_id}
        shared |= {"inherited_turns": self.turns, "inherited_messages": self.messages}
        if self.origin == Origin.FORKED:
            return shared | {"forked_from_id": self.source.id, "forked_from_revision": self.revision}
        return shared | {"continued_from_id": self.source.id}


def run_admit(new: NewRun) -> Run:
    """Insert the run QUEUED with its lease at fence 0, budgets, inputs and first transition, in the caller's transaction."""
    agent, _ = Agent.objects.get_or_create(tenant_id=new.tenant_id, key=new.agent_key)
    version = version_store(
        agent=agent, version=new.agent_version, model=new.model, gateway=new.gateway, manifest=new.manifest
    )
    thread, _ = Thread.objects.get_or_create(tenant_id=new.tenant_id, agent=agent, key=new.thread_key)
    run = Run(
        id=new.id or new_id(),
        tenant_id=new.tenant_id,
        thread=thread,
        agent_version=version,
        title=new.title,
        recovery_policy=new.recovery_policy,
        max_takeovers=new.max_takeovers,
        admission_key=new.admission_key,
        created_by=new.created_by,
        workspace_id=new.workspace_id,
    )
    descent = new.descent.fields() if new.descent else {}
    for name, value in {"lineage_id": run.id, "root_run_id": run.id, **descent}.items():
        setattr(run, name, value)
    run.save(force_insert=True)
    Lease.objects.create(run=run)
    budgets_open(run, new.caps)
    for name, (filename, data) in new.inputs.items():
        sha256 = artifact_store(tenant_id=new.tenant_id, data=data, media_type="text/csv")
        RunInput.objects.create(run=run, name=name, filename=filename, sha256=sha256, size=len(data))
    RunTransition.objects.create(
        run=run, from_status=None, to_status=RunStatus.QUEUED, cause="ADMITTED", actor=new.created_by
    )
    return run


def version_store(*, agent: Agent, version: str, model: str, gateway: str, manifest: Mapping[str, Any]) -> AgentVersion:
    """The stored version of an agent with exactly this manifest; stored now if it is new."""
    row, _ = AgentVersion.objects.get_or_create(
        agent=agent,
        manifest_digest=digest(canonical(manifest)),
        defaults={"version": version, "model": model, "gateway": gateway, "manifest": manifest},
    )
    return row


def run_pin(run: Run, version: AgentVersion) -> None:
    """Pin a locked run to another version of its agent, in the transaction that moves its head with trigger REPIN (T25)."""
    Run.objects.filter(id=run.id).update(agent_version=version)
    run.agent_version = version


def artifact_store(*, tenant_id: UUID, data: bytes, media_type: str) -> str:
    """Store bytes once per tenant. Returns their SHA-256. Raises BodyChanged if what is stored under it was changed."""
    sha256 = digest(data)
    stored = Artifact.objects.filter(tenant_id=tenant_id, sha256=sha256).first()
    if stored is not None:
        plain_body(key_id=stored.data_key_id, body=stored.body)
        return sha256
    key_id = current_data_key(tenant_id)
    artifact = Artifact(
        tenant_id=tenant_id,
        sha256=sha256,
        size=len(data),
        media_type=media_type,
        body=sealed_body(key_id=key_id, plain=data),
        data_key_id=key_id,
    )
    Artifact.objects.bulk_create([artifact], ignore_conflicts=True)
    return sha256


def message_append(*, run: Run, role: str, text: str, after_turn: int) -> int:
    """Append a message to the run's thread, in the caller's transaction with the run row locked. Returns its number."""
    Thread.objects.select_for_update(no_key=True).get(id=run.thread_id)
    last = Message.objects.filter(thread_id=run.thread_id).aggregate(last=Max("seq"))["last"] or 0
    key_id = current_data_key(run.tenant_id)
    data = text.encode()
    Message.objects.create(
        thread_id=run.thread_id,
        run=run,
        seq=last + 1,
        role=role,
        after_turn=after_turn,
        sha256=digest(data),
        body=sealed_body(key_id=key_id, plain=data),
        data_key_id=key_id,
    )
    return last + 1


def run_lock(run_id: UUID) -> Run:
    """Lock the run row, after its lease (ruling 37)."""
    return stored_row(Run, "id = %(run)s FOR NO KEY UPDATE", {"run": run_id})


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
) -> None:
    """Move the status of a locked run and record the transition. The database refuses an illegal move.

    A holder (`fence` given) that gives the run back frees the lease with it, and so does the end of a run, which settles
    or voids its open requests too, and wakes its parent. `detail` says why it is held or has ended; a run that is queued with
    `due_in` seconds is not taken before they have passed. While a pause is open, a run that would be queued or would wait is
    held for it instead (ruling 32): its waits stay, and nothing queues it but the resume.
    """
    pause = open_pause(run) if to in (RunStatus.QUEUED, RunStatus.WAITING) else None
    if pause is not None:
        if run.hold_reason == HoldReason.PAUSED:
            return
        to, cause, hold_reason, detail, due_in = RunStatus.HELD, "PAUSED", HoldReason.PAUSED, pause.reason[:500], None
    if hold_reason == HoldReason.PAUSED:
        control_adopt(run=run, kind=ControlKind.PAUSE, fence=fence)
    ended = to in ENDED_RUN
    # Only a holder, or whoever ends the run, has the lease locked; touching it otherwise would turn the lock order around.
    frees = ended or (fence is not None and to not in (RunStatus.RUNNING, RunStatus.STOPPING))
    move = {
        "run": run.id,
        "before": str(run.status),
        "to": str(to),
        "cause": cause,
        "actor": actor,
        "fence": fence,
        "hold_reason": None if hold_reason is None else str(hold_reason),
        "detail": detail,
        "hold_detail": detail if to == RunStatus.HELD else "",
        "end_reason": detail if ended else "",
        "due_in": due_in,
        "ended": ended,
        "stopped": to == RunStatus.CANCELLED,
        "frees": frees,
    }
    if fetch(MOVE, move) != [(1,)]:
        raise RuntimeError(f"run {run.id} is no longer {run.status}")
    if ended:
        _tell_parent(run)
    place = Place(run.tenant_id, run.id, run.thread_id)
    trace("run_moved", place, before=str(run.status), after=str(to), cause=cause, fence=fence)
    run.status, run.hold_reason = to, hold_reason
    hint_changed(tenant_id=run.tenant_id, run_id=run.id)


def _tell_parent(run: Run) -> None:
    """The end of a child is a wakeup of its parent, whether or not the parent waits for it already (A-161)."""
    if run.parent_run_id is not None:
        wakeup_write(
            tenant_id=run.tenant_id,
            run_id=run.parent_run_id,
            cause=WakeupCause.CHILD,
            dedupe_key=f"child:{run.id}",
        )


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


def sweep_failures_record(failures: Mapping[tuple[UUID, str], str]) -> None:
    """Store what a sweep failed on, by (run, step), and forget what it got past. Called at the end of each sweep."""
    with transaction.atomic():
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
    run_move(run, RunStatus.SETTLED, cause="SETTLED", actor=actor, fence=fence, detail=why[:500])


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
