"""The Celery tasks. A message says "look at run X" and nothing else; losing every one of them costs latency only."""

from uuid import UUID

from celery import shared_task
from celery.exceptions import Reject
from celery.signals import worker_process_init
from django.db import connections

from runs.faults import reach
from runs.wakeups import LOOK_TASK
from runtime.drain import draining
from runtime.liveness.lock import liveness_begin
from runtime.loop import drive
from runtime.sweep import sweep_all
from runtime.warm import leave_dead_session


@shared_task(name=LOOK_TASK)
def look(run_id: str) -> None:
    """Continue one run as far as it goes. A worker that drains puts the message back for another one."""
    if draining():
        raise Reject(requeue=True)
    reach("after_dequeue")
    leave_dead_session()
    drive(UUID(run_id))


@shared_task(name="runtime.sweep")
def sweep() -> None:
    """Look at everything that may have been forgotten."""
    leave_dead_session()
    sweep_all()


@worker_process_init.connect
def forget_parent_connections(**_: object) -> None:
    """A forked pool process must not share its parent's database sessions. It gets a lock of its own."""
    connections.close_all()
    liveness_begin()
