"""The Celery application. Messages are hints that say "look at run X"; the database is the truth."""

import os
import signal
from typing import Any

from billiard import pool
from celery import Celery
from celery.signals import setup_logging, worker_process_init, worker_shutting_down

from console.processes import die_with_parent
from runtime.drain import drain_begin

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")

# A pool process that ends waits this often, 0.1 s each, for its worker to have read what it said, and goes then. What it says
# of a message that was handed to it just before the worker was asked to stop is never read: by default it waits 30 s.
_FAREWELLS = 20

app = Celery("signalbox")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["runtime"])


@setup_logging.connect
def keep_django_logging(**_: Any) -> None:
    """With a receiver here Celery leaves logging as the settings have it."""


@worker_process_init.connect
def end_with_worker(**_: Any) -> None:
    """A pool process whose worker was killed ends at once, in the middle of whatever it did, as the worker did. One that is
    asked to stop leaves that to its worker, who drains: systemd, and whoever stops by name, ask all processes at once.
    """
    die_with_parent(signal.SIGKILL)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    pool.GUARANTEE_MESSAGE_CONSUMPTION_RETRY_LIMIT = _FAREWELLS


@worker_shutting_down.connect
def drain_pool(**_: Any) -> None:
    """A worker that was asked to stop waits for its pool processes; this has them stop at their next seam."""
    drain_begin()
