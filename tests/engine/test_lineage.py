"""Once per lineage (T07, rulings 25 and 34): what happened in one run is reused in another, what may still happen holds it."""

from functools import partial
from importlib import import_module
from uuid import UUID

import pytest

from accounts.errors import Invalid, NotAllowed
from receipts.errors import NothingToRepeat, RepeatGranted
from receipts.models import Claim, Effect, Proposal, Result, ToolCall
from runs.models import Refusal, Wakeup
from runtime.contracts import ToolUnknown
from runtime.loop import drive
from runtime.services import Repeatable, Started
from runtime.tasks import sweep
from tests.engine.engine import Engine, attempts_of, call_named, head_of, open_wait, phases, run_now, sql
from tests.engine.races import Aside, gate_at, together
from tests.engine.stops import causes
from tests.scripted import SCRIPT, calls, done, went_well


def fork(engine: Engine, source: UUID, revision: int = 1) -> UUID:
    outcome = engine.fork(source, revision)
    assert isinstance(outcome, Started), outcome
    return outcome.run_id


def continued(engine: Engine, source: UUID) -> UUID:
    outcome = engine.carry_on(source)
    assert isinstance(outcome, Started), outcome
    return outcome.run_id


def result_of(call: ToolCall) -> Result:
    return Result.objects.get(tool_call=call)


def dispositions(run_id: UUID) -> list[tuple[str, str]]:
    rows = Proposal.objects.filter(model_call__run_id=run_id).order_by("model_call__turn_no", "ordinal")
    return [(row.tool, row.disposition) for row in rows]


def unknown_source(engine: Engine) -> ToolCall:
    """A promised call of a stopped run of which nobody knows whether it happened."""
    SCRIPT.do("promised", ToolUnknown("no answer"), went_well("promised"))
    source = engine.run(calls(("once", "promised")), agent="promising")
    engine.approve(source)
    drive(source)
    engine.stop(source)
    call = call_named(source, "promised")
    assert (run_now(source).status, call.status) == ("CANCELLED", "UNCERTAIN")
    return call


# ── it happened ──────────────────────────────────────────────────────────────


def test_what_an_ancestor_has_done_is_reused_and_never_sent(engine: Engine) -> None:
    """X03: attempts 0, result REUSED, nobody asked; shown as such, and what was published stands."""
    source = engine.run(calls(("post", "a")), done())
    engine.approve(source)
    drive(source)
    done_before = call_named(source, "a")
    run_id = fork(engine, source)
    drive(run_id)
    assert run_now(run_id).status == "COMPLETED"
    call = call_named(run_id, "a")
    result, original = result_of(call), result_of(done_before)
    assert (call.status, call.attempts, call.external_ref) == ("SUCCEEDED", 0, "ref-a")
    assert (result.source, result.ok, result.digest, result.attempt_no) == ("REUSED", True, original.digest, None)
    assert dispositions(run_id) == [("post", "REUSED"), ("finish", "FINISH")]
    assert SCRIPT.requests[-1].history[-1]["value"] == {"label": "a"}
    assert SCRIPT.labels("post") == ["a"]
    assert not run_now(run_id).waits.exists() and not run_now(run_id).report_versions.exists()
    assert Effect.objects.filter(run_id=source).count() == 1 and not Effect.objects.filter(run_id=run_id).exists()
    assert Claim.objects.get(intent_key=call.intent_key).tool_call_id == done_before.id
    assert not run_now(run_id).budgets.get(unit="tool_calls").spent


def test_a_reused_result_fulfils_the_promise_and_is_in_the_head(engine: Engine) -> None:
    source = engine.run(calls(("once", "promised")), done(), agent="promising")
    engine.approve(source)
    drive(source)
    run_id = fork(engine, source)
    drive(run_id)
    run = run_now(run_id)
    assert (run.status, run.obligations.get().status) == ("COMPLETED", "FULFILLED")
    assert run.obligations.get().fulfilled_by == call_named(run_id, "promised").id
    assert phases(run_id)[1:3] == ["DECISION_RECORDED", "DECISION_RECORDED"]


def test_other_arguments_are_another_intent(engine: Engine) -> None:
    source = engine.run(calls(("note", "a")), done())
    run_id = fork(engine, source)
    SCRIPT.turns[1] = [calls(("note", "b"))]
    drive(run_id)
    assert SCRIPT.labels("note") == ["a", "b"]


def test_runs_of_two_lineages_do_not_meet(engine: Engine) -> None:
    for _ in range(2):
        engine.run(calls(("note", "a")), done())
    assert SCRIPT.labels("note") == ["a", "a"]


# ── nobody knows, or it may still happen ─────────────────────────────────────


