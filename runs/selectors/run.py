"""Reads of runs. `access_run` is the only way to a run that a user named."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import Max, QuerySet

from accounts.errors import NotFound
from accounts.selectors import proved_body
from accounts.statements import fetch, joined, stored, stored_rows
from accounts.states import Actor, Permission
from runs.errors import LeaseLost
from runs.models import (
    AgentVersion,
    Artifact,
    Budget,
    BudgetEntry,
    ControlRequest,
    MemoryItem,
    Message,
    Refusal,
    Run,
    RunInput,
    RunTransition,
    TraceEvent,
    WorkspaceProgress,
)
from runs.statements import INPUTS, LIVE_IN_THREAD, PIN, SAID
from runs.states import (
    GUARD_OF,
    LIVE_RUN,
    OPEN_CONTROL,
    THREAD_ROOT,
    UNHOLDING_CAUSES,
    RefusalKind,
    RunStatus,
)


def runs_visible(actor: Actor) -> QuerySet[Run]:
    """The runs of the actor's tenant; none without the permission to read."""
    if not actor.may(Permission.READ):
        return Run.objects.none()
    return Run.objects.filter(tenant_id=actor.tenant_id)


def access_run(*, actor: Actor, id: UUID) -> Run:
    """The run with this id in the actor's tenant. Raises NotFound, for a foreign run as for a missing one."""
    run = runs_visible(actor).select_related("agent_version__agent", "thread", "lease").filter(id=id).first()
    if run is None:
        raise NotFound
    return run


def run_now(id: UUID) -> Run:
    """A run as it is stored now, for its own worker."""
    return Run.objects.select_related("agent_version__agent", "thread").get(id=id)


def locked_run(rows: Sequence[Sequence[Any]]) -> Run:
    """The run that LOCKED has locked."""
    return stored(Run, rows)[0]


@dataclass(frozen=True)
class Pin:
    """The version of its agent that a run is pinned to."""

    agent: str
    version: str
    manifest_digest: str


@dataclass(frozen=True)
class ToContinue:
    """What a worker reads first of a run that it has taken, and whether a stop is requested: the run with its pin, how often
    it was told something, the number of its last message (0 without one), and the units that it has a budget of, which are
    fixed when it is admitted.
    """

    run: Run
    pin: Pin
    stopping: bool
    news: int
    heard: int
    units: frozenset[str]


def to_continue(rows: Sequence[Sequence[Any]]) -> ToContinue:
    """The run that CONTINUED has read for its own worker. Raises LeaseLost where that does not hold it any more."""
    for held, stopping, news, heard, units, agent, version, manifest_digest, *row in rows:
        if held:
            (run,) = stored(Run, [row])
            return ToContinue(run, Pin(agent, version, manifest_digest), stopping, news, heard, frozenset(units))
    raise LeaseLost


@dataclass(frozen=True)
class PinnedAgent:
    """The agent that a run is pinned to: its key, and everything of its version that the run depends on."""

    key: str
    manifest: Mapping[str, Any]


@lru_cache(maxsize=1024)
def agent_pinned(version_id: Any) -> PinnedAgent:
    """The agent of a version. A version never changes, so a process reads it once."""
    version = AgentVersion.objects.select_related("agent").get(id=version_id)
    return PinnedAgent(version.agent.key, version.manifest)


def pin_of(run: Run) -> Pin:
    """What a run is pinned to."""
    return Pin(*fetch(PIN, {"version": run.agent_version_id})[0])


def run_by_admission(*, tenant_id: UUID, admission_key: str) -> Run | None:
    """The run that an earlier create request with the same key made."""
    key = {"tenant": tenant_id, "key": admission_key}
    made = stored_rows(Run, "tenant_id = %(tenant)s AND admission_key = %(key)s", key)
    return made[0] if made else None


def forked_revisions(run_id: UUID) -> frozenset[int]:
    """The revisions of a run at which other runs were begun."""
    found = Run.objects.filter(forked_from_id=run_id).values_list("forked_from_revision", flat=True)
    return frozenset(revision for revision in found if revision is not None)


def budget_rooms(run_id: UUID) -> Mapping[str, int | None]:
    """What is left of each budget of a run by unit; None where a unit has no cap."""
    rows = Budget.objects.filter(run_id=run_id)
    return {row.unit: None if row.cap is None else row.room for row in rows}


