"""What the end of a parent means for its children, and what is held for what nobody knows of them."""

from importlib import import_module
from typing import Any
from uuid import UUID

import pytest

from receipts.models import ToolCall
from runs.leases import lease_acquire
from runs.models import Budget, ControlRequest, Run, Wakeup
from runtime.contracts import ModelRefused, ModelRequest, ModelTurn, ToolUnknown
from runtime.loop import drive
from runtime.services import PauseState, Settled, run_pause
from runtime.tasks import sweep
from tests.engine.engine import (
    Engine,
    call_named,
    run_now,
    sql_past_triggers,
)
from tests.engine.family import CARVED, awaits, child_of, entries, reserved, spawn, tell, told_child
from tests.engine.stops import assert_stopped
from tests.scenarios.invariants import broken_invariants
from tests.scripted import SCRIPT, calls, went_well

# ── the end of the parent ──


def fails(_: ModelRequest) -> ModelTurn:
    raise ModelRefused("not for you")


def test_the_children_of_a_parent_that_failed_are_stopped(engine: Engine) -> None:
    tell([spawn("c"), fails], [calls(("once", "x"))])
    run_id = engine.start("parent")
    drive(run_id)
    child = child_of(run_id)
    assert (run_now(run_id).status, run_now(child.id).status) == ("FAILED", "CANCELLED")
    stop = ControlRequest.objects.get(run=child)
    assert (stop.requested_by, stop.cascade_of_id) == ("system:cascade", None)
    assert stop.reason == f"its parent, run {run_id}, ended as FAILED"
    assert ("run.stop", "system:cascade", None) in engine.audited()
    sweep()
    assert_stopped(child.id)
    assert reserved(run_id) == dict.fromkeys(CARVED, 0)


def test_the_children_of_a_parent_that_is_settled_are_stopped(engine: Engine, parent: UUID) -> None:
    child = child_of(parent)
    drive(child.id)  # it has ended, and is left alone
    tell([spawn("d"), awaits], [calls(("once", "x"))])
    other = engine.start("parent")
    drive(other)
    drive(child_of(other).id)
    for run_id in (parent, other):
        assert isinstance(engine.settle(run_id), Settled)
    assert (run_now(child.id).status, run_now(child_of(other).id).status) == ("COMPLETED", "CANCELLED")
    assert not ControlRequest.objects.filter(run=child).exists()
    assert_stopped(child_of(other).id)


@pytest.mark.parametrize("held", [False, True])
def test_children_of_a_parent_that_ended_in_a_process_that_was_lost_are_stopped_by_the_sweep(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, held: bool
) -> None:
    tell([spawn("c"), fails], [calls(("look", "a"))])
    run_id = engine.start("parent")
    with monkeypatch.context() as patch:
        patch.setattr(import_module("runtime.cascade"), "live_children", lambda _: [])
        drive(run_id)
    child = child_of(run_id)
    assert (run_now(run_id).status, run_now(child.id).status) == ("FAILED", "QUEUED")
    if held:
        assert lease_acquire(run_id=child.id, owner="somebody") is not None
    for _ in range(2):
        sweep()
    assert run_now(child.id).status == ("RUNNING" if held else "CANCELLED")
    assert ControlRequest.objects.get(run=child).status == ("ACCEPTED" if held else "SETTLED")


def test_a_grandchild_is_stopped_with_its_line(engine: Engine, parent: UUID) -> None:
    child = child_of(parent)
    below = "UPDATE runs_run SET parent_run_id = %s, root_run_id = %s WHERE id = %s"
    sql_past_triggers(below, child.id, parent, grandchild(engine))
    assert isinstance(engine.settle(parent), Settled)
    stops = {row.run_id: row.cascade_of_id for row in ControlRequest.objects.all()}
    assert len(stops) == 2 and list(stops.values()).count(None) == 1
    assert {run_now(id).status for id in stops} == {"CANCELLED"}


def grandchild(engine: Engine) -> UUID:
    """A child of another run, to be put under a child."""
    other = engine.start("parent")
    drive(other)
    return child_of(other).id


