"""An abort: a run is closed without waiting for what is on the wire. It calls nothing back, and says so."""

import pytest
from django.db import IntegrityError
from pytest_django import Settings

from accounts.errors import Invalid, NotAllowed
from accounts.models import AuditEvent
from receipts.models import Attempt, Effect, ModelCall, Result
from runs.errors import RunEnded
from runs.models import ControlRequest, Refusal
from runtime.loop import drive
from runtime.services import StopState
from runtime.tasks import sweep
from tests.engine.engine import Engine, call_named, lease_of, phases, run_now, sql
from tests.engine.family import awaits, child_of, spawn, tell
from tests.engine.races import Aside, Gate, together
from tests.engine.stops import abort, causes, on_the_wire, the_stop
from tests.scripted import SCRIPT, calls, went_well
from tests.waiting import wait_until


def test_the_run_is_closed_at_once_and_its_call_is_unknown(engine: Engine) -> None:
    run_id, gate, worker = on_the_wire(engine)
    fence = lease_of(run_id).fence
    outcome = abort(engine, run_id)
    assert isinstance(outcome, StopState) and outcome.status == "SETTLED"
    run, stop = run_now(run_id), the_stop(run_id)
    assert (run.status, run.end_reason, causes(run_id)[-2:]) == ("CANCELLED", "aborted", ["STOP_ADOPTED", "ABORTED"])
    assert (stop.status, stop.adopted_fence, stop.aborted_by) == ("SETTLED", fence + 1, "person:otto-north")
    assert (lease_of(run_id).owner, lease_of(run_id).fence) == (None, fence + 1)
    call = call_named(run_id, "a")
    assert (call.status, call.blocking, call.tries.get().outcome) == ("UNCERTAIN", True, "NO_RESPONSE")
    assert phases(run_id)[-1] == "STOPPED"
    assert not run.budgets.filter(reserved__gt=0).exists()
    assert run.budgets.get(unit="tool_calls").held_unknown == 1
    gate.open()
    worker.result()


def test_an_answer_that_comes_after_it_is_evidence_and_nothing_else(engine: Engine) -> None:
    run_id, gate, worker = on_the_wire(engine)
    abort(engine, run_id)
    before = causes(run_id)
    gate.open()
    worker.result()
    assert list(Refusal.objects.filter(run_id=run_id).order_by("kind").values_list("kind", flat=True)) == [
        "LATE_RESULT",
        "STALE_FENCE",
    ]
    assert call_named(run_id, "a").status == "UNCERTAIN"
    assert not Result.objects.filter(tool_call__run_id=run_id).exists()
    assert not Effect.objects.filter(tool_call__run_id=run_id).exists()
    sweep()
    drive(run_id)
    assert causes(run_id) == before


def test_a_verdict_is_given_on_it_although_the_run_is_over(engine: Engine) -> None:
    run_id, gate, worker = on_the_wire(engine)
    abort(engine, run_id)
    gate.open()
    worker.result()
    engine.reconcile(call_named(run_id, "a"), "EXECUTED", external_ref="ref-a")
    assert (call_named(run_id, "a").status, run_now(run_id).status) == ("SUCCEEDED", "CANCELLED")


def test_a_stop_that_waits_for_an_answer_can_still_be_turned_into_an_abort(engine: Engine, settings: Settings) -> None:
    settings.HEARTBEAT_SECONDS = 0.02
    run_id, gate, worker = on_the_wire(engine)
    engine.stop(run_id)
    wait_until(lambda: run_now(run_id).status == "STOPPING", "the stop is adopted")
    adopted = the_stop(run_id).adopted_at
    outcome = abort(engine, run_id, by="olga")
    assert isinstance(outcome, StopState) and not outcome.new
    stop = the_stop(run_id)
    assert (stop.requested_by, stop.aborted_by) == ("person:otto-north", "person:olga-north")
    assert (stop.reason, stop.abort_reason, stop.adopted_at) == ("not needed", "it must end now", adopted)
    assert run_now(run_id).status == "CANCELLED"
    gate.open()
    worker.result()


