"""Stops and aborts of a tenant, an agent or a thread: one act, carried to each run; nothing slips past it; it stands until lifted."""

from functools import partial
from importlib import import_module
from typing import Any
from uuid import UUID

import pytest

from accounts.models import AuditEvent
from approvals.errors import RunStopped
from approvals.models import Decision, Wait
from approvals.services import Decided
from runs.errors import AlreadyLifted, NotAStop, NothingToAbort, StartsStopped
from runs.models import ControlRequest, Run, ScopeControl
from runs.states import ScopeKind
from runtime import scopes
from runtime.loop import drive
from runtime.services import (
    ScopeState,
    Started,
    StartRequest,
    SuccessorRequest,
    run_continue,
    run_start,
    scope_abort_on,
)
from runtime.tasks import sweep
from tests.engine.engine import At, Engine, Killed, call_named, kill, lease_of, people, run_now
from tests.engine.family import awaits, child_of, spawn, tell
from tests.engine.races import Aside, Gate, gate_at, together, uncommitted
from tests.engine.scoped import lift, live, pause, start, started, stop, thread_of
from tests.engine.stops import the_stop
from tests.scripted import SCRIPT, calls, went_well

# ── stop ─────────────────────────────────────────────────────────────────────


def test_a_stop_of_the_tenant_stops_every_run_of_it_and_of_no_other(engine: Engine) -> None:
    SCRIPT.tell(calls(("once", "a")))
    waits, queued = engine.start(), engine.start()
    drive(waits)
    engine.approve(waits)
    other = Engine(people("south"))
    foreign = other.start()
    control = stop(engine)
    assert [run_now(run_id).status for run_id in (waits, queued, foreign)] == ["CANCELLED", "CANCELLED", "QUEUED"]
    for run_id in (waits, queued):
        request = the_stop(run_id)
        assert (request.status, request.scope_control_id, request.requested_by, request.reason) == (
            "SETTLED",
            control.control_id,
            "person:otto-north",
            "an incident",
        )
    assert Wait.objects.get(run_id=waits).status == "CANCELLED"
    assert (call_named(waits, "a").status, call_named(waits, "a").attempts) == ("CANCELLED", 0)
    assert AuditEvent.objects.filter(action="scope.stop", object_id=str(control.control_id)).count() == 1


@pytest.mark.parametrize("kind", [ScopeKind.AGENT, ScopeKind.THREAD])
def test_a_stop_of_an_agent_or_a_thread_leaves_the_rest_alone(engine: Engine, kind: ScopeKind) -> None:
    mine, beside = started(start(engine, thread="mine")), started(start(engine, agent="promising"))
    stop(engine, kind, "told" if kind == ScopeKind.AGENT else thread_of(mine))
    assert [run_now(run_id).status for run_id in (mine, beside)] == ["CANCELLED", "QUEUED"]
    refused = start(engine, thread="mine")
    assert isinstance(refused, StartsStopped)
    assert "an incident" in refused.sentence and "otto-north" in refused.sentence
    assert isinstance(start(engine, agent="promising"), Started)
    assert isinstance(start(engine, thread="another"), StartsStopped if kind == ScopeKind.AGENT else Started)


def test_nothing_is_started_or_continued_until_the_stop_is_lifted(engine: Engine) -> None:
    before = started(start(engine))
    control = stop(engine)
    assert isinstance(start(engine), StartsStopped)
    successor = run_continue(actor=engine.person("olga"), run_id=before, wanted=SuccessorRequest("go on"))
    assert isinstance(successor, StartsStopped)
    assert live() == [] and Run.objects.count() == 1
    assert AuditEvent.objects.filter(action="run.start.refused", detail__code="SCOPE_STOPPED").count() == 1
    assert isinstance(lift(engine, control), ScopeState)
    assert isinstance(lift(engine, control), AlreadyLifted)
    row = ScopeControl.objects.get()
    assert (row.status, row.lifted_by, row.lift_reason) == ("LIFTED", "person:otto-north", "it is over")
    assert isinstance(start(engine), Started)
    assert run_now(before).status == "CANCELLED"
    sweep()
    assert len(live()) == 1


def test_a_start_that_was_asked_for_before_is_still_answered_with_its_run(engine: Engine) -> None:
    wanted = StartRequest("told", {}, key="k")
    first = run_start(actor=engine.person("olga"), wanted=wanted)
    stop(engine)
    again = run_start(actor=engine.person("olga"), wanted=wanted)
    assert isinstance(first, Started) and isinstance(again, Started) and again.run_id == first.run_id


