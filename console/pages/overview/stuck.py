"""What does not move and waits for nobody's answer: what holds up everything first, then run by run."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from time import monotonic
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import connection

from accounts.states import Actor, Permission
from console.pages import signs, words
from console.pages.few import Few
from console.pages.overview.disk import disk_state
from runtime.liveness.lock import CLASS

UNTAKEN = timedelta(seconds=10)  # a queued run that nobody took for longer is stuck
STUCK_LIMIT = 20
BEGUN = monotonic()  # when this process began; what is started beside it needs a moment too

# Each kind by an index of its own: one condition over all of them would read every run of the tenant.
_STUCK = """
WITH queued AS (
    SELECT r.id, (SELECT max(t.at) FROM runs_runtransition t WHERE t.run_id = r.id) AS since
    FROM runs_run r WHERE r.tenant_id = %(tenant)s AND r.status = 'QUEUED' AND r.due_at IS NULL
    ORDER BY r.created_at, r.id LIMIT %(limit)s),
found AS (
    (SELECT f.run_id AS id, min(f.error) AS failing, min(f.first_at) AS since
     FROM runs_sweepfailure f JOIN runs_run r ON r.id = f.run_id
     WHERE r.tenant_id = %(tenant)s GROUP BY f.run_id ORDER BY since LIMIT %(limit)s)
    UNION ALL
    (SELECT r.id, NULL, (SELECT max(t.at) FROM runs_runtransition t WHERE t.run_id = r.id)
     FROM runs_run r WHERE r.tenant_id = %(tenant)s AND r.status = 'HELD' ORDER BY r.created_at, r.id LIMIT %(limit)s)
    UNION ALL
    (SELECT id, NULL, since FROM queued WHERE since < clock_timestamp() - %(untaken)s)
    UNION ALL
    (SELECT l.run_id, NULL, l.expires_at FROM runs_lease l JOIN runs_run r ON r.id = l.run_id
     WHERE r.tenant_id = %(tenant)s AND r.status IN ('RUNNING', 'STOPPING') AND l.expires_at < clock_timestamp()
     ORDER BY l.expires_at LIMIT %(limit)s))
SELECT DISTINCT ON (r.id) r.id, r.title, r.status, r.hold_reason, r.hold_detail, found.since, l.owner, found.failing
FROM found JOIN runs_run r ON r.id = found.id JOIN runs_lease l ON l.run_id = r.id
ORDER BY r.id, found.failing NULLS LAST"""

# How the whole installation stands, as the database sees it.
_STANDING = """
SELECT (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid = %(class)s AND granted
            AND database = (SELECT oid FROM pg_database WHERE datname = current_database())),
    (SELECT at FROM runs_sweepmark), (SELECT clock_timestamp() - at FROM runs_sweepmark),
    (SELECT count(*) FROM runs_run WHERE tenant_id = %(tenant)s AND status = 'QUEUED' AND due_at IS NULL)"""


@dataclass(frozen=True)
class Stuck:
    """Something that does not move. `run_id` is None for what holds up every run."""

    run_id: UUID | None
    title: str
    lamp: str
    icon: str
    since: datetime | None
    why: str
    helps: str


@dataclass(frozen=True)
class Standing:
    """How many pool processes live (None where they keep no lock), when the sweep last ended, and how many runs are queued."""

    workers: int | None
    swept_at: datetime | None
    swept_ago: timedelta | None
    queued: int

    @property
    def sweep_is_late(self) -> bool:
        """True where the clock that sends lost hints again, lets waits run out and takes runs over does not come round."""
        return self.sweep_is_due and running_for() > sweep_patience()

    @property
    def sweep_is_due(self) -> bool:
        """True where it has not come round for longer than it may, also where this process has only just begun."""
        return self.swept_ago is None or self.swept_ago > sweep_patience()


def sweep_patience() -> timedelta:
    """How long a sweep may stay away before somebody is told."""
    return timedelta(seconds=max(10 * settings.SWEEP_SECONDS, 15))


def running_for() -> timedelta:
    """For how long this process has been running."""
    return timedelta(seconds=monotonic() - BEGUN)


def standing(actor: Actor) -> Standing:
    """How the installation stands; the queue is that of the actor's tenant."""
    with connection.cursor() as cursor:
        cursor.execute(_STANDING, {"class": CLASS, "tenant": actor.tenant_id})
        workers, at, ago, queued = cursor.fetchone()
    return Standing(workers if settings.LIVENESS_DATABASE_URL else None, at, ago, queued)


