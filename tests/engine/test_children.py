"""Children: a lease, a thread and a head of their own, caps carved out of the parent's, an end that wakes, and a stop that
goes down (A-074, A-161, A-163, X08).
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any
from uuid import UUID

import pytest
from django.db import transaction

from receipts.models import ToolCall
from runs.leases import lease_acquire
from runs.models import Budget, BudgetEntry, ControlRequest, Run, Wakeup
from runtime.contracts import ModelRefused, ModelRequest, ModelTurn, ToolUnknown
from runtime.loop import drive
from runtime.services import PauseState, Settled, Started, StartRequest, Terms, run_pause, run_start
from runtime.tasks import sweep
from tests.agents import SCRIPT, calls, done, went_well
from tests.engine.engine import (
    At,
    Engine,
    Killed,
    attempts_of,
    call_named,
    expire_lease,
    head_of,
    kill,
    lease_of,
    open_wait,
    run_now,
    sql,
    sql_past_triggers,
)
from tests.engine.races import Aside, gate_at
from tests.engine.stops import assert_stopped, causes
from tests.scenarios.invariants import broken_invariants

CARVED = {"model_calls": 20, "tool_calls": 20, "tokens": 200_000}
Turn = ModelTurn | Callable[[ModelRequest], ModelTurn]


def spawn(*labels: str, agent: str = "told") -> ModelTurn:
    return calls(*[("spawn_child", {"agent": agent, "label": label, "goal": f"Do {label}."}) for label in labels])


def told_child(request: ModelRequest, label: int = 0) -> str:
    """The id of the child that the parent's model was told of."""
    told = [m["value"] for m in request.history if m["role"] == "tool" and "child" in m["value"]]
    return str(told[label]["child"])


def awaits(request: ModelRequest) -> ModelTurn:
    return calls(("await_child", {"child": told_child(request)}))


def tell(parent: list[Turn], child: list[Turn]) -> None:
    """The turns of parent and child; a turn that is not told ends the work."""

    def answer(request: ModelRequest) -> ModelTurn:
        turns = parent if request.agent == "parent" else child
        turn = turns[request.turn_no - 1] if request.turn_no <= len(turns) else done()
        return turn(request) if callable(turn) else turn

    for turn_no in range(1, 8):
        SCRIPT.turns[turn_no] = [answer]


def child_of(run_id: UUID) -> Run:
    return Run.objects.get(parent_run_id=run_id)


def entries(run_id: UUID, receipt_id: UUID) -> list[tuple[str, str, int]]:
    rows = BudgetEntry.objects.filter(run_id=run_id, receipt_id=receipt_id).order_by("kind")
    return [(row.kind, unit, amount) for row in rows for unit, amount in sorted(row.amounts.items())]


def reserved(run_id: UUID) -> dict[str, int]:
    rows = Budget.objects.filter(run_id=run_id, unit__in=CARVED).order_by("unit")
    return {row.unit: row.reserved for row in rows}


@pytest.fixture
def parent(engine: Engine) -> UUID:
    """A parent that waits for its child, which is queued."""
    tell([spawn("c"), awaits], [calls(("look", "a")), done()])
    run_id = engine.start("parent")
    drive(run_id)
    return run_id


# ── spawn ────────────────────────────────────────────────────────────────────


def test_a_child_is_admitted_with_the_result_that_names_it(engine: Engine, parent: UUID) -> None:
    """D-075: a thread, a head and a lease of its own; one root, one lineage."""
    run, child = run_now(parent), child_of(parent)
    assert (child.status, child.origin, child.root_run_id, child.lineage_id) == ("QUEUED", "CHILD", parent, parent)
    assert child.thread_id != run.thread_id and child.created_by == run.created_by
    assert (head_of(child.id).revision, lease_of(child.id).fence) == (1, 0)
    call = ToolCall.objects.get(run_id=parent, tool="spawn_child")
    assert (call.status, call.external_ref, call.attempts) == ("SUCCEEDED", str(child.id), 1)
    assert child.id in engine.hints
    assert SCRIPT.requests[-1].agent == "parent"


def test_its_caps_are_carved_out_of_the_parents_budget(engine: Engine, parent: UUID) -> None:
    child = child_of(parent)
    caps = {row.unit: row.cap for row in Budget.objects.filter(run=child, cap__isnull=False)}
    assert caps == CARVED
    assert entries(parent, child.id) == [("RESERVE", unit, amount) for unit, amount in sorted(CARVED.items())]
    assert reserved(parent) == CARVED