def test_a_turn_on_the_wire_is_not_waited_for_either(engine: Engine) -> None:
    gate = Gate()
    SCRIPT.tell(gate.before(lambda _: calls(("look", "a"))))
    run_id = engine.start()
    worker = Aside(lambda: drive(run_id))
    gate.wait_reached()
    abort(engine, run_id)
    turn = ModelCall.objects.get(run_id=run_id)
    assert (turn.status, turn.tries.get().outcome) == ("CANCELLED", "NO_RESPONSE")
    gate.open()
    worker.result()
    assert not Attempt.objects.filter(tool_call__run_id=run_id).exists()


def test_where_nobody_holds_the_run_an_abort_is_a_stop_that_says_so(engine: Engine) -> None:
    run_id = engine.run(calls(("once", "a")))
    abort(engine, run_id)
    assert (run_now(run_id).status, run_now(run_id).end_reason) == ("CANCELLED", "stopped")
    assert the_stop(run_id).aborted_at is not None and the_stop(run_id).adopted_at is None


def test_it_needs_the_permission_a_reason_and_a_run_that_lives(engine: Engine) -> None:
    run_id = engine.run(calls(("once", "a")))
    assert isinstance(abort(engine, run_id, by="ann"), NotAllowed)
    assert isinstance(abort(engine, run_id, reason=" "), Invalid)
    assert not ControlRequest.objects.exists()
    engine.stop(run_id)
    assert isinstance(abort(engine, run_id), RunEnded)
    assert the_stop(run_id).aborted_at is None
    assert AuditEvent.objects.filter(action="run.abort.refused", object_id=str(run_id)).count() == 3


def test_many_aborts_and_the_answer_at_one_instant_close_it_once(engine: Engine) -> None:
    run_id, gate, worker = on_the_wire(engine)
    outcomes = together(*[lambda: abort(engine, run_id)] * 5, gate.open)
    worker.result()
    assert sum(isinstance(outcome, StopState) for outcome in outcomes) in (0, 1)
    assert causes(run_id).count("ABORTED") + causes(run_id).count("STOPPED") + causes(run_id).count("COMPLETED") == 1
    call = call_named(run_id, "a")
    assert call.status in ("UNCERTAIN", "SUCCEEDED")
    assert Result.objects.filter(tool_call=call).exists() == (call.status == "SUCCEEDED")
    assert call.attempts == 1


def test_the_children_of_an_aborted_run_are_aborted(engine: Engine) -> None:
    gate = Gate()
    tell([spawn("c"), awaits], [calls(("look", "n"))])
    parent = engine.start("parent")
    drive(parent)
    child = child_of(parent)
    SCRIPT.do("n", gate.before(lambda _: went_well("n")))
    worker = Aside(lambda: drive(child.id))
    gate.wait_reached()
    abort(engine, parent)
    stop = the_stop(child.id)
    assert (run_now(child.id).status, stop.cascade_of_id, stop.abort_reason) == (
        "CANCELLED",
        the_stop(parent).id,
        "it must end now",
    )
    gate.open()
    worker.result()


def test_the_sweep_aborts_a_child_that_was_left_out(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate()
    tell([spawn("c"), awaits], [calls(("look", "n"))])
    parent = engine.start("parent")
    drive(parent)
    child = child_of(parent)
    SCRIPT.do("n", gate.before(lambda _: went_well("n")))
    worker = Aside(lambda: drive(child.id))
    gate.wait_reached()
    engine.stop(child.id)
    monkeypatch.setattr("runtime.services.stop.children_stop", lambda *_: None)
    abort(engine, parent)
    assert the_stop(child.id).aborted_at is None
    sweep()
    assert (run_now(child.id).status, the_stop(child.id).aborted_by) == ("CANCELLED", "person:otto-north")
    gate.open()
    worker.result()


def test_the_database_knows_no_abort_without_who_and_why(engine: Engine) -> None:
    run_id = engine.run(calls(("once", "a")))
    engine.stop(run_id)
    with pytest.raises(IntegrityError, match="control_abort_is_of_a_stop"):
        sql("UPDATE runs_controlrequest SET aborted_at = clock_timestamp() WHERE run_id = %s", run_id)
