"""The figures of the overview, each read in one query."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from celery import current_app
from django.db import connection
from django.db.models import Count
from django.urls import reverse
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

from accounts.states import Actor, Permission
from console.pages import signs, words
from console.pages.inbox.items import SOON, Counts, held_runs, open_waits, unknown_calls
from console.pages.times import span
from runs.selectors import runs_visible
from runs.states import ENDED_RUN, RunStatus

UNTAKEN = timedelta(seconds=10)  # a queued run that nobody took for longer is stuck
STUCK_LIMIT = 20
DAY = timedelta(hours=24)
BROKER_PATIENCE = 0.5


@dataclass(frozen=True)
class Need:
    """One of the counts of what needs a person. `first` runs out or has waited longest."""

    word: str
    lamp: str
    icon: str
    count: int
    url: str
    first: datetime | None
    is_deadline: bool
    soon: int = 0


def needs(actor: Actor, counts: Counts, now: datetime) -> list[Need]:
    """Unknown calls, held runs, approvals: how many, and what is first."""
    inbox = reverse("inbox")
    call, run, wait = unknown_calls(actor).first(), held_runs(actor).first(), open_waits(actor).first()
    soon = open_waits(actor).filter(deadline__lte=now + SOON).count() if wait else 0
    sent = (getattr(call, "sent_at", None) or call.created_at) if call else None
    held = (getattr(run, "held_at", None) or run.created_at) if run else None
    return [
        Need("Unknown calls", "unknown", "unknown", counts.unknown, f"{inbox}?kind=unknown", sent, False),
        Need(
            "Approvals",
            "caution",
            "caution",
            counts.approvals,
            f"{inbox}?kind=approvals",
            wait.deadline if wait else None,
            True,
            soon,
        ),
        Need("Held runs", "stop", "held", counts.held, f"{inbox}?kind=held", held, False),
    ]


@dataclass(frozen=True)
class Line:
    """How many runs stand where: each live status, and each end of the last 24 hours."""

    live: dict[str, int]
    ended: list[tuple[str, int]]

    @property
    def ended_total(self) -> int:
        return sum(count for _, count in self.ended)

    @property
    def live_total(self) -> int:
        return sum(self.live.values())


def line_of(actor: Actor, now: datetime) -> Line:
    """The counts of the line."""
    runs = runs_visible(actor)
    live = runs.exclude(status__in=sorted(ENDED_RUN)).values_list("status").annotate(n=Count("id")).order_by()
    ended = runs.filter(ended_at__gte=now - DAY).values_list("status").annotate(n=Count("id")).order_by()
    counts = dict(ended)
    return Line(dict(live), [(status, counts.get(status, 0)) for status in RunStatus if status in ENDED_RUN])


@dataclass(frozen=True)
class Stuck:
    """A run that does not move and waits for nobody's answer."""

    run_id: UUID
    title: str
    lamp: str
    icon: str
    since: datetime | None
    why: str
    helps: str


_STUCK = """
SELECT r.id, r.title, r.status, r.hold_reason, r.hold_detail, l.expires_at,
       (SELECT max(t.at) FROM runs_runtransition t WHERE t.run_id = r.id) AS since, l.owner,
       (SELECT f.error FROM runs_sweepfailure f WHERE f.run_id = r.id ORDER BY f.first_at LIMIT 1) AS failing
FROM runs_run r JOIN runs_lease l ON l.run_id = r.id
WHERE r.tenant_id = %(tenant)s AND (r.status = 'HELD'
   OR EXISTS (SELECT FROM runs_sweepfailure f WHERE f.run_id = r.id)
   OR (r.status = 'QUEUED' AND r.due_at IS NULL AND (SELECT max(t.at) FROM runs_runtransition t WHERE t.run_id = r.id)
       < clock_timestamp() - %(untaken)s * interval '1 second')
   OR (r.status IN ('RUNNING', 'STOPPING') AND l.expires_at < clock_timestamp()))
ORDER BY since LIMIT %(limit)s"""


def stuck_runs(actor: Actor) -> list[Stuck]:
    """Runs that are held, queued and not taken, failing in the sweep, or whose worker fell silent, the longest first; none without READ."""
    if not actor.may(Permission.READ):
        return []
    asked: dict[str, Any] = {"tenant": actor.tenant_id, "untaken": UNTAKEN.total_seconds(), "limit": STUCK_LIMIT}
    with connection.cursor() as cursor:
        cursor.execute(_STUCK, asked)
        return [_stuck(*row) for row in cursor.fetchall()]


def _stuck(
    id: UUID,
    title: str,
    status: str,
    hold_reason: str | None,
    hold_detail: str,
    expires_at: datetime | None,
    since: datetime,
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
        why, helps = (
            "Queued, and no worker has taken it",
            "Look whether a worker and the broker run; nothing is lost meanwhile",
        )
        return Stuck(id, title, "caution", "clock", since, why, helps)
    why = f"The lease of {owner} ran out and nobody has taken over yet"
    return Stuck(id, title, "caution", "caution", expires_at, why, "A takeover is due; look whether a worker runs")


@dataclass(frozen=True)
class Part:
    """One part of the installation and how it is, as measured just now."""

    word: str
    lamp: str
    say: str

    @property
    def icon(self) -> str:
        return {"clear": "clear", "caution": "caution", "stop": "stop"}.get(self.lamp, "neutral")


_PARTS = """
SELECT (SELECT count(DISTINCT l.owner) FROM runs_lease l WHERE l.expires_at > clock_timestamp()),
       (SELECT clock_timestamp() - min(t.at) FROM runs_run r
        JOIN LATERAL (SELECT max(at) AS at FROM runs_runtransition WHERE run_id = r.id) t ON true
        WHERE r.tenant_id = %(tenant)s AND r.status = 'QUEUED'),
       (SELECT clock_timestamp() - min(w.created_at) FROM runs_wakeup w
        WHERE w.tenant_id = %(tenant)s AND w.status = 'PENDING')"""


def parts(actor: Actor) -> Iterator[Part]:
    """Database, broker, workers and wakeups, as seen from this web process."""
    started = time.monotonic()
    with connection.cursor() as cursor:
        cursor.execute(_PARTS, {"tenant": actor.tenant_id})
        holders, queued, pending = cursor.fetchone()
    yield Part("Database", "clear", f"answers in {(time.monotonic() - started) * 1000:.0f} ms")
    yield _broker()
    yield _late("Queue", queued, "nothing waits for a worker", "oldest queued run waits {}", UNTAKEN)
    yield _late("Wakeups", pending, "none pending", "oldest is pending for {}", UNTAKEN)
    yield Part("Workers", "neutral", f"{holders} hold{'s' if holders == 1 else ''} a lease now")


def _broker() -> Part:
    try:
        with current_app.connection_for_write(connect_timeout=BROKER_PATIENCE) as broker:
            broker.ensure_connection(max_retries=1, timeout=BROKER_PATIENCE, interval_start=0)
    except (OperationalError, RedisError, OSError):
        return Part("Broker", "stop", "does not answer; runs go on when it is back")
    return Part("Broker", "clear", "answers")


def _late(word: str, age: timedelta | None, quiet: str, late: str, limit: timedelta) -> Part:
    if age is None:
        return Part(word, "clear", quiet)
    return Part(word, "caution" if age > limit else "clear", late.format(span(age)))