def test_children_cannot_jointly_exceed_the_parents_remainder(engine: Engine) -> None:
    """X08: two of three fit; the third is refused to the model, and nothing is reserved for it."""
    tell([spawn("a", "b", "c")], [done()])
    run_id = engine.start("parent")
    drive(run_id)
    assert Run.objects.filter(parent_run_id=run_id).count() == 2
    refused = ToolCall.objects.get(run_id=run_id, tool="spawn_child", status="FAILED")
    assert "no room for this child: 20 model_calls wanted" in refused.error
    for budget in Budget.objects.filter(run_id=run_id, cap__isnull=False):
        assert budget.cap is not None and budget.reserved + budget.held_unknown + budget.spent <= budget.cap
    assert reserved(run_id)["tokens"] == 400_000


def test_an_agent_has_only_the_children_that_it_declares(engine: Engine) -> None:
    tell([spawn("a", agent="promising")], [])
    run_id = engine.start("parent")
    drive(run_id)
    assert not Run.objects.filter(parent_run_id=run_id).exists()
    assert "no child agent promising" in ToolCall.objects.get(run_id=run_id).error
    assert run_now(run_id).status == "COMPLETED"


def test_a_worker_that_dies_before_the_commit_leaves_no_child_and_the_next_one_makes_one(
    engine: Engine, at_point: At
) -> None:
    tell([spawn("c")], [done()])
    run_id = engine.start("parent")
    at_point("inside_result_tx", kill)
    with pytest.raises(Killed):
        drive(run_id)
    assert not Run.objects.filter(parent_run_id=run_id).exists() and reserved(run_id)["tokens"] == 0
    expire_lease(run_id)
    drive(run_id)
    assert child_of(run_id).status == "QUEUED"
    assert reserved(run_id) == CARVED


def test_a_child_is_bound_by_what_its_parent_has_committed_to(engine: Engine) -> None:
    tell([spawn("c"), awaits], [calls(("note", "n"))])
    wanted = StartRequest("parent", {}, terms=Terms(denied=("note",)))
    outcome = run_start(actor=engine.person("olga"), wanted=wanted)
    assert isinstance(outcome, Started)
    drive(outcome.run_id)
    child = child_of(outcome.run_id)
    drive(child.id)
    assert ToolCall.objects.get(run=child).status == "DENIED"
    assert SCRIPT.labels("note") == []


# ── the end of a child ───────────────────────────────────────────────────────


def test_the_parent_waits_without_a_worker_and_goes_on_once_the_child_has_ended(engine: Engine, parent: UUID) -> None:
    assert (run_now(parent).status, causes(parent)[-1], lease_of(parent).owner) == ("WAITING", "CHILD_LIVES", None)
    sweep()
    assert run_now(parent).status == "WAITING"
    child = child_of(parent)
    drive(child.id)
    assert run_now(child.id).status == "COMPLETED"
    wakeup = Wakeup.objects.get(run_id=parent)
    assert (wakeup.cause, wakeup.dedupe_key, wakeup.status) == ("CHILD", f"child:{child.id}", "PENDING")
    sweep()
    drive(parent)
    assert run_now(parent).status == "COMPLETED"
    told = SCRIPT.requests[-1].history[-1]["value"]
    assert told == {"child": str(child.id), "status": "COMPLETED", "said": "All done."}
    call = ToolCall.objects.get(run_id=parent, tool="await_child")
    assert attempts_of(call) == [(1, "ERROR_RETRYABLE", "policy:builtin-1"), (2, "OK", "policy:retry")]
    assert Wakeup.objects.get(run_id=parent).status == "CONSUMED"
    drive(parent)
    assert [request.agent for request in SCRIPT.requests].count("parent") == 3


def test_what_the_child_used_is_settled_in_the_parents_budget(engine: Engine, parent: UUID) -> None:
    child = child_of(parent)
    drive(child.id)
    sweep()
    drive(parent)
    used = {row.unit: row.spent for row in Budget.objects.filter(run=child, unit__in=CARVED)}
    assert used["model_calls"] == 2
    settled = [(unit, amount) for kind, unit, amount in entries(parent, child.id) if kind == "SETTLE"]
    assert dict(settled) == used
    assert reserved(parent) == dict.fromkeys(CARVED, 0)
    spent = Budget.objects.get(run_id=parent, unit="model_calls").spent
    assert spent == 3 + used["model_calls"]


def test_a_child_that_ended_first_is_not_waited_for(engine: Engine) -> None:
    tell([spawn("c"), calls(("look", "meanwhile")), awaits], [done()])
    run_id = engine.start("parent")
    SCRIPT.do("meanwhile", lambda _: _ended(run_id))
    drive(run_id)
    assert run_now(run_id).status == "COMPLETED"
    assert "CHILD_LIVES" not in causes(run_id)
    assert SCRIPT.requests[-1].history[-1]["value"]["status"] == "COMPLETED"
    sweep()
    assert reserved(run_id) == dict.fromkeys(CARVED, 0)


def _ended(run_id: UUID) -> Any:
    drive(child_of(run_id).id)
    return went_well("meanwhile")