# ── what is held for an unknown outcome of a child ──


def columns(run_id: UUID, unit: str = "tool_calls") -> tuple[int, int, int]:
    """(reserved, held for unknown outcomes, spent) of a run's budget."""
    row = Budget.objects.get(run_id=run_id, unit=unit)
    return row.reserved, row.held_unknown, row.spent


def with_an_unknown_call(engine: Engine, *, settled: bool) -> tuple[UUID, ToolCall]:
    """A parent, waiting or settled, whose child was stopped with a call of unknown outcome."""
    tell(
        [spawn("c"), spawn("d"), lambda r: calls(("await_child", {"child": told_child(r, 1)}))], [calls(("once", "x"))]
    )
    SCRIPT.do("x", ToolUnknown("no answer"))
    run_id = engine.start("parent")
    drive(run_id)
    child = Run.objects.filter(parent_run_id=run_id).earliest("created_at").id
    drive(child)
    engine.approve(child)
    drive(child)
    engine.stop(child)
    assert columns(child) == (0, 1, 0)
    sweep()
    drive(run_id)
    if settled:
        engine.settle(run_id)
        sweep()
    assert run_now(run_id).status == ("SETTLED" if settled else "WAITING")
    return run_id, ToolCall.objects.get(run_id=child)


@pytest.mark.parametrize("settled", [False, True])
@pytest.mark.parametrize(("verdict", "then", "spent"), [("EXECUTED", "NONE", 1), ("NOT_EXECUTED", "FAIL", 0)])
def test_what_is_unknown_of_a_child_is_held_in_its_parents_budget_until_a_verdict_says_what_became_of_it(
    engine: Engine, settled: bool, verdict: str, then: str, spent: int
) -> None:
    run_id, call = with_an_unknown_call(engine, settled=settled)
    reserved, held, used = columns(run_id)
    assert (reserved, held) == (0 if settled else 20, 1)
    engine.reconcile(call, verdict, then)
    for _ in range(2):
        sweep()
        drive(run_id)
    assert columns(run_id)[1:] == (0, used + spent)
    assert broken_invariants() == {}
    kinds = [(kind, amount) for kind, unit, amount in entries(run_id, call.run_id) if unit == "tool_calls"]
    assert kinds == [("HOLD_UNKNOWN", 1), *([] if spent else [("RELEASE", 1)]), ("RESERVE", 20), ("SETTLE", 0),
                     *([("SETTLE", 1)] if spent else [])]  # fmt: skip


def test_it_is_given_back_up_the_whole_line(engine: Engine) -> None:
    run_id, call = with_an_unknown_call(engine, settled=True)
    above = engine.start("parent")
    drive(above)
    below = "UPDATE runs_run SET parent_run_id = %s, root_run_id = %s, origin = 'CHILD' WHERE id = %s"
    sql_past_triggers(below, above, above, run_id)
    engine.reconcile(call, "NOT_EXECUTED", "FAIL")
    sweep()
    woken = Wakeup.objects.filter(run_id=above, cause="CHILD", dedupe_key__startswith=f"child:{run_id}:")
    assert woken.count() == 1


def test_a_verdict_that_leaves_something_unknown_moves_only_what_it_speaks_of(engine: Engine) -> None:
    tell([spawn("c")], [calls(("once", "x"), ("once", "y"))])
    for label in "xy":
        SCRIPT.do(label, ToolUnknown("no answer"))
    run_id = engine.start("parent")
    drive(run_id)
    child = child_of(run_id).id
    drive(child)
    for wait in run_now(child).waits.all():
        engine.decide(wait)
    drive(child)
    engine.stop(child)
    sweep()
    drive(run_id)
    assert columns(run_id)[:2] == (0, 2)
    for label, held in (("x", 1), ("y", 0)):
        engine.reconcile(call_named(child, label), "NOT_EXECUTED", "FAIL")
        sweep()
        assert columns(run_id)[:2] == (0, held)
    assert broken_invariants() == {}


# ── pause ──