def held_by(engine: Engine, call: ToolCall) -> UUID:
    """A continued run that is held by the unknown call of its ancestor."""
    run_id = continued(engine, call.run_id)
    drive(run_id)
    run, own = run_now(run_id), call_named(run_id, "promised")
    assert (run.status, run.hold_reason) == ("HELD", "UNCERTAIN_CALL")
    assert str(call.id) in run.hold_detail and "nobody knows" in run.hold_detail
    assert (own.status, own.attempts, head_of(run_id).phase) == ("PROPOSED", 0, "DECISION_RECORDED")
    refusal = Refusal.objects.get(run_id=run_id, kind="ANCESTOR_INTENT")
    assert refusal.subject_id == call.id
    return run_id


def test_an_unknown_call_of_an_ancestor_holds_the_run(engine: Engine) -> None:
    run_id = held_by(engine, unknown_source(engine))
    sweep()
    assert (run_now(run_id).status, causes(run_id)[-1]) == ("HELD", "ANCESTOR_INTENT")
    assert not Wakeup.objects.filter(run_id=run_id).exists()


def test_executed_wakes_the_descendant_which_reuses_it(engine: Engine) -> None:
    ancestor = unknown_source(engine)
    run_id = held_by(engine, ancestor)
    engine.reconcile(ancestor, "EXECUTED", external_ref="seen-1")
    assert run_now(run_id).status == "HELD"
    sweep()
    assert (run_now(run_id).status, causes(run_id)[-1]) == ("QUEUED", "ANCESTOR_SETTLED")
    assert Wakeup.objects.get(run_id=run_id).dedupe_key == f"recon:{ancestor.id}:1:{run_id}"
    drive(run_id)
    call = call_named(run_id, "promised")
    assert (call.attempts, call.external_ref, result_of(call).source) == (0, "seen-1", "REUSED")
    assert run_now(run_id).status == "COMPLETED"
    assert SCRIPT.labels("once") == ["promised"]


def test_not_executed_lets_the_descendant_ask_for_it(engine: Engine) -> None:
    ancestor = unknown_source(engine)
    run_id = held_by(engine, ancestor)
    engine.reconcile(ancestor, "NOT_EXECUTED", "FAIL")
    sweep()
    drive(run_id)
    engine.approve(run_id)
    SCRIPT.outcomes.clear()
    drive(run_id)
    assert attempts_of(call_named(run_id, "promised")) == [(1, "OK", "person:ann-north")]
    assert run_now(run_id).status == "COMPLETED"
    assert Claim.objects.get(released_at=None).tool_call_id == call_named(run_id, "promised").id


def test_proceed_unknown_refuses_it_to_the_descendants_model_too(engine: Engine) -> None:
    ancestor = unknown_source(engine)
    run_id = held_by(engine, ancestor)
    engine.reconcile(ancestor, "PROCEED_UNKNOWN")
    sweep()
    drive(run_id)
    assert (call_named(run_id, "promised").status, call_named(run_id, "promised").attempts) == ("DENIED", 0)
    assert "nobody knows whether it happened" in SCRIPT.requests[-1].history[-1]["value"]["error"]
    assert run_now(run_id).hold_reason == "OBLIGATION_OPEN"
    later = fork(engine, run_id)
    drive(later)
    assert dispositions(later)[0] == ("once", "REFUSED")
    assert not ToolCall.objects.filter(run_id=later).exists()
    assert SCRIPT.labels("once") == ["promised"]


def test_a_call_that_a_sibling_is_asked_about_holds_the_fork_until_it_is_decided(engine: Engine) -> None:
    source = engine.run(calls(("once", "a")))
    run_id = fork(engine, source)
    drive(run_id)
    run = run_now(run_id)
    assert (run.status, run.hold_reason) == ("HELD", "UNCERTAIN_CALL")
    assert "AWAITING_APPROVAL" in run.hold_detail
    engine.approve(source)
    drive(source)
    sweep()
    drive(run_id)
    assert result_of(call_named(run_id, "a")).source == "REUSED"
    assert SCRIPT.labels("once") == ["a"]


def test_a_rejected_call_of_a_sibling_lets_the_fork_ask(engine: Engine) -> None:
    source = engine.run(calls(("once", "a")))
    run_id = fork(engine, source)
    drive(run_id)
    engine.decide(open_wait(source), "REJECT")
    drive(source)
    sweep()
    drive(run_id)
    assert open_wait(run_id).tool_call_id == call_named(run_id, "a").id


def test_a_held_descendant_can_be_stopped(engine: Engine) -> None:
    run_id = held_by(engine, unknown_source(engine))
    engine.stop(run_id)
    assert (run_now(run_id).status, call_named(run_id, "promised").status) == ("CANCELLED", "CANCELLED")
    sweep()