def test_a_child_that_ends_while_the_parent_is_being_parked_is_not_missed(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever comes first: the end is looked at again under the lock, and its wakeup is a row."""
    tell([spawn("c"), awaits], [done()])
    run_id = engine.start("parent")
    gate = gate_at(monkeypatch, import_module("runtime.loop.unknown"), "park")
    worker = Aside(lambda: drive(run_id))
    gate.wait_reached()
    drive(child_of(run_id).id)
    gate.open()
    worker.result()
    assert run_now(run_id).status == "QUEUED"
    drive(run_id)
    assert run_now(run_id).status == "COMPLETED"


def test_a_parent_that_has_nothing_left_to_do_waits_for_its_children(engine: Engine) -> None:
    tell([spawn("c"), done()], [done()])
    run_id = engine.start("parent")
    drive(run_id)
    assert (run_now(run_id).status, causes(run_id)[-1]) == ("WAITING", "CHILD_LIVES")
    drive(child_of(run_id).id)
    sweep()
    drive(run_id)
    assert run_now(run_id).status == "COMPLETED"
    assert reserved(run_id) == dict.fromkeys(CARVED, 0)


def test_a_child_of_somebody_else_is_not_awaited(engine: Engine, parent: UUID) -> None:
    child = child_of(parent)
    tell([calls(("await_child", {"child": str(child.id)}))], [done()])
    other = engine.start("parent")
    drive(other)
    assert "there is no child" in ToolCall.objects.get(run_id=other).error


def test_a_fork_of_the_parent_makes_no_second_child(engine: Engine, parent: UUID) -> None:
    """T07: the child is an effect of the lineage."""
    child = child_of(parent)
    drive(child.id)
    fork = engine.fork(parent, 1).run_id
    drive(fork)
    assert run_now(fork).status == "COMPLETED"
    assert Run.objects.filter(origin="CHILD").count() == 1
    assert SCRIPT.requests[-1].history[-1]["value"]["child"] == str(child.id)


# ── stop ─────────────────────────────────────────────────────────────────────


def test_a_stop_of_the_parent_stops_its_children_as_rows(engine: Engine, parent: UUID) -> None:
    child = child_of(parent)
    engine.stop(parent, reason="enough")
    assert run_now(child.id).status == "CANCELLED"
    sweep()
    for run_id in (parent, child.id):
        assert_stopped(run_id)
    stop, cascaded = ControlRequest.objects.get(run_id=parent), ControlRequest.objects.get(run=child)
    assert (cascaded.cascade_of_id, cascaded.reason, cascaded.requested_by) == (stop.id, "enough", stop.requested_by)
    assert reserved(parent) == dict.fromkeys(CARVED, 0)


def test_a_child_in_the_hands_of_a_worker_is_asked_to_stop(engine: Engine, parent: UUID) -> None:
    child = child_of(parent)
    assert lease_acquire(run_id=child.id, owner="somebody") is not None
    engine.stop(parent)
    assert (run_now(parent).status, run_now(child.id).status) == ("CANCELLED", "RUNNING")
    assert ControlRequest.objects.get(run=child).status == "ACCEPTED"
    assert lease_of(child.id).stop_requested


def test_a_cascade_that_was_lost_is_done_by_the_sweep(
    engine: Engine, parent: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = child_of(parent)
    with monkeypatch.context() as patch:
        patch.setattr(import_module("runtime.cascade"), "live_children", lambda _: [])
        engine.stop(parent)
    assert run_now(child.id).status == "QUEUED"
    sweep()
    assert_stopped(child.id)


def test_a_stopped_child_wakes_its_parent_which_hears_of_it(engine: Engine, parent: UUID) -> None:
    child = child_of(parent)
    engine.stop(child.id)
    sweep()
    drive(parent)
    assert SCRIPT.requests[-1].history[-1]["value"] == {"child": str(child.id), "status": "CANCELLED", "said": ""}
    assert run_now(parent).status == "COMPLETED"


def test_a_child_that_waits_for_a_person_keeps_its_parent_waiting(engine: Engine) -> None:
    tell([spawn("c"), awaits], [calls(("once", "x")), done()])
    run_id = engine.start("parent")
    drive(run_id)
    child = child_of(run_id)
    drive(child.id)
    assert open_wait(child.id).required_role == "approver"
    sweep()
    assert run_now(run_id).status == "WAITING"
    engine.approve(child.id)
    drive(child.id)
    sweep()
    drive(run_id)
    assert run_now(run_id).status == "COMPLETED"
    assert SCRIPT.labels("once") == ["x"]


def test_two_runs_are_never_locked_in_one_transaction(engine: Engine, parent: UUID) -> None:
    """Ruling 13: a child ends while its parent's row is locked by somebody."""
    child = child_of(parent)
    with transaction.atomic():
        sql("SELECT 1 FROM runs_run WHERE id = %s FOR NO KEY UPDATE", parent)
        Aside(lambda: drive(child.id)).result()
    assert run_now(child.id).status == "COMPLETED"


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
