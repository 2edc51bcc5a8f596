"""What of the runs does not move though nobody is asked: what the sweep and the workers should have taken up by now."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from accounts.statements import fetch

LISTED = 200
FAILED_OFTEN = 3  # sweeps in a row


@dataclass(frozen=True)
class Backlog:
    """What a tenant has waiting that should not wait: how much, and since when the oldest of it."""

    tenant_id: UUID
    count: int
    since: datetime


@dataclass(frozen=True)
class Silent:
    """A run whose holder fell silent, and nobody has taken over."""

    tenant_id: UUID
    run_id: UUID
    fence: int
    since: datetime


@dataclass(frozen=True)
class Failing:
    """A run that the sweep fails on again and again."""

    tenant_id: UUID
    run_id: UUID
    step: str
    since: datetime


# Reads the runs to be swept, of which there are few, and the newest move of each.
_UNTAKEN = """
SELECT r.tenant_id, count(*), min(greatest(t.at, r.due_at)) FROM runs_run r
CROSS JOIN LATERAL (
    SELECT m.at FROM runs_runtransition m WHERE m.run_id = r.id ORDER BY m.id DESC LIMIT 1) t
WHERE r.status = 'QUEUED'
    AND greatest(t.at, r.due_at) < (SELECT clock_timestamp() - make_interval(secs => %(seconds)s::float8))
GROUP BY r.tenant_id"""

_SILENT = """
SELECT r.tenant_id, r.id, l.fence, l.expires_at FROM runs_run r JOIN runs_lease l ON l.run_id = r.id
WHERE r.status IN ('RUNNING', 'STOPPING')
    AND l.expires_at < (SELECT clock_timestamp() - make_interval(secs => %(seconds)s::float8))
ORDER BY l.expires_at LIMIT %(limit)s::int"""

_FAILING = """
SELECT r.tenant_id, f.run_id, f.step, f.first_at FROM runs_sweepfailure f JOIN runs_run r ON r.id = f.run_id
WHERE f.times >= %(times)s::int ORDER BY f.first_at LIMIT %(limit)s::int"""


def runs_untaken(seconds: float) -> list[Backlog]:
    """By tenant, the runs that could be taken for longer than so many seconds, and were not."""
    return [Backlog(*row) for row in fetch(_UNTAKEN, {"seconds": seconds})]


def leases_silent(seconds: float) -> list[Silent]:
    """Runs whose lease ran out longer than so many seconds ago, and that nobody has taken over."""
    return [Silent(*row) for row in _listed(_SILENT, seconds=seconds)]


def sweeps_failing() -> list[Failing]:
    """Runs that the sweep has failed on for several times in a row."""
    return [Failing(*row) for row in _listed(_FAILING, times=FAILED_OFTEN)]


def _listed(sql: str, **values: Any) -> Sequence[Sequence[Any]]:
    return fetch(sql, {**values, "limit": LISTED})