def continuation_of(run_id: UUID) -> UUID | None:
    """The run that continues an ended run, or None."""
    return Run.objects.filter(continued_from_id=run_id).values_list("id", flat=True).first()


def thread_live_run(*, tenant_id: UUID, agent_key: str, thread_key: str) -> UUID | None:
    """The new or continued run that is live in a thread, or None (T32). Forks and children may live beside it."""
    place = {"tenant": tenant_id, "agent": agent_key, "thread": thread_key}
    found = fetch(LIVE_IN_THREAD, place | {"live": sorted(LIVE_RUN), "roots": sorted(THREAD_ROOT)})
    return found[0][0] if found else None


def artifact_bytes(*, tenant_id: UUID, sha256: str) -> bytes:
    """The plain bytes of an artifact, which have the digest that it is stored under. Raises BodyChanged."""
    artifact = Artifact.objects.get(tenant_id=tenant_id, sha256=sha256)
    return proved_body(key_id=artifact.data_key_id, body=artifact.body, sha256=sha256)


def artifacts_bytes(*, tenant_id: UUID, sha256s: Collection[str]) -> dict[str, bytes]:
    """The plain bytes of several artifacts by their digests, in one query. Raises BodyChanged."""
    return plain_bytes(Artifact.objects.filter(tenant_id=tenant_id, sha256__in=sha256s))


def plain_bytes(artifacts: Iterable[Artifact]) -> dict[str, bytes]:
    """The plain bytes of artifacts by their digests. Raises BodyChanged."""
    return {row.sha256: proved_body(key_id=row.data_key_id, body=row.body, sha256=row.sha256) for row in artifacts}


def held_now(run_id: UUID) -> bool:
    """Whether a worker has the lease of a run, expired or not: something that it wrote may still be committed. Locks nothing."""
    held = "SELECT EXISTS (SELECT FROM runs_lease WHERE run_id = %(run)s AND owner IS NOT NULL)"
    return bool(fetch(held, {"run": run_id})[0][0])


def run_input_names(run: Run) -> Mapping[str, str]:
    """The file name of each upload of a run by its name."""
    return dict(RunInput.objects.filter(run=run).values_list("name", "filename"))


def run_inputs(run: Run) -> Mapping[str, bytes]:
    """The uploads of a run by name. Raises BodyChanged where one is not what was uploaded."""
    return given_inputs(fetch(INPUTS, {"run": run.id}))


def given_inputs(rows: Iterable[Sequence[Any]]) -> Mapping[str, bytes]:
    """The same, by rows of GIVEN. Raises BodyChanged."""
    return {name: proved_body(key_id=key, body=body, sha256=sha256) for name, key, body, sha256 in rows}


def run_input_digests(run: Run) -> Mapping[str, str]:
    """The SHA-256 of each upload of a run by name."""
    return dict(RunInput.objects.filter(run=run).values_list("name", "sha256"))


def messages_of(run: Run, *, upto: int | None = None) -> Sequence[tuple[Message, str]]:
    """The messages of a run in order, with their text; those up to a number, where one is given. Raises BodyChanged."""
    return said_messages(fetch(_SAID, {"run": run.id, "last_message": upto}))


_SAID = joined(SAID, select="SELECT * FROM said")


def said_messages(rows: Iterable[Sequence[Any]]) -> Sequence[tuple[Message, str]]:
    """The same, by rows of SAID. Raises BodyChanged."""
    return [(row, text_of(row)) for row in stored(Message, rows)]


def text_of(row: Message | MemoryItem | WorkspaceProgress) -> str:
    """The text of a stored row, if it has the digest that stands beside it. Raises BodyChanged."""
    return proved_body(key_id=row.data_key_id, body=row.body, sha256=row.sha256).decode()


def last_message(run: Run) -> int:
    """The number of the newest message of a run, or 0."""
    return Message.objects.filter(run=run).aggregate(last=Max("seq"))["last"] or 0


def trace_rows(run: Run) -> QuerySet[TraceEvent]:
    """What was seen of a run. For people: nothing else reads it (B-005)."""
    return TraceEvent.objects.filter(tenant_id=run.tenant_id, run_id=run.id)


def open_stop(run: Run) -> ControlRequest | None:
    """The stop that is open on a run, or None."""
    return ControlRequest.objects.filter(run=run, kind="STOP", status__in=OPEN_CONTROL).first()


