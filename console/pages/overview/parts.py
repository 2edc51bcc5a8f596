"""The parts of the installation and how each is, as measured just now from this web process."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from celery import current_app
from django.db import connection
from django.utils import timezone
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

from accounts.states import Actor
from console.pages.amounts import room
from console.pages.overview.disk import disk_state
from console.pages.overview.stuck import UNTAKEN, Standing, running_for, standing
from console.pages.times import span
from runs.consumers.hub import heard_for, was_asked_to_hear

BROKER_PATIENCE = 0.5
SKEW = timedelta(seconds=2)

_PARTS = """
SELECT clock_timestamp(), pg_database_size(current_database()),
    (SELECT count(DISTINCT l.owner) FROM runs_lease l WHERE l.expires_at > clock_timestamp()),
    (SELECT clock_timestamp() - min(t.at) FROM runs_run r
     JOIN LATERAL (SELECT max(at) AS at FROM runs_runtransition WHERE run_id = r.id) t ON true
     WHERE r.tenant_id = %(tenant)s AND r.status = 'QUEUED'),
    (SELECT clock_timestamp() - min(w.created_at) FROM runs_wakeup w
     WHERE w.tenant_id = %(tenant)s AND w.status = 'PENDING')"""


@dataclass(frozen=True)
class Part:
    """One part and how it is."""

    word: str
    lamp: str
    say: str

    @property
    def icon(self) -> str:
        return {"clear": "clear", "caution": "caution", "stop": "stop"}.get(self.lamp, "neutral")


def parts(actor: Actor) -> Iterator[Part]:
    """Database, clocks, broker, workers, sweep, queue, wakeups, live line and disk."""
    before, started = timezone.now(), time.monotonic()
    with connection.cursor() as cursor:
        cursor.execute(_PARTS, {"tenant": actor.tenant_id})
        now, size, holders, queued, pending = cursor.fetchone()
    took = time.monotonic() - started
    stands = standing(actor)
    yield Part("Database", "clear", f"answers in {took * 1000:.0f} ms; {room(size)}")
    yield _skew(before + timedelta(seconds=took / 2), now)
    yield _broker()
    yield _workers(stands, holders)
    yield _sweep(stands)
    yield _late("Queue", queued, "nothing waits for a worker", "oldest queued run waits {}", UNTAKEN)
    yield _late("Wakeups", pending, "none pending", "oldest is pending for {}", UNTAKEN)
    yield _line()
    yield Part("Disk", *disk_state())


def _skew(here: datetime, there: datetime) -> Part:
    apart = abs(here - there)
    if apart <= SKEW:
        return Part("Clock", "clear", "this server and the database agree")
    which = "ahead of" if here > there else "behind"
    return Part("Clock", "caution", f"this server is {span(apart)} {which} the database, whose time counts")


def _broker() -> Part:
    try:
        with current_app.connection_for_write(connect_timeout=BROKER_PATIENCE) as broker:
            broker.ensure_connection(max_retries=1, timeout=BROKER_PATIENCE, interval_start=0)
    except (OperationalError, RedisError, OSError):
        return Part("Broker", "stop", "does not answer; runs go on when it is back")
    return Part("Broker", "clear", "answers")


def _workers(stands: Standing, holders: int) -> Part:
    holding = f"{holders} hold{'s' if holders == 1 else ''} a lease now"
    if stands.workers is None:
        return Part("Workers", "neutral", holding)
    if stands.workers == 0:
        return Part("Workers", "stop", "none answers; start one, nothing is lost meanwhile")
    are = f"{stands.workers} process{'es are' if stands.workers != 1 else ' is'} connected"
    if stands.sweep_is_late:
        return Part("Workers", "caution", f"{are}, and none has swept lately; {holding}")
    return Part("Workers", "clear", f"{are}; {holding}")


def _sweep(stands: Standing) -> Part:
    if stands.sweep_is_due and not stands.sweep_is_late:
        return Part("Sweep", "neutral", f"has not come round yet since this server began {span(running_for())} ago")
    if stands.swept_ago is None:
        return Part("Sweep", "stop", "has never run here; start the clock (celery beat)")
    lamp = "stop" if stands.sweep_is_late else "clear"
    return Part("Sweep", lamp, f"last ended {span(stands.swept_ago)} ago")


def _late(word: str, age: timedelta | None, quiet: str, late: str, limit: timedelta) -> Part:
    if age is None:
        return Part(word, "clear", quiet)
    return Part(word, "caution" if age > limit else "clear", late.format(span(age)))


def _line() -> Part:
    """Whether this web process hears what changes; without it, open pages ask by themselves."""
    heard = heard_for()
    if heard is None and not was_asked_to_hear():
        return Part("Live line", "neutral", "opens with the first page that asks this server for it")
    if heard is None:
        return Part("Live line", "caution", "this server does not hear changes; open pages ask every 5 s")
    return Part("Live line", "clear", f"has heard changes for {span(timedelta(seconds=heard))}")