def stuck(actor: Actor) -> list[Stuck]:
    """What does not move, the whole installation first and then the runs, the longest first; nothing without READ."""
    if not actor.may(Permission.READ):
        return []
    found = standing(actor)
    return [*_everything(found), *_disk(), *_runs(actor, nobody_takes=found.workers == 0)]


def shown_as(found: list[Stuck]) -> str:
    """What tells one such list from another: what is stuck, and how; never for how long."""
    named = [[str(one.run_id), one.title, one.lamp, one.why] for one in found]
    return hashlib.sha256(json.dumps(named).encode()).hexdigest()


def _everything(found: Standing) -> Iterator[Stuck]:
    if found.workers == 0:
        waiting = (
            f"{found.queued} run{'s are' if found.queued != 1 else ' is'} queued"
            if found.queued
            else "no run is queued"
        )
        why = f"No worker answers; {waiting}. Nothing is lost meanwhile."
        yield Stuck(None, "Workers", "stop", "stop", None, why, "Start a worker, or look into its log")
    if found.sweep_is_late:
        begin = "Nobody sweeps" if found.swept_at else "Nobody has swept since this installation was made"
        why = f"{begin}: no wait runs out, no run is taken over, no lost hint is sent again."
        helps = (
            "Look at the broker below; then start the clock (celery beat) and a worker. What is overdue is done at once"
        )
        yield Stuck(None, "Sweep", "stop", "stop", found.swept_at, why, helps)


def _disk() -> Iterator[Stuck]:
    lamp, say = disk_state()
    if lamp == "stop":
        why = f"{say}. A database on the same disk stores nothing once that is gone."
        yield Stuck(None, "Disk", "stop", "stop", None, why, "Make room on it; what stood still goes on by itself")


def _runs(actor: Actor, *, nobody_takes: bool) -> list[Stuck]:
    asked: dict[str, Any] = {"tenant": actor.tenant_id, "untaken": UNTAKEN, "limit": STUCK_LIMIT + 1}
    with connection.cursor() as cursor:
        cursor.execute(_STUCK, asked)
        rows = Few(sorted(cursor.fetchall(), key=lambda row: (row[5] is None, row[5])), STUCK_LIMIT)
    found = [_run(*row) for row in rows if not (nobody_takes and row[2] == "QUEUED")]
    return [*found, _OTHERS] if rows.more else found


_OTHERS = Stuck(
    None,
    "More runs",
    "caution",
    "caution",
    None,
    f"More than {STUCK_LIMIT} runs do not move; those that have stood longest are shown",
    "The others move up as these go on",
)


def _run(
    id: UUID,
    title: str,
    status: str,
    hold_reason: str | None,
    hold_detail: str,
    since: datetime | None,
    owner: str | None,
    failing: str | None,
) -> Stuck:
    if failing:
        why = f"The sweep fails on it, and goes on trying: {failing}"
        return Stuck(id, title, "stop", "stop", since, why, "Look into the log of the workers; other runs are not kept")
    if status == "HELD":
        sign, said = signs.RUN[status], words.held(hold_reason or "", hold_detail)
        return Stuck(id, title, sign.lamp, sign.icon, since, said.sentence, said.helps)
    if status == "QUEUED":
        helps = "Look whether a worker and the broker run; nothing is lost meanwhile"
        return Stuck(id, title, "caution", "clock", since, "Queued, and no worker has taken it.", helps)
    why = f"The lease of {owner} ran out and nobody has taken over yet."
    return Stuck(id, title, "caution", "caution", since, why, "A takeover is due; look whether a worker runs")
