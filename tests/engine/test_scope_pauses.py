"""Pauses of a tenant, an agent or a thread, who may stop or pause one, and what the database holds of it."""

import pytest
from django.db import IntegrityError, transaction
from django.db.utils import Error as DatabaseError

from accounts.errors import Invalid, NotAllowed, NotFound
from runs.errors import PausedWithScope, ScopePaused
from runs.models import ControlRequest, ScopeControl
from runs.states import ScopeKind
from runtime.loop import drive
from runtime.services import (
    PauseState,
    named_scope,
    run_pause,
    run_resume,
    scope_end,
    scope_pause,
    scope_stop,
)
from runtime.tasks import sweep
from tests.engine.engine import Engine, lease_of, people, run_now, sql
from tests.engine.scoped import TENANT, lift, pause, start, started, stop, thread_of, tried
from tests.scripted import SCRIPT, calls

# ── pause ────────────────────────────────────────────────────────────────────


def test_a_pause_holds_what_lives_and_what_is_started_and_lifting_it_lets_all_go_on(engine: Engine) -> None:
    SCRIPT.tell(calls(("once", "a")))
    waits, queued = engine.start(), engine.start()
    drive(waits)
    control = pause(engine)
    new = started(start(engine))
    held = [(run_now(run_id).status, run_now(run_id).hold_reason) for run_id in (waits, queued, new)]
    assert held == [("HELD", "PAUSED")] * 3
    assert lease_of(new).pause_requested
    drive(new)
    sweep()
    assert run_now(new).status == "HELD"
    lift(engine, control)
    assert [run_now(run_id).status for run_id in (waits, queued, new)] == ["WAITING", "QUEUED", "QUEUED"]
    assert not ControlRequest.objects.filter(status__in=["ACCEPTED", "ADOPTED"]).exists()


def test_no_run_of_a_paused_scope_is_resumed_by_itself(engine: Engine) -> None:
    run_id = started(start(engine))
    pause(engine)
    refused = run_resume(actor=engine.person("otto"), run_id=run_id, reason="just this one")
    assert isinstance(refused, ScopePaused) and "an incident" in refused.sentence
    assert run_now(run_id).status == "HELD"


def test_a_run_that_a_person_has_paused_stays_so_when_the_scope_goes_on(engine: Engine) -> None:
    run_id = started(start(engine))
    run_pause(actor=engine.person("olga"), run_id=run_id, reason="mine")
    lift(engine, pause(engine))
    assert (run_now(run_id).status, run_now(run_id).hold_reason) == ("HELD", "PAUSED")


def test_a_pause_by_hand_of_a_run_that_its_scope_has_paused_says_so_and_what_to_do(engine: Engine) -> None:
    run_id = started(start(engine))
    control = pause(engine)
    refused = run_pause(actor=engine.person("olga"), run_id=run_id, reason="mine")
    assert isinstance(refused, PausedWithScope) and refused.facts["control"] == str(control.control_id)
    assert refused.sentence.endswith("lifted; pause it by itself after that to keep it paused.")
    assert ControlRequest.objects.filter(run_id=run_id).count() == 1
    lift(engine, control)
    assert isinstance(run_pause(actor=engine.person("olga"), run_id=run_id, reason="mine"), PauseState)


def test_a_run_stays_paused_while_another_pause_stands_over_it(engine: Engine) -> None:
    run_id = started(start(engine))
    tenant, agent = pause(engine), pause(engine, ScopeKind.AGENT, "told")
    lift(engine, tenant)
    request = ControlRequest.objects.get(run_id=run_id)
    assert (run_now(run_id).status, request.status, request.scope_control_id) == ("HELD", "ADOPTED", agent.control_id)
    lift(engine, agent)
    assert run_now(run_id).status == "QUEUED"


def test_the_sweep_pauses_and_lets_go_what_was_left_out(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = started(start(engine))
    monkeypatch.setattr("runtime.services.scope.scope_carry", lambda _: None)
    control = pause(engine)
    assert run_now(run_id).status == "QUEUED"
    sweep()
    assert run_now(run_id).status == "HELD"
    lift(engine, control)
    assert run_now(run_id).status == "HELD"
    sweep()
    assert run_now(run_id).status == "QUEUED"


def test_a_stop_goes_over_a_pause(engine: Engine) -> None:
    run_id = started(start(engine))
    pause(engine)
    stop(engine)
    assert run_now(run_id).status == "CANCELLED"
    assert ControlRequest.objects.get(run_id=run_id, kind="PAUSE").status == "SETTLED"


# ── who, and what the database holds ─────────────────────────────────────────


def test_it_needs_the_permission_and_a_reason_and_a_scope_of_ones_own(engine: Engine) -> None:
    run_id = started(start(engine))
    assert isinstance(tried(engine, scope_stop, TENANT, "", "ann"), NotAllowed)
    assert isinstance(tried(engine, scope_pause, TENANT, "", "vera"), NotAllowed)
    assert isinstance(tried(engine, scope_stop, TENANT, "", "otto", reason=" "), Invalid)
    foreign = Engine(people("south")).person("olga")
    for kind, of in ((ScopeKind.THREAD, thread_of(run_id)), (ScopeKind.THREAD, "nothing"), (ScopeKind.AGENT, "nobody")):
        with pytest.raises(NotFound):
            named_scope(actor=foreign, kind=kind, of=of)
    control = stop(engine)
    assert isinstance(lift(engine, control, by="ann"), NotAllowed)
    with pytest.raises(NotFound):
        scope_end(actor=foreign, control_id=control.control_id, reason="mine")
    assert ScopeControl.objects.get().status == "STANDING"


TWICE = """
INSERT INTO runs_scopecontrol (id, tenant_id, kind, scope, reason, requested_by)
SELECT gen_random_uuid(), tenant_id, kind, scope, 'x', 'y' FROM runs_scopecontrol"""


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE runs_scopecontrol SET status = 'LIFTED'",
        "UPDATE runs_scopecontrol SET reason = 'another'",
        "UPDATE runs_scopecontrol SET scope = 'AGENT'",
        "DELETE FROM runs_scopecontrol",
        TWICE,
    ],
)
def test_the_database_holds_the_same_rules(engine: Engine, change: str) -> None:
    stop(engine)
    with pytest.raises((IntegrityError, DatabaseError)), transaction.atomic():
        sql(change)
