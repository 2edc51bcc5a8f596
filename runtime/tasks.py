"""The Celery tasks. A message says "look at run X" and nothing else; losing every one of them costs latency only."""

import logging
from uuid import UUID

from celery import shared_task
from celery.signals import worker_process_init
from django.db import connections

from approvals.selectors import waits_past_deadline
from approvals.services import wait_expire
from runs.selectors import runs_to_look_at, runs_with_unheard_wakeups
from runs.wakeups import LOOK_TASK, hint_run
from runtime.loop import drive
from runtime.requeue import requeue_woken

logger = logging.getLogger(__name__)


@shared_task(name=LOOK_TASK)
def look(run_id: str) -> None:
    """Continue one run as far as it goes."""
    drive(UUID(run_id))


@shared_task(name="runtime.sweep")
def sweep() -> None:
    """Send again every hint that may have been lost: queued runs, expired leases, pending wakeups, passed deadlines."""
    for wait_id in waits_past_deadline():
        wait_expire(wait_id=wait_id)
    for run_id in runs_with_unheard_wakeups():
        requeue_woken(run_id)
    for run_id in runs_to_look_at():
        hint_run(run_id=run_id)


@worker_process_init.connect
def forget_parent_connections(**_: object) -> None:
    """A forked pool process must not share its parent's database sessions."""
    connections.close_all()
