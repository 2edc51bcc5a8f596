"""Stops and pauses of a tenant, an agent or a thread: one act, carried to each run; nothing slips past it; it stands until lifted."""

from functools import partial
from importlib import import_module
from typing import Any
from uuid import UUID

import pytest
from django.db import IntegrityError, transaction
from django.db.utils import Error as DatabaseError

from accounts.errors import Invalid, NotAllowed, NotFound, Refused
from accounts.models import AuditEvent
from approvals.errors import RunStopped
from approvals.models import Decision, Wait
from approvals.services import Decided
from runs.errors import AlreadyLifted, NotAStop, ScopePaused, StartsStopped
from runs.models import ControlRequest, Run, ScopeControl, Thread
from runs.states import LIVE_RUN, ScopeKind
from runtime import scopes
from runtime.loop import drive
from runtime.services import (
    ScopeState,
    Started,
    StartRequest,
    SuccessorRequest,
    named_scope,
    run_continue,
    run_pause,
    run_resume,
    run_start,
    scope_abort_on,
    scope_end,
    scope_pause,
    scope_stop,
)
from runtime.tasks import sweep
from tests.agents import SCRIPT, calls, went_well
from tests.engine.engine import At, Engine, Killed, call_named, kill, lease_of, people, run_now, sql
from tests.engine.family import awaits, child_of, spawn, tell
from tests.engine.races import Aside, Gate, gate_at, together, uncommitted
from tests.engine.stops import the_stop

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


def test_only_a_stop_that_stands_is_turned_into_an_abort(engine: Engine) -> None:
    act = partial(scope_abort_on, actor=engine.person("otto"), reason="now")
    paused = pause(engine)
    assert isinstance(act(control_id=paused.control_id), NotAStop)
    stopped = stop(engine)
    lift(engine, stopped)
    assert isinstance(act(control_id=stopped.control_id), AlreadyLifted)


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
