"""The Celery tasks. A message says "look at run X" and nothing else; losing every one of them costs latency only."""

import logging
from uuid import UUID

from celery import current_app, shared_task
from celery.exceptions import Reject
from celery.signals import worker_init, worker_process_init
from django.db import connections
from django.db.utils import Error as DatabaseError

from runs.faults import reach
from runs.statements import plan_each
from runs.wakeups import LOOK_TASK
from runtime.drain import draining
from runtime.liveness.lock import liveness_begin, liveness_key
from runtime.loop import drive
from runtime.notices import notices_deliver
from runtime.registry import agents
from runtime.stuck import stuck_tell
from runtime.sweep import sweep_all
from runtime.warm import leave_dead_session, plan_steps

NO_RUN = UUID(int=0)

logger = logging.getLogger(__name__)


def _give_back_if_draining() -> None:
    """A worker that drains puts a message back for another one."""
    if draining():
        raise Reject(requeue=True)


@shared_task(name=LOOK_TASK)
def look(run_id: str) -> None:
    """Continue one run as far as it goes."""
    _give_back_if_draining()
    reach("after_dequeue")
    leave_dead_session()
    drive(UUID(run_id))


@shared_task(name="runtime.sweep")
def sweep() -> None:
    """Look at everything that may have been forgotten."""
    _give_back_if_draining()
    leave_dead_session()
    plan_each()
    sweep_all()


@shared_task(name="runtime.notices")
def notices() -> None:
    """Tell people outside the pages what is due, in a queue of its own."""
    _give_back_if_draining()
    leave_dead_session()
    notices_deliver()


@shared_task(name="runtime.stuck")
def stuck() -> None:
    """Look for what does not move though nobody is asked. In the queue of notices, which other workers serve than runs."""
    _give_back_if_draining()
    leave_dead_session()
    stuck_tell()


@worker_process_init.connect
def forget_parent_connections(**_: object) -> None:
    """A forked pool process must not share its parent's database sessions. It gets a lock of its own."""
    connections.close_all()
    if takes_runs():
        liveness_begin()


def takes_runs() -> bool:
    """Whether this worker takes runs. One of notices alone takes no lease, and is not counted among those that do."""
    return current_app.conf.task_default_queue in current_app.amqp.queues.consume_from


@worker_init.connect
def warm_up_last(**_: object) -> None:
    """Have each pool process warm up after Celery's own receiver, which is there by now, has closed every session."""
    worker_process_init.connect(warm_up)


def warm_up(**_: object) -> None:
    """Before the first hint, connect and load what every task needs, so that nobody waits for it."""
    agents()
    if liveness_key() is None:
        return  # nobody knows whether the database answers, and a pool process that takes long to start is killed
    try:
        drive(NO_RUN)
        plan_steps()
    except DatabaseError as error:
        logger.warning("the database is away, the first task connects: %s", error)