def test_fifty_starts_against_a_stop_leave_no_run_that_it_has_not_reached(engine: Engine) -> None:
    """Whoever is admitted is stopped, whoever comes later is refused: none slips past."""
    start(engine)
    acts: list[Any] = [partial(start, engine) for _ in range(50)]
    outcomes = together(*acts[:25], partial(stop, engine), *acts[25:])
    states = [outcome for outcome in outcomes if isinstance(outcome, ScopeState)]
    begun = [outcome.run_id for outcome in outcomes if isinstance(outcome, Started)]
    refused = [outcome for outcome in outcomes if isinstance(outcome, StartsStopped)]
    assert len(states) == 1 and len(begun) + len(refused) == 50
    assert Run.objects.count() == len(begun) + 1
    assert live() == []
    assert ControlRequest.objects.filter(kind="STOP", scope_control=states[0].control_id).count() == len(begun) + 1


def test_a_stop_waits_for_an_admission_under_way_and_reaches_its_run(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(engine)
    gate = gate_at(monkeypatch, import_module("runtime.services.start"), "contract_open")
    admission = Aside(lambda: start(engine))
    gate.wait_reached()
    act = Aside(lambda: stop(engine))
    act.wait_blocked()
    gate.open()
    run_id = started(admission.result())
    act.result()
    assert run_now(run_id).status == "CANCELLED"


def test_without_the_lock_of_admissions_a_run_would_slip_past_the_stop(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the lock is for. The sweep would find the run, but it may have sent something by then."""
    monkeypatch.setattr("runs.services.control.HOLD_ADMISSIONS", "SELECT 1 WHERE %(tenant)s::uuid IS NULL")
    start(engine)
    gate = gate_at(monkeypatch, import_module("runtime.services.start"), "contract_open")
    admission = Aside(lambda: start(engine))
    gate.wait_reached()
    stop(engine)
    gate.open()
    run_id = started(admission.result())
    assert run_now(run_id).status == "QUEUED"
    sweep()
    assert run_now(run_id).status == "CANCELLED"


def test_an_admission_waits_for_a_stop_under_way_and_is_refused(engine: Engine) -> None:
    start(engine)
    with uncommitted():
        stop(engine)
        late = Aside(lambda: start(engine))
        late.wait_blocked()
    assert isinstance(late.result(), StartsStopped)


def test_a_stop_that_is_cut_off_is_carried_on_by_the_sweep(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [started(start(engine)) for _ in range(3)]
    reach = scopes.scope_reach
    done: list[UUID] = []

    def dies_after_the_first(*, control_id: UUID, run_id: UUID) -> None:
        if done:
            raise SystemExit
        done.append(run_id)
        reach(control_id=control_id, run_id=run_id)

    monkeypatch.setattr(scopes, "scope_reach", dies_after_the_first)
    with pytest.raises(SystemExit):
        stop(engine)
    assert sorted(run_now(run_id).status for run_id in runs) == ["CANCELLED", "QUEUED", "QUEUED"]
    assert isinstance(start(engine), StartsStopped)
    monkeypatch.undo()
    sweep()
    assert live() == []


def test_a_stop_whose_process_dies_once_it_is_accepted_stands_and_is_carried_by_the_sweep(
    engine: Engine, at_point: At
) -> None:
    run_id = started(start(engine))
    at_point("after_scope_committed", kill)
    with pytest.raises(Killed):
        stop(engine)
    assert (run_now(run_id).status, ScopeControl.objects.count()) == ("QUEUED", 1)
    assert isinstance(start(engine), StartsStopped)
    sweep()
    assert (run_now(run_id).status, live()) == ("CANCELLED", [])


def test_asking_again_gives_the_stop_that_stands(engine: Engine) -> None:
    first = stop(engine)
    again = [outcome.control_id for outcome in together(*[partial(stop, engine)] * 4)]
    assert set(again) == {first.control_id} and ScopeControl.objects.count() == 1


def test_a_child_that_is_asked_for_in_a_stopped_scope_sends_nothing(engine: Engine) -> None:
    """Its parent is outside of the scope, and its call can't be refused any more: the child is stopped as it is admitted."""
    tell([spawn("c"), awaits], [calls(("look", "n"))])
    parent = engine.start("parent")
    child_agent = "told"
    stop(engine, ScopeKind.AGENT, child_agent)
    drive(parent)
    child = Run.objects.filter(parent_run_id=parent).first()
    assert child is not None and child.agent_version.agent.key == child_agent
    assert lease_of(child.id).stop_requested
    drive(child.id)
    assert run_now(child.id).status == "CANCELLED" and SCRIPT.labels("look") == []


def test_the_subtree_of_a_stopped_agent_is_stopped_whatever_its_agents(engine: Engine) -> None:
    tell([spawn("c"), awaits], [calls(("look", "n"))])
    parent = engine.start("parent")
    drive(parent)
    child = child_of(parent)
    control = stop(engine, ScopeKind.AGENT, "parent")
    assert [run_now(run_id).status for run_id in (parent, child.id)] == ["CANCELLED", "CANCELLED"]
    assert the_stop(child.id).scope_control_id == control.control_id


# ── abort ────────────────────────────────────────────────────────────────────


def on_the_wire(engine: Engine) -> tuple[UUID, Gate, Aside]:
    gate = Gate()
    SCRIPT.do("a", gate.before(lambda _: went_well("a")))
    SCRIPT.tell(calls(("look", "a")))
    run_id = engine.start()
    worker = Aside(lambda: drive(run_id))
    gate.wait_reached()
    return run_id, gate, worker


def test_a_stop_waits_for_what_is_on_the_wire_and_an_abort_does_not(engine: Engine) -> None:
    run_id, gate, worker = on_the_wire(engine)
    control = stop(engine)
    assert (run_now(run_id).status, the_stop(run_id).status) == ("RUNNING", "ACCEPTED")
    outcome = scope_abort_on(actor=engine.person("olga"), control_id=control.control_id, reason="now")
    assert isinstance(outcome, ScopeState) and outcome.new
    request, row = the_stop(run_id), ScopeControl.objects.get()
    assert (run_now(run_id).status, request.aborted_by, request.abort_reason) == (
        "CANCELLED",
        "person:olga-north",
        "now",
    )
    assert (row.reason, row.abort_reason, row.aborted_by) == ("an incident", "now", "person:olga-north")
    gate.open()
    worker.result()


def test_a_scope_can_be_aborted_at_once(engine: Engine) -> None:
    run_id, gate, worker = on_the_wire(engine)
    stop(engine, aborts=True)
    assert (run_now(run_id).status, run_now(run_id).end_reason) == ("CANCELLED", "aborted")
    gate.open()
    worker.result()


def test_a_stop_with_nothing_left_is_not_marked_as_aborted(engine: Engine) -> None:
    started(start(engine))
    control = stop(engine)
    refused = scope_abort_on(actor=engine.person("otto"), control_id=control.control_id, reason="now")
    assert isinstance(refused, NothingToAbort)
    row = ScopeControl.objects.get(id=control.control_id)
    assert (row.aborted_at, row.aborted_by, row.abort_reason) == (None, "", "")


def test_only_a_stop_that_stands_is_turned_into_an_abort(engine: Engine) -> None:
    act = partial(scope_abort_on, actor=engine.person("otto"), reason="now")
    paused = pause(engine)
    assert isinstance(act(control_id=paused.control_id), NotAStop)
    stopped = stop(engine)
    lift(engine, stopped)
    assert isinstance(act(control_id=stopped.control_id), AlreadyLifted)


# ── a stop and an approval at one instant (X12) ──────────────────────────────


def test_a_stop_of_the_tenant_and_an_approval_at_one_instant_send_nothing_and_say_which_won(engine: Engine) -> None:
    SCRIPT.tell(calls(("once", "a")))
    for _ in range(6):
        run_id = engine.start()
        drive(run_id)
        wait = Wait.objects.get(run_id=run_id)
        control, decided = together(partial(stop, engine), partial(engine.decide, wait))
        drive(run_id)
        sweep()
        wait.refresh_from_db()
        call = call_named(run_id, "a")
        assert (run_now(run_id).status, wait.status, call.status, call.attempts) == (
            "CANCELLED",
            "CANCELLED",
            "CANCELLED",
            0,
        )
        assert isinstance(control, ScopeState)
        won = Decision.objects.filter(wait=wait).exists()
        assert isinstance(decided, Decided) == won
        assert won or isinstance(decided, RunStopped)
        lift(engine, control)
