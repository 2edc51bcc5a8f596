"""Wakeups: durable reasons to look at a run again, and the hint that travels through the queue after commit."""

import logging
from time import monotonic
from uuid import UUID

from celery import current_app
from django.db import transaction
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

from accounts.keys import new_id
from accounts.statements import fetch, joined
from runs.faults import reach
from runs.models import Wakeup
from runs.statements import WAKEUPS_CANCELLED
from runs.states import WakeupCause, WakeupStatus

LOOK_TASK = "runtime.look"
HANGS_SECONDS = 1.0  # a broker that only is not there says so at once
QUIET_SECONDS = 5.0

logger = logging.getLogger(__name__)


_WRITE = """
INSERT INTO runs_wakeup (id, tenant_id, run_id, wait_id, cause, dedupe_key)
VALUES (%(id)s, %(tenant)s, %(run)s, %(wait)s, %(cause)s, %(key)s) ON CONFLICT DO NOTHING"""

_CONSUME = """
UPDATE runs_wakeup SET status = 'CONSUMED', consumed_fence = %(fence)s
WHERE run_id = %(run)s AND status = 'PENDING' AND cause = ANY(%(causes)s) RETURNING id"""

_CLOSE = """
UPDATE runs_wakeup SET status = %(status)s, consumed_fence = %(fence)s
WHERE wait_id = %(wait)s AND status = 'PENDING' RETURNING id"""

_CANCEL = joined(WAKEUPS_CANCELLED, select="SELECT cause FROM cancelled")

_PENDING = """
SELECT 1 FROM runs_wakeup WHERE run_id = %(run)s AND status = 'PENDING' AND cause = ANY(%(causes)s) LIMIT 1"""


def wakeup_write(
    *, tenant_id: UUID, run_id: UUID, cause: WakeupCause, dedupe_key: str, wait_id: UUID | None = None
) -> None:
    """Store a wakeup once per dedupe key, in the caller's transaction."""
    wakeup = {"id": new_id(), "tenant": tenant_id, "run": run_id, "cause": cause, "key": dedupe_key, "wait": wait_id}
    fetch(_WRITE, wakeup)


def wakeups_cancel(*, run_id: UUID) -> frozenset[str]:
    """Cancel what is pending, in the transaction that closes the run. Returns the causes that were."""
    return frozenset(cause for (cause,) in fetch(_CANCEL, {"run": run_id}))


def wakeups_consume(*, run_id: UUID, fence: int, causes: frozenset[WakeupCause]) -> int:
    """Consume what is pending of the given causes under this fence. Returns how many."""
    return len(fetch(_CONSUME, {"run": run_id, "fence": fence, "causes": sorted(causes)}))


def wait_wakeups_close(*, wait_id: UUID, status: WakeupStatus, fence: int | None = None) -> int:
    """Close the pending wakeups of one wait as consumed (under a fence), refused or cancelled."""
    return len(fetch(_CLOSE, {"wait": wait_id, "status": status, "fence": fence}))


def wakeup_pending(*, run_id: UUID, causes: frozenset[WakeupCause]) -> bool:
    """True while a wakeup of one of these causes waits to be consumed."""
    return bool(fetch(_PENDING, {"run": run_id, "causes": sorted(causes)}))


def wakeups_refuse(*, run_id: UUID) -> None:
    """Refuse what is pending, in the transaction that holds a run whose resume was refused (ruling 31)."""
    Wakeup.objects.filter(run_id=run_id, status=WakeupStatus.PENDING).update(status=WakeupStatus.REFUSED)


def hint_run(*, run_id: UUID) -> None:
    """After the commit, ask some worker to look at the run. A lost hint is sent again by the sweep.

    Always at once: what is due later is in the database, and the sweep finds it then. A broker that holds a message for longer than
    its own patience delivers it many times over.
    """
    transaction.on_commit(lambda: _send(run_id))


def hints_begin() -> None:
    """Connect this process to the broker ahead of its first hint. Where that fails, the hint connects."""
    try:
        with current_app.producer_or_acquire() as producer:
            producer.maybe_declare(current_app.amqp.queues[current_app.conf.task_default_queue])
    except (OperationalError, RedisError, OSError) as error:
        logger.warning("no broker yet: %s", error)


def _send(run_id: UUID) -> None:
    reach("before_enqueue")
    began = monotonic()
    if began < _broker.hangs_until:
        return  # the sweep will; whoever decides many at once would wait for the broker as many times
    try:
        current_app.send_task(LOOK_TASK, args=[str(run_id)], retry=False)
    except (OperationalError, RedisError, OSError) as error:
        logger.warning("hint for run %s not queued, the sweep will: %s", run_id, error)
        now = monotonic()
        if now - began > HANGS_SECONDS:
            _broker.hangs_until = now + QUIET_SECONDS


class _Broker:
    """What this process knows of it: until when it is not asked again, after it has left somebody waiting."""

    hangs_until = 0.0


_broker = _Broker()