def test_an_ancestor_that_is_settled_while_the_descendant_is_parked_is_not_missed(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ruling 27: the verdict comes between the look at the other call and the commit that parks the run."""
    ancestor = unknown_source(engine)
    run_id = continued(engine, ancestor.run_id)
    gate = gate_at(monkeypatch, import_module("runtime.loop.lineage"), "park")
    worker = Aside(lambda: drive(run_id))
    gate.wait_reached()
    engine.reconcile(ancestor, "EXECUTED")
    gate.open()
    worker.result()
    assert run_now(run_id).status == "QUEUED"
    drive(run_id)
    assert run_now(run_id).status == "COMPLETED"


# ── at the same time ─────────────────────────────────────────────────────────


def two_forks(engine: Engine) -> list[UUID]:
    source = engine.run(done())
    SCRIPT.turns[1] = [calls(("note", "a"))]
    return [fork(engine, source) for _ in range(2)]


def test_two_runs_of_a_lineage_that_dispatch_one_intent_at_once_send_it_once(engine: Engine) -> None:
    """Ruling 25, on two connections."""
    forks = two_forks(engine)
    together(*[partial(drive, run_id) for run_id in forks])
    sweep()
    for run_id in forks:
        drive(run_id)
    assert SCRIPT.labels("note") == ["a"]
    assert sorted(result_of(call_named(run_id, "a")).source for run_id in forks) == ["LIVE", "REUSED"]
    assert [run_now(run_id).status for run_id in forks] == ["COMPLETED"] * 2


def test_the_second_one_waits_for_the_first_ones_commit(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    forks = two_forks(engine)
    gate = gate_at(monkeypatch, import_module("runtime.loop.dispatch"), "write")
    first = Aside(lambda: drive(forks[0]))
    gate.wait_reached()
    second = Aside(lambda: drive(forks[1]))
    second.wait_blocked()
    gate.open()
    first.result(), second.result()
    sweep()
    drive(forks[1])
    assert result_of(call_named(forks[1], "a")).source == "REUSED"
    assert SCRIPT.labels("note") == ["a"]


def test_without_the_unique_claim_both_would_send_it(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    ((definition,),) = sql("SELECT indexdef FROM pg_indexes WHERE indexname = 'one_live_claim_per_intent'")
    forks = two_forks(engine)
    sql("DROP INDEX one_live_claim_per_intent")
    try:
        gate = gate_at(monkeypatch, import_module("runtime.loop.dispatch"), "write", parties=2)
        workers = [Aside(partial(drive, run_id)) for run_id in forks]
        gate.wait_reached()
        gate.open()
        for worker in workers:
            worker.result()
        assert SCRIPT.labels("note") == ["a", "a"]
    finally:
        sql("SET session_replication_role = replica")
        sql("DELETE FROM receipts_claim")
        sql("SET session_replication_role = origin")
        sql(definition)


# ── a second effect ──────────────────────────────────────────────────────────


def test_a_person_may_ask_for_a_second_effect_once(engine: Engine) -> None:
    """T07: an epoch on the step, so keys and claim of its own; policy asks about it like about any other call."""
    source = engine.run(calls(("once", "a")), done())
    engine.approve(source)
    drive(source)
    first = call_named(source, "a")
    assert engine.repeat(first) == Repeatable(first.id, source)
    again = engine.repeat(first)
    assert isinstance(again, RepeatGranted) and "otto" in again.sentence
    run_id = fork(engine, source)
    drive(run_id)
    wait = open_wait(run_id)
    assert wait.tool_call.step_name == "once/a#2"
    engine.approve(run_id)
    drive(run_id)
    assert run_now(run_id).status == "COMPLETED"
    assert SCRIPT.labels("once") == ["a", "a"]
    keys = [sent.key for sent in SCRIPT.sent]
    assert len(set(keys)) == 2
    third = fork(engine, source)
    drive(third)
    assert run_now(third).status == "COMPLETED"
    assert result_of(ToolCall.objects.get(run_id=third)).source == "REUSED"
    assert SCRIPT.labels("once") == ["a", "a"]


def test_a_live_run_is_told_of_the_second_effect_that_is_wanted(engine: Engine) -> None:
    run_id = engine.run(calls(("note", "a")), calls(("once", "b")), calls(("note", "a")), done())
    assert isinstance(engine.repeat(call_named(run_id, "a")), Repeatable)
    engine.approve(run_id)
    drive(run_id)
    assert any("A person wants note/a once more" in m.get("text", "") for m in SCRIPT.requests[2].history)
    assert SCRIPT.labels("note") == ["a", "a"]
    assert run_now(run_id).status == "COMPLETED"


def test_only_an_effect_that_has_happened_can_be_had_a_second_time(engine: Engine) -> None:
    run_id = engine.run(calls(("look", "r"), ("once", "a")))
    for label in ("r", "a"):
        assert isinstance(engine.repeat(call_named(run_id, label)), NothingToRepeat)
    assert isinstance(engine.repeat(call_named(run_id, "a"), by="ann"), NotAllowed)
    assert isinstance(engine.repeat(call_named(run_id, "a"), reason=" "), Invalid)
