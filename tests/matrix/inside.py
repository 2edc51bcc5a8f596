"""What the processes of the matrix load beside the product: whom an order at a fault point is meant for, and plants.

An order `<point>@@<about>` is taken only by the process that works for `about`: in a worker the key that the run of its
task was admitted with, in the web server what the request's header X-About says. So many runs share one system, each
with orders of its own, which are there before the run is.
"""

import faulthandler
import os
import signal
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import psycopg
from celery.signals import task_prerun
from django.apps import AppConfig
from django.conf import settings
from django.http import HttpRequest, HttpResponse

from checkpoints import states
from runs import faults
from runs.live import listen_parameters
from tests.matrix.points import Place
from tests.matrix.store import faults as store
from tests.matrix.store.base import watch_statements

HEADER = "X-About"
CHAIN = 3
PLANTS = "MATRIX_PLANTS"  # set where planted bugs are wanted (see tests.matrix.plants)
_request: ContextVar[str] = ContextVar("about", default="")
_task: list[str] = []
_lookup: dict[int, "psycopg.Connection[Any]"] = {}


class Inside(AppConfig):
    """An app without models."""

    name = "tests.matrix"
    label = "matrix"

    def ready(self) -> None:
        """Address the orders. Called in every process."""
        take: Callable[[Path], None] = faults._take

        def take_addressed(order: Path) -> None:
            for about in _abouts():
                take(order.with_name(f"{order.name}@@{about}"))
            take(order)

        faults._take = take_addressed
        watch_statements()
        states.FULL_EVERY = CHAIN  # short runs have several chains, so that retention finds something
        faulthandler.register(signal.SIGUSR2, all_threads=True)  # where it hangs goes to its log
        task_prerun.connect(_note_task, weak=False)
        if os.environ.get(PLANTS):
            planted = _planted()
            planted.install(Place.WORKER)
            planted.watch_statements()
            store.replace_text = planted.statement


def _is_planted(name: str) -> bool:
    return any(Path(settings.FAULT_DIR, f"plant-{name}@@{about}").exists() for about in _abouts())


@cache
def _planted() -> Any:
    """The plants of this process. Imported only where they are wanted: their module loads the engine."""
    return import_module("tests.matrix.plants").Planted(_is_planted)


def _abouts() -> Iterator[str]:
    yield from _task
    if _request.get():
        yield _request.get()


def _note_task(args: Any = (), **_: Any) -> None:
    """A pool process works on one task at a time; its heartbeat works for the same run."""
    _task.clear()
    _task.extend(_admission_key(run_id) for run_id in args)


# A child goes by the key of its parent.
_ADDRESS = """SELECT coalesce('child-' || p.admission_key, r.admission_key)
    FROM runs_run r LEFT JOIN runs_run p ON p.id = r.parent_run_id WHERE r.id = %s"""


def _admission_key(run_id: str) -> str:
    """Looked up past Django, whose sessions are told to fail. The session may have been ended since the last task."""
    for _ in range(2):
        try:
            if os.getpid() not in _lookup:
                _lookup[os.getpid()] = psycopg.connect(**listen_parameters(), autocommit=True)
            row = _lookup[os.getpid()].execute(_ADDRESS, [run_id]).fetchone()
            return str(row[0]) if row else ""
        except psycopg.Error:
            _lookup.clear()
    return ""  # the database does not answer; then this task is nobody's


class Addressed:
    """Middleware: notes what a request is about."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response
        if os.environ.get(PLANTS):
            _planted().install(Place.WEB)

    def __call__(self, request: HttpRequest) -> HttpResponse:
        noted = _request.set(request.headers.get(HEADER, ""))
        try:
            return self.get_response(request)
        finally:
            _request.reset(noted)
