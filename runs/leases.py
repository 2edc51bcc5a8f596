"""The lease of a run: acquire, renew, check, release. Only the database's clock counts, and only the fence decides."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from uuid import UUID

from django.conf import settings
from django.db import connection, transaction
from django.db.models import F

from accounts.statements import fetch, stored_row, stored_rows
from runs.faults import reach
from runs.live import hint_changed
from runs.models import Lease, Run, RunTransition
from runs.statements import ACQUIRE, fence_params
from runs.states import Holding


def lease_acquire(*, run_id: UUID, owner: str, lock_key: int | None = None) -> Holding | None:
    """Take the lease of a run that is to be continued, with a fence one higher. None when there is nothing to take.

    A free lease of a QUEUED run starts it, once it is due; an expired lease of a RUNNING or STOPPING run is a takeover, counted and
    recorded as a transition. Called by workers only (T16: the lease comes before the authoritative read). `lock_key` is the
    advisory lock that the caller's process holds while it lives.
    """
    wanted = {"run": run_id, "owner": owner, "lock_key": lock_key, "ttl": settings.LEASE_TTL_SECONDS}
    with transaction.atomic():
        taken = fetch(ACQUIRE, wanted)
        if not taken:
            return None
        tenant_id, fence, takeover = taken[0]
        hint_changed(tenant_id=tenant_id, run_id=run_id)
        reach("inside_acquire_tx", "TAKEOVER" if takeover else "ACQUIRED")
    return Holding(tenant_id, run_id, owner, fence, takeover)


def _still_to_come(moment: datetime | None) -> bool:
    """True where a moment is given and the database's clock has not reached it."""
    if moment is None:
        return False
    with connection.cursor() as cursor:
        cursor.execute("SELECT %s::timestamptz > clock_timestamp()", [moment])
        return bool(cursor.fetchone()[0])


def lease_renew(holding: Holding) -> tuple[bool, bool]:
    """Extend the lease by its TTL. Returns (still held, stop requested). An expired lease is not revived."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE runs_lease SET renewed_at = clock_timestamp(), "
            "expires_at = clock_timestamp() + %s * interval '1 second' "
            "WHERE run_id = %s AND owner = %s AND fence = %s AND expires_at > clock_timestamp() "
            "RETURNING stop_requested",
            [settings.LEASE_TTL_SECONDS, holding.run_id, holding.owner, holding.fence],
        )
        row = cursor.fetchone()
    return (False, False) if row is None else (True, bool(row[0]))


def lease_refence(holding: Holding) -> Holding | None:
    """Raise the fence of one's own lease, renew it and record that, in the caller's transaction (ruling 29).

    What was sent under the old fence and still sits in a socket can't be written any more. None when the lease is lost.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE runs_lease SET fence = fence + 1, renewed_at = clock_timestamp(), "
            "expires_at = clock_timestamp() + %s * interval '1 second' "
            "WHERE run_id = %s AND owner = %s AND fence = %s AND expires_at > clock_timestamp() RETURNING fence",
            [settings.LEASE_TTL_SECONDS, holding.run_id, holding.owner, holding.fence],
        )
        row = cursor.fetchone()
    if row is None:
        return None
    status = Run.objects.select_for_update(no_key=True).values_list("status", flat=True).get(id=holding.run_id)
    RunTransition.objects.create(
        run_id=holding.run_id,
        from_status=status,
        to_status=status,
        cause="REFENCED",
        actor=f"worker:{holding.owner}",
        fence=row[0],
    )
    return replace(holding, fence=row[0], takeover=False)


def lease_given_back(holding: Holding) -> bool:
    """Whether a commit of this very holder freed the lease: nobody has taken it since."""
    return Lease.objects.filter(run_id=holding.run_id, fence=holding.fence, owner=None).exists()


_HELD = (
    "run_id = %(run)s AND owner = %(owner)s AND fence = %(fence)s AND expires_at > clock_timestamp() FOR NO KEY UPDATE"
)


def lease_lock(holding: Holding) -> Lease | None:
    """Lock the lease row and prove that it is held under this fence. None means: write nothing.

    First in every transaction of a worker (rule 3 of model.md). The caller reads `stop_requested` from the row.
    """
    return next(iter(stored_rows(Lease, _HELD, fence_params(holding))), None)


def lease_expired(holding: Holding) -> bool:
    """Whether the time of this holding is over and nobody has taken the lease since (B-020)."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT EXISTS (SELECT FROM runs_lease WHERE run_id = %s AND owner = %s AND fence = %s "
            "AND expires_at <= clock_timestamp())",
            [holding.run_id, holding.owner, holding.fence],
        )
        return bool(cursor.fetchone()[0])


def lease_lock_any(run_id: UUID) -> Lease:
    """Lock the lease row for a person's act, whoever holds it."""
    return stored_row(Lease, "run_id = %(run)s FOR NO KEY UPDATE", {"run": run_id})


def lease_tell(run_id: UUID) -> None:
    """Make the worker of a run, if it has one, read what the run was told before it asks the model again. Lease locked."""
    Lease.objects.filter(run_id=run_id).update(news=F("news") + 1)


def lease_news(run_id: UUID) -> int:
    """How often a run was told something."""
    news: int = fetch("SELECT news FROM runs_lease WHERE run_id = %(run)s", {"run": run_id})[0][0]
    return news


def lease_release(run_id: UUID) -> None:
    """Free the lease, in the transaction that parks or ends the run. The fence stays."""
    Lease.objects.filter(run_id=run_id).update(owner=None, expires_at=None, renewed_at=None, lock_key=None)


def lease_pass(run_id: UUID, person: str) -> int:
    """Take and free a free lease in a person's transaction that moves the head (ruling 10). Returns the new fence."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE runs_lease SET fence = fence + 1, owner = %s, acquired_at = clock_timestamp(), "
            "expires_at = clock_timestamp() + interval '1 minute' WHERE run_id = %s RETURNING fence",
            [person, run_id],
        )
        fence: int = cursor.fetchone()[0]
    lease_release(run_id)
    return fence


def leases_end(*, lock_key: int) -> Sequence[UUID]:
    """End the time of every lease whose holder had this advisory lock. Called by the watcher only, while it has the lock.

    Owner and fence stay: what follows is an ordinary takeover of an expired lease. One transaction a run (ruling 13).
    Returns the runs, for their hints.
    """
    held = Lease.objects.filter(lock_key=lock_key, owner__isnull=False)
    return [run_id for run_id in held.values_list("run_id", flat=True) if _end(run_id, lock_key)]


def _end(run_id: UUID, lock_key: int) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE runs_lease SET expires_at = clock_timestamp() "
            "WHERE run_id = %s AND lock_key = %s AND expires_at > clock_timestamp()",
            [run_id, lock_key],
        )
        return bool(cursor.rowcount)


def lease_held(lease: Lease) -> bool:
    """True while somebody's unexpired lease stands, by the database's clock. Call it with the row locked."""
    return _still_to_come(lease.expires_at)