def pauses(run_id: UUID) -> list[tuple[str, bool]]:
    """(status, whether it followed from another) of the pauses of a run."""
    rows = ControlRequest.objects.filter(run_id=run_id, kind="PAUSE").order_by("accepted_at")
    return [(row.status, row.cascade_of_id is not None) for row in rows]


def pause(engine: Engine, run_id: UUID) -> None:
    outcome = run_pause(actor=engine.person("otto"), run_id=run_id, reason="not now")
    assert isinstance(outcome, PauseState)


def test_a_pause_goes_down_to_the_children_and_so_does_the_resume(engine: Engine, parent: UUID) -> None:
    child = child_of(parent)
    pause(engine, parent)
    for run_id in (parent, child.id):
        assert (run_now(run_id).status, run_now(run_id).hold_reason) == ("HELD", "PAUSED")
    assert (pauses(parent), pauses(child.id)) == ([("ADOPTED", False)], [("ADOPTED", True)])
    sweep()
    drive(child.id)
    assert [request.agent for request in SCRIPT.requests] == ["parent", "parent"]
    engine.resume(parent)
    assert (pauses(parent), pauses(child.id)) == ([("SETTLED", False)], [("SETTLED", True)])
    assert run_now(child.id).status == "QUEUED"
    drive(child.id)
    sweep()
    drive(parent)
    assert run_now(parent).status == "COMPLETED"
    assert [act for act, _, _ in engine.audited()].count("run.pause") == 2


def test_a_child_that_a_person_has_paused_stays_so(engine: Engine, parent: UUID) -> None:
    child = child_of(parent)
    pause(engine, child.id)
    pause(engine, parent)
    sweep()
    engine.resume(parent)
    sweep()
    assert pauses(child.id) == [("ADOPTED", False)]
    assert run_now(child.id).hold_reason == "PAUSED"


def test_a_child_that_a_person_resumes_goes_on_under_its_paused_parent(engine: Engine, parent: UUID) -> None:
    child = child_of(parent)
    pause(engine, parent)
    engine.resume(child.id)
    sweep()
    assert pauses(child.id) == [("SETTLED", True)]
    drive(child.id)
    assert (run_now(child.id).status, run_now(parent).hold_reason) == ("COMPLETED", "PAUSED")


def test_a_pause_and_a_resume_that_did_not_come_down_are_brought_down_by_the_sweep(
    engine: Engine, parent: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = child_of(parent)
    with monkeypatch.context() as patch:
        patch.setattr(import_module("runtime.cascade"), "live_children", lambda _: [])
        pause(engine, parent)
    assert run_now(child.id).status == "QUEUED"
    for _ in range(2):
        sweep()
    assert pauses(child.id) == [("ADOPTED", True)]
    with monkeypatch.context() as patch:
        patch.setattr(import_module("runtime.cascade"), "pauses_under", lambda _: [])
        engine.resume(parent)
    assert pauses(child.id) == [("ADOPTED", True)]
    sweep()
    assert pauses(child.id) == [("SETTLED", True)]
    assert run_now(child.id).status == "QUEUED"


def test_a_child_in_the_hands_of_a_worker_adopts_the_pause_at_its_next_seam(engine: Engine, parent: UUID) -> None:
    child = child_of(parent)
    SCRIPT.do("a", lambda _: _paused_meanwhile(engine, parent))
    drive(child.id)
    assert (run_now(child.id).status, run_now(child.id).hold_reason) == ("HELD", "PAUSED")
    assert pauses(child.id) == [("ADOPTED", True)]
    engine.resume(parent)
    drive(child.id)
    assert run_now(child.id).status == "COMPLETED"


def _paused_meanwhile(engine: Engine, run_id: UUID) -> Any:
    pause(engine, run_id)
    return went_well("a")


def test_a_stop_of_a_paused_parent_stops_its_paused_children(engine: Engine, parent: UUID) -> None:
    child = child_of(parent)
    pause(engine, parent)
    engine.stop(parent)
    sweep()
    for run_id in (parent, child.id):
        assert run_now(run_id).status == "CANCELLED"
        assert ControlRequest.objects.filter(run_id=run_id, status__in=["ACCEPTED", "ADOPTED"]).count() == 0
