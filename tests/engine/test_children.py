"""Children: spawned with a part of the budget, awaited, stopped with their parent (A-074, A-161, A-163, X08)."""

from importlib import import_module
from typing import Any
from uuid import UUID

import pytest
from django.db import transaction

from receipts.models import ToolCall
from runs.leases import lease_acquire
from runs.models import Budget, ControlRequest, Run, Wakeup
from runtime.loop import drive
from runtime.services import Started, StartRequest, Terms, run_start
from runtime.tasks import sweep
from tests.engine.engine import (
    At,
    Engine,
    Killed,
    attempts_of,
    expire_lease,
    head_of,
    kill,
    lease_of,
    open_wait,
    run_now,
    sql,
)
from tests.engine.family import CARVED, awaits, child_of, entries, reserved, spawn, tell
from tests.engine.races import Aside, gate_at
from tests.engine.stops import assert_stopped, causes
from tests.scripted import SCRIPT, calls, done, went_well

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
