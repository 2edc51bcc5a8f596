"""Signalbox: whole runs through `run_start` and the agent loop in this process, the save part of a step alone, and the growth."""

import os
import time
from collections.abc import Callable
from uuid import UUID

import django
from django.core.management import call_command

from bench.closed_loop import Operation
from bench.growing import LOADS, START_MESSAGES, STEPS, Grown

PERSON = "bench"
# What a snapshot holds: references to results, and promises of 2 kB each.
SMALL, LARGE = (5, 0), (1950, 25)


def set_up(dsn: str, broker: str = "memory://") -> None:
    """Point Django at a database. Once in a process."""
    os.environ["SIGNALBOX_DATABASE_URL"] = dsn
    os.environ["SIGNALBOX_DB_POOL"] = "false"
    os.environ["SIGNALBOX_BROKER_URL"] = broker  # by default nobody waits for the hints
    os.environ["DJANGO_SETTINGS_MODULE"] = "bench.settings"
    django.setup()


def prepare(dsn: str, broker: str = "memory://") -> None:
    """Migrate, and make a tenant with somebody who may start runs and decide. Once in a process."""
    set_up(dsn, broker)
    from accounts.services import member_set, tenant_create
    from accounts.states import Role

    call_command("migrate", verbosity=0, interactive=False)
    tenant = tenant_create(slug="bench", name="Bench")
    member_set(tenant=tenant, username=PERSON, password=None, roles=frozenset({Role.OPERATOR, Role.APPROVER}))


def agent(dsn: str) -> Operation:
    """A whole run: admission, 20 steps under a lease, the end."""
    set_up(dsn)
    from runtime.loop import drive

    def run() -> None:
        drive(started())

    return run


def tell_counts() -> None:
    """Have the server process of this session add what it has counted to the server's counts; by itself it takes its time."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_force_next_flush()")


def started(goal: str = "", agent: str = "stub") -> UUID:
    """A run of the stub, or of another agent, queued."""
    from accounts.selectors import actor_named
    from runtime.services import Started, StartRequest, run_start

    wanted = StartRequest(agent, {}, goal=goal)
    outcome = run_start(actor=actor_named(username=PERSON, door="command"), wanted=wanted)
    if not isinstance(outcome, Started):
        raise TypeError(f"{outcome}")
    return outcome.run_id


def save(dsn: str) -> Operation:
    """One save of a snapshot of 2 kB under a held lease, as a step makes it: checked, digested, sealed, and head and revision
    in one statement; a delta, and every hundredth time in full.
    """
    return _saving(dsn, *SMALL)


def save_in_full(dsn: str) -> Operation:
    """The same, with every revision in full."""
    set_up(dsn)
    _without_deltas()
    return _saving(dsn, *SMALL)


def save_large(dsn: str) -> Operation:
    """As `save`, with a snapshot of 500 kB."""
    return _saving(dsn, *LARGE)


def save_large_in_full(dsn: str) -> Operation:
    """The same, with every revision in full."""
    set_up(dsn)
    _without_deltas()
    return _saving(dsn, *LARGE)


def _without_deltas() -> None:
    from checkpoints import states

    states.FULL_EVERY = 1


def _saving(dsn: str, references: int, promises: int) -> Operation:
    set_up(dsn)
    from bench.saving import Saver

    return Saver(started(), references, promises).save


def grow(dsn: str) -> Grown:
    """One run whose every turn and answer is another text: the growth, and then reading its last state and all its texts."""
    set_up(dsn)
    from bench.stub_growing import MARKS
    from checkpoints.selectors import load_head
    from runs.selectors import run_now
    from runtime.conversation import history_of, rebuild
    from runtime.loop import drive

    run_id = started(agent="grower")
    drive(run_id)
    run = run_now(run_id)
    head, conversation = load_head(run), rebuild(history_of(run))
    if run.status != "COMPLETED" or len(conversation.messages) < START_MESSAGES + STEPS:
        raise RuntimeError(f"the long run is {run.status}")
    loads = [_milliseconds(lambda: (load_head(run), rebuild(history_of(run)))) for _ in range(LOADS)]
    heads = [_milliseconds(lambda: load_head(run)) for _ in range(LOADS)]
    return Grown(head.revision, MARKS[-STEPS - 1 :], loads, heads)


def _milliseconds(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return 1e3 * (time.perf_counter() - began)
