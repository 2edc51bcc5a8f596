"""Reads of a run's relatives: where it comes from, its children and parents, and its lineage."""

from uuid import UUID

from django.db import connection

from accounts.statements import fetch
from runs.models import (
    ControlRequest,
    Refusal,
    Run,
)
from runs.states import (
    ENDED_RUN,
    LIVE_RUN,
    OPEN_CONTROL,
    HoldReason,
    Origin,
    RefusalKind,
    RunStatus,
    WakeupCause,
    WakeupStatus,
)

_LINEAGE = """
WITH RECURSIVE family AS (
    SELECT id FROM runs_run WHERE id = %(root)s
    UNION
    SELECT r.id FROM family f JOIN runs_run r
        ON r.continued_from_id = f.id OR r.forked_from_id = f.id OR r.parent_run_id = f.id)
SELECT id FROM family LIMIT %(limit)s"""


def source_of(run: Run) -> Run | None:
    """The run that a continued or forked run goes on from, or None."""
    source_id = run.continued_from_id or run.forked_from_id
    return Run.objects.get(id=source_id) if source_id else None


def child_of_lineage(*, run: Run, child_id: UUID) -> Run | None:
    """A child run of the lineage of a run, or None."""
    return Run.objects.filter(lineage_id=run.lineage_id, origin=Origin.CHILD, id=child_id).first()


def live_children(run_id: UUID) -> list[UUID]:
    """The children of a run that have not ended."""
    live = {"run": run_id, "live": sorted(LIVE_RUN)}
    children = "SELECT id FROM runs_run WHERE parent_run_id = %(run)s AND status = ANY(%(live)s) ORDER BY created_at"
    return [id for (id,) in fetch(children, live)]


def children_to_stop(limit: int = 200) -> list[tuple[UUID, UUID]]:
    """(child, stop of its parent) of live children whose parent was stopped and that have no stop of their own; and of those
    whose parent was aborted, while they are only stopped.
    """
    found = fetch(
        "SELECT c.id, p.id FROM runs_controlrequest p JOIN runs_run c ON c.parent_run_id = p.run_id "
        "WHERE p.kind = 'STOP' AND p.status <> 'MOOT' AND c.status = ANY(%(live)s) AND NOT EXISTS ("
        "  SELECT FROM runs_controlrequest o WHERE o.run_id = c.id AND o.kind = 'STOP' "
        "  AND (p.aborted_at IS NULL OR o.aborted_at IS NOT NULL)) LIMIT %(limit)s",
        {"live": sorted(LIVE_RUN), "limit": limit},
    )
    return [(child_id, stop_id) for child_id, stop_id in found]


def children_of_ended(limit: int = 200) -> list[tuple[UUID, UUID]]:
    """(child, parent) of live children whose parent FAILED or was SETTLED and that have no stop of their own."""
    orphans = Run.objects.filter(status__in=sorted(LIVE_RUN), parent_run__status__in=["FAILED", "SETTLED"])
    unstopped = orphans.exclude(controls__in=ControlRequest.objects.filter(kind="STOP"))
    return list(unstopped.values_list("id", "parent_run_id")[:limit])


def children_to_pause(limit: int = 200) -> list[tuple[UUID, UUID]]:
    """(child, pause of its parent) of live children whose parent's pause is open and has not come down to them. One that a
    person has paused is paused already; one that a person has resumed since goes on.
    """
    found = fetch(
        "SELECT c.id, p.id FROM runs_controlrequest p JOIN runs_run c ON c.parent_run_id = p.run_id "
        "WHERE p.kind = 'PAUSE' AND p.status = ANY(%(open)s) AND c.status = ANY(%(live)s) AND NOT EXISTS ("
        "  SELECT FROM runs_controlrequest o WHERE o.run_id = c.id "
        "  AND (o.status = ANY(%(open)s) OR o.cascade_of_id = p.id)) LIMIT %(limit)s",
        {"open": sorted(OPEN_CONTROL), "live": sorted(LIVE_RUN), "limit": limit},
    )
    return [(child_id, pause_id) for child_id, pause_id in found]


def children_to_resume(limit: int = 200) -> list[tuple[UUID, UUID, UUID]]:
    """(child, tenant, pause of its parent) of children whose open pause followed from one that is closed."""
    left = ControlRequest.objects.filter(kind="PAUSE", status__in=OPEN_CONTROL, cascade_of__isnull=False)
    closed = left.exclude(cascade_of__status__in=OPEN_CONTROL)
    return list(closed.values_list("run_id", "tenant_id", "cascade_of_id")[:limit])


def pauses_under(pause_id: UUID) -> list[UUID]:
    """The runs whose open pause followed from this one."""
    rows = ControlRequest.objects.filter(kind="PAUSE", status__in=OPEN_CONTROL, cascade_of_id=pause_id)
    return list(rows.values_list("run_id", flat=True))


def parents_to_settle(limit: int = 200) -> list[UUID]:
    """Ended runs that were told of the end of a child: what they reserved for it is settled by nobody else."""
    told = Run.objects.filter(
        status__in=sorted(ENDED_RUN), wakeups__cause=WakeupCause.CHILD, wakeups__status=WakeupStatus.PENDING
    )
    return list(told.distinct().values_list("id", flat=True)[:limit])


def lineage_of(run: Run, *, limit: int) -> list[Run]:
    """The runs of a run's lineage, the oldest first, at most `limit`, always with the run itself. For pages; by the indexes
    of what each run comes from, since the lineage itself has none.
    """
    with connection.cursor() as cursor:
        cursor.execute(_LINEAGE, {"root": run.lineage_id, "limit": limit - 1})
        ids = {run.id, *(row[0] for row in cursor.fetchall())}
    return list(Run.objects.filter(id__in=ids).order_by("created_at", "id"))


def lineage_holder(run: Run) -> UUID | None:
    """The call of another run of the lineage that holds this one, or None (ruling 34)."""
    if run.status != RunStatus.HELD or run.hold_reason != HoldReason.UNCERTAIN_CALL:
        return None
    refused = Refusal.objects.filter(run=run, kind=RefusalKind.ANCESTOR_INTENT).order_by("-id")
    return refused.values_list("subject_id", flat=True).first()
