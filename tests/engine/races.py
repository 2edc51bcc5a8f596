"""Acts at the same instant, each on a connection of its own; and waiting for what the database shows of them."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from types import ModuleType
from typing import Any, TypeVar

import pytest
from django.db import connection, connections, transaction

from tests.waiting import wait_until

T = TypeVar("T")
PATIENCE_SECONDS = 20.0


def together(*acts: Callable[[], T]) -> list[T]:
    """Do all acts at the same instant and return what each gave, in their order. What one raises is raised."""
    ready = threading.Barrier(len(acts))

    def one(act: Callable[[], T]) -> T:
        try:
            connection.ensure_connection()
            ready.wait(PATIENCE_SECONDS)
            return act()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(len(acts)) as pool:
        return [future.result() for future in [pool.submit(one, act) for act in acts]]


class Aside:
    """One act in a thread of its own, with its own connection. `result` waits for it and raises what it raised."""

    def __init__(self, act: Callable[[], Any]) -> None:
        self._pool = ThreadPoolExecutor(1)
        self._started: Future[int] = Future()
        self._future: Future[Any] = self._pool.submit(self._run, act)
        self.pid = self._started.result(PATIENCE_SECONDS)

    def _run(self, act: Callable[[], Any]) -> Any:
        try:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_backend_pid()")
                self._started.set_result(cursor.fetchone()[0])
            return act()
        finally:
            connections.close_all()

    def result(self) -> Any:
        """What the act gave."""
        try:
            return self._future.result(PATIENCE_SECONDS)
        finally:
            self._pool.shutdown()

    def error(self) -> BaseException | None:
        """What the act raised."""
        try:
            return self._future.exception(PATIENCE_SECONDS)
        finally:
            self._pool.shutdown()

    @property
    def is_done(self) -> bool:
        """Whether it has ended."""
        return self._future.done()

    def wait_blocked(self) -> None:
        """Wait until the act waits for a lock that somebody else holds."""
        wait_until(lambda: self.is_done or waits_for_lock(self.pid), "the act waits for a lock", PATIENCE_SECONDS)
        assert not self.is_done, f"it did not wait for a lock, it gave {self._future.exception() or self.result()!r}"


def waits_for_lock(pid: int) -> bool:
    """Whether the backend waits for a lock now."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT cardinality(pg_blocking_pids(%s)) > 0", [pid])
        return bool(cursor.fetchone()[0])


def terminate(pid: int) -> None:
    """Cut a backend off, as the loss of its client or its server would."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])
        assert cursor.fetchone() == (True,)


class Gate:
    """A place where acts stop until the test lets them go on."""

    def __init__(self, parties: int = 1) -> None:
        self._reached = threading.Barrier(parties + 1)
        self._open = threading.Event()

    def __call__(self, *_: Any, **__: Any) -> None:
        if not self._open.is_set():
            self._reached.wait(PATIENCE_SECONDS)
        assert self._open.wait(PATIENCE_SECONDS), "nobody opened the gate"

    def wait_reached(self) -> None:
        """Wait until all parties have come to this place."""
        self._reached.wait(PATIENCE_SECONDS)

    def open(self) -> None:
        """Let them go on, and whoever comes later."""
        self._open.set()

    def before(self, act: Callable[..., T]) -> Callable[..., T]:
        """The act, once the gate is open."""

        def gated(*args: Any, **kwargs: Any) -> T:
            self()
            return act(*args, **kwargs)

        return gated


def gate_at(patch: pytest.MonkeyPatch, module: ModuleType, name: str, parties: int = 1) -> Gate:
    """A gate before a function of a module."""
    gate = Gate(parties)
    patch.setattr(module, name, gate.before(getattr(module, name)))
    return gate


@contextmanager
def uncommitted() -> Iterator[None]:
    """A transaction of this thread that is committed at the end, so that others meet its locks meanwhile."""
    with transaction.atomic():
        yield


@contextmanager
def undone() -> Iterator[None]:
    """A transaction of this thread of which nothing stays."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)
