"""Signalbox: whole runs through `run_start` and the agent loop in this process, and the save part of a step alone."""

import os
from uuid import UUID

import django
from django.core.management import call_command

from bench.closed_loop import Operation

PERSON = "bench"


def _set_up(dsn: str, broker: str = "memory://") -> None:
    os.environ["SIGNALBOX_DATABASE_URL"] = dsn
    os.environ["SIGNALBOX_DB_POOL"] = "false"
    os.environ["SIGNALBOX_BROKER_URL"] = broker  # by default nobody waits for the hints
    os.environ["DJANGO_SETTINGS_MODULE"] = "bench.settings"
    django.setup()


def prepare(dsn: str, broker: str = "memory://") -> None:
    """Migrate, and make a tenant with somebody who may start runs and decide. Once in a process."""
    _set_up(dsn, broker)
    from accounts.services import member_set, tenant_create
    from accounts.states import Role

    call_command("migrate", verbosity=0, interactive=False)
    tenant = tenant_create(slug="bench", name="Bench")
    member_set(tenant=tenant, username=PERSON, password=None, roles=frozenset({Role.OPERATOR, Role.APPROVER}))


def agent(dsn: str) -> Operation:
    """A whole run: admission, 20 steps under a lease, the end."""
    _set_up(dsn)
    from runtime.loop import drive

    def run() -> None:
        drive(started())

    return run


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
    """One save of a snapshot of 2 kB under a held lease: checked, digested, sealed, and head and revision in one statement."""
    _set_up(dsn)
    from bench.saving import Saver

    return Saver(started()).save
