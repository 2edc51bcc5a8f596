"""What does not move though nobody is asked, told to people: no worker, a lost holder, a sweep that fails, passed deadlines.

It runs in the queue of notices: a worker that is missing from the queue of runs can't tell of itself.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from uuid import UUID

from django.conf import settings

from accounts.services import notice_write
from accounts.states import NoticeKind, Subject
from approvals.selectors import waits_overdue
from runs.selectors import Backlog, leases_silent, runs_untaken, sweeps_failing

WATCHED = "stuck:"  # how the dedupe keys begin of what is looked for here
_HOUR = 3600


class Cause(StrEnum):
    """Why something is stuck that no run is held for."""

    QUEUE = "QUEUE"
    DEADLINES = "DEADLINES"
    LEASE = "LEASE"
    SWEEP = "SWEEP"
    UNSEEN = "UNSEEN"


@dataclass(frozen=True)
class Stuck:
    """One thing that does not move. `key` is the same for as long as it is the same thing."""

    tenant_id: UUID
    subject: Subject
    subject_id: UUID
    key: str
    cause: Cause
    facts: Mapping[str, str] = field(default_factory=dict)


def stuck_now() -> Iterator[Stuck]:
    """Everything of all tenants that has not moved for longer than `NOTICE_STUCK_SECONDS`."""
    seconds = settings.NOTICE_STUCK_SECONDS
    for queued in runs_untaken(seconds):
        yield _of_tenant(Cause.QUEUE, queued)
    for overdue in waits_overdue(seconds):
        yield _of_tenant(Cause.DEADLINES, Backlog(*overdue))
    for silent in leases_silent(seconds):
        yield Stuck(
            silent.tenant_id, Subject.RUN, silent.run_id, f"{WATCHED}lease:{silent.run_id}:{silent.fence}", Cause.LEASE
        )
    for failing in sweeps_failing():
        key = f"{WATCHED}sweep:{failing.run_id}:{failing.step}:{int(failing.since.timestamp())}"
        yield Stuck(failing.tenant_id, Subject.RUN, failing.run_id, key, Cause.SWEEP, {"step": failing.step})


def _of_tenant(cause: Cause, found: Backlog) -> Stuck:
    """Told once while the oldest stays the same, and once an hour where it does not: a queue that is only too slow."""
    key = f"{WATCHED}{cause.lower()}:{found.tenant_id}:{int(found.since.timestamp()) // _HOUR}"
    facts = {"count": str(found.count), "since": _clock(found.since)}
    return Stuck(found.tenant_id, Subject.TENANT, found.tenant_id, key, cause, facts)


def _clock(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def stuck_tell() -> int:
    """Write a notice for each of them, once. Returns how many endpoints are told. Called by the Celery task."""
    return sum(
        notice_write(
            tenant_id=one.tenant_id,
            kind=NoticeKind.STUCK,
            subject=one.subject,
            subject_id=one.subject_id,
            dedupe_key=one.key,
            facts={"reason": str(one.cause), **one.facts},
        )
        for one in stuck_now()
    )
