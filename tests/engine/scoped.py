"""Stops and pauses of a tenant, an agent or a thread in engine tests."""

from typing import Any
from uuid import UUID

from accounts.errors import Refused
from runs.models import Run, Thread
from runs.states import LIVE_RUN, ScopeKind
from runtime.services import (
    ScopeState,
    Started,
    StartRequest,
    named_scope,
    run_start,
    scope_end,
    scope_pause,
    scope_stop,
)
from tests.engine.engine import Engine

TENANT = ScopeKind.TENANT


def stop(engine: Engine, kind: ScopeKind = TENANT, of: str = "", by: str = "otto", **how: Any) -> ScopeState:
    outcome = tried(engine, scope_stop, kind, of, by, **how)
    assert isinstance(outcome, ScopeState), outcome
    return outcome


def pause(engine: Engine, kind: ScopeKind = TENANT, of: str = "", by: str = "otto") -> ScopeState:
    outcome = tried(engine, scope_pause, kind, of, by)
    assert isinstance(outcome, ScopeState), outcome
    return outcome


def tried(engine: Engine, act: Any, kind: ScopeKind, of: str, by: str, reason: str = "an incident", **how: Any) -> Any:
    actor = engine.person(by)
    return act(actor=actor, scope=named_scope(actor=actor, kind=kind, of=of), reason=reason, **how)


def lift(engine: Engine, control: ScopeState, by: str = "otto", reason: str = "it is over") -> Any:
    return scope_end(actor=engine.person(by), control_id=control.control_id, reason=reason)


def start(engine: Engine, agent: str = "told", thread: str = "") -> Started | Refused:
    return run_start(actor=engine.person("olga"), wanted=StartRequest(agent, {}, thread=thread))


def started(outcome: Started | Refused) -> UUID:
    assert isinstance(outcome, Started), outcome
    return outcome.run_id


def live() -> list[UUID]:
    return list(Run.objects.filter(status__in=sorted(LIVE_RUN)).values_list("id", flat=True))


def thread_of(run_id: UUID) -> str:
    return str(Thread.objects.get(runs=run_id).id)