def control_of(id: UUID) -> ControlRequest:
    """A stop or a pause by its id."""
    return ControlRequest.objects.get(id=id)


def open_pause(run: Run) -> ControlRequest | None:
    """The pause that is open on a run, or None."""
    pause = "run_id = %(run)s AND kind = 'PAUSE' AND status = ANY(%(open)s) LIMIT 1"
    return next(iter(stored_rows(ControlRequest, pause, {"run": run.id, "open": sorted(OPEN_CONTROL)})), None)


def latest_stop(run: Run) -> ControlRequest | None:
    """The newest stop of a run, open or settled."""
    return ControlRequest.objects.filter(run=run, kind="STOP").order_by("-accepted_at").first()


def budget_entries(receipt_ids: Collection[UUID]) -> dict[UUID, list[BudgetEntry]]:
    """The movements of the budget for each of these receipts, in the order of their attempts."""
    entries: dict[UUID, list[BudgetEntry]] = {}
    for entry in BudgetEntry.objects.filter(receipt_id__in=receipt_ids).order_by("attempt_no", "at", "kind"):
        entries.setdefault(entry.receipt_id, []).append(entry)
    return entries


def refused_before(run: Run, kind: RefusalKind, evidence_digest: str) -> bool:
    """Whether exactly this was refused to a run before."""
    return Refusal.objects.filter(run=run, kind=kind, evidence_digest=evidence_digest).exists()


EVIDENCE = 50  # refused writes and resumes that are shown of a run, the newest ones


def refusals_of(run: Run) -> Sequence[Refusal]:
    """What was refused to a run, the newest first."""
    return list(Refusal.objects.filter(run=run).order_by("-id")[:EVIDENCE])


def moves_since(run: Run, *, cause: str, since: datetime, but_after: str) -> int:
    """How often a run was moved for this cause since a moment, counted from its newest move for the other cause if that is
    later.
    """
    moves = RunTransition.objects.filter(run=run)
    newest = moves.filter(cause=but_after).order_by("-id").first()
    return moves.filter(cause=cause, at__gt=since, id__gt=newest.id if newest else 0).count()


def hold_refusal(run: Run) -> Refusal | None:
    """The refusal of the resume guard that holds a run, or None."""
    if run.status != RunStatus.HELD:
        return None
    return Refusal.objects.filter(run=run, kind__in=sorted(GUARD_OF)).order_by("-id").first()


def pinned_version(run: Run) -> AgentVersion:
    """The agent version that the run is pinned to."""
    return run.agent_version


def database_now() -> datetime:
    """The database's clock."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        now: datetime = cursor.fetchone()[0]
    return now


def runs_held(ids: Collection[UUID]) -> set[UUID]:
    """Those of these runs that are held."""
    return set(Run.objects.filter(id__in=ids, status=RunStatus.HELD).values_list("id", flat=True)) if ids else set()


def runs_to_look_at(limit: int = 200) -> Sequence[UUID]:
    """Runs that a worker should look at: queued and due, or held under a lease that has expired."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT r.id FROM runs_run r JOIN runs_lease l ON l.run_id = r.id "
            "WHERE (r.status = 'QUEUED' AND (l.owner IS NULL OR l.expires_at <= clock_timestamp()) "
            "AND (r.due_at IS NULL OR r.due_at <= clock_timestamp())) "
            "OR (r.status IN ('RUNNING', 'STOPPING') AND l.expires_at <= clock_timestamp()) "
            "ORDER BY r.created_at LIMIT %s",
            [limit],
        )
        return [row[0] for row in cursor.fetchall()]


def runs_with_unheard_wakeups(limit: int = 200) -> Sequence[UUID]:
    """Parked runs that have a pending wakeup: their queueing was lost or has not happened yet."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT DISTINCT r.id FROM runs_run r JOIN runs_wakeup w ON w.run_id = r.id "
            "WHERE w.status = 'PENDING' AND (r.status = 'WAITING' OR (r.status = 'HELD' AND r.hold_reason <> 'PAUSED' AND w.cause = ANY(%s))) "
            "LIMIT %s",
            [sorted(UNHOLDING_CAUSES), limit],
        )
        return [row[0] for row in cursor.fetchall()]
