"""Acts and faults that fall together, and what models, providers and other sides say that nobody can store."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID

import pytest

from accounts.errors import Refused
from receipts.models import Attempt, Effect, Proposal, ToolCall
from runs.errors import KeyReused
from runs.models import Run, RunTransition
from runtime.contracts import (
    ModelRetryable,
    ModelTurn,
    ProposedCall,
    ReportDraft,
    ToolFailed,
    ToolOutcome,
    ToolRetryable,
    ToolUnknown,
)
from runtime.loop import drive
from runtime.services import Started, StartRequest, Terms, run_bind, run_pause, run_start
from runtime.tasks import sweep
from tests.engine.engine import (
    At,
    Engine,
    Killed,
    attempts_of,
    call_named,
    expire_lease,
    kill,
    lease_of,
    open_wait,
    pass_retry,
    run_now,
    sql,
)
from tests.engine.family import awaits, child_of, spawn, tell
from tests.engine.races import together
from tests.scenarios.invariants import broken_invariants
from tests.scripted import SCRIPT, calls, done, went_well

UNSTORABLE = {"a NUL": "no\0way", "a lone surrogate": "no\ud800way"}
unstorable = pytest.mark.parametrize("said", UNSTORABLE.values(), ids=UNSTORABLE)


# ── an answer that no store takes ──


@unstorable
def test_a_clear_no_with_unstorable_characters_is_a_no_and_nobody_has_to_look(engine: Engine, said: str) -> None:
    """What was refused is known not to have happened, whatever bytes the reason is written in."""
    run_id = engine.run(calls(("once", "a")))
    SCRIPT.do("a", ToolFailed(f"400: {said}"))
    engine.approve(run_id)
    drive(run_id)
    call = call_named(run_id, "a")
    assert (run_now(run_id).status, call.status, call.attempts) == ("COMPLETED", "FAILED", 1)
    assert "no\\" in call.error and "way" in call.error
    assert (run_now(run_id).takeovers, SCRIPT.labels("once")) == (0, ["a"])
    assert broken_invariants() == {}


@unstorable
def test_a_not_now_and_an_unknown_outcome_in_such_words_are_recorded_as_what_they_are(
    engine: Engine, said: str
) -> None:
    SCRIPT.do("a", ToolRetryable(said), ToolUnknown(said), went_well("a"))
    run_id = engine.run(calls(("look", "a")))
    outcomes = [outcome for _, outcome, _ in attempts_of(call_named(run_id, "a"))]
    assert outcomes == ["ERROR_RETRYABLE", "NO_RESPONSE", "OK"]
    assert (run_now(run_id).status, run_now(run_id).takeovers) == ("COMPLETED", 0)
    assert broken_invariants() == {}


BESIDE = {
    "a reference with a NUL": ({"external_ref": "a\0"}, "external_ref: a NUL character"),
    "a reference with a surrogate": ({"external_ref": "a\ud800"}, "external_ref: a lone surrogate"),
    "a reference that is too long": ({"external_ref": "x" * 501}, "external_ref: 501 characters, at most 500"),
    "a target that is too long": ({"target": "x" * 201}, "target: 201 characters, at most 200"),
    "a remark with a NUL": ({"remark": "\0"}, "remark: a NUL character"),
    "a report with a NUL": ({"report": ReportDraft("told", "A title", "\0", ())}, "report.body: a NUL character"),
    "a title that is too long": (
        {"report": ReportDraft("told", "x" * 201, "A body", ())},
        "report.title: 201 characters, at most 200",
    ),
}


@pytest.mark.parametrize(("beside", "why"), BESIDE.values(), ids=BESIDE)
def test_what_stands_beside_an_answer_and_can_not_be_stored_makes_it_unknown_by_its_place(
    engine: Engine, beside: dict[str, Any], why: str
) -> None:
    """It was sent, so a person looks; at once, without a worker that dies of it, and without a second request."""
    run_id = engine.run(calls(("once", "a")))
    SCRIPT.do("a", ToolOutcome({"done": True}, **beside))
    engine.approve(run_id)
    drive(run_id)
    call, run = call_named(run_id, "a"), run_now(run_id)
    assert (run.status, run.hold_reason, call.status) == ("HELD", "UNCERTAIN_CALL", "UNCERTAIN")
    assert why in Attempt.objects.get(tool_call=call).error
    assert (lease_of(run_id).owner, run.takeovers, SCRIPT.labels("once")) == (None, 0, ["a"])
    engine.reconcile(call, "EXECUTED", external_ref="seen there")
    drive(run_id)
    assert (run_now(run_id).status, Effect.objects.filter(tool_call=call).count()) == ("COMPLETED", 1)
    assert broken_invariants() == {}


def test_a_probe_that_finds_what_can_not_be_stored_has_told_nothing(engine: Engine) -> None:
    run_id = engine.run(calls(("asked", "a")))
    SCRIPT.do("a", ToolUnknown("no answer"))
    SCRIPT.find("a", ToolOutcome({"done": True}, external_ref="a\0"))
    engine.approve(run_id)
    drive(run_id)
    assert (run_now(run_id).hold_reason, call_named(run_id, "a").status) == ("UNCERTAIN_CALL", "UNCERTAIN")
    assert broken_invariants() == {}


@pytest.mark.parametrize("tokens", [-100, 2**53, 2**70])
@pytest.mark.parametrize("agent", ["told", "paid"])
def test_a_usage_that_can_not_be_is_no_answer_and_is_never_booked(engine: Engine, agent: str, tokens: int) -> None:
    """Booked, it would give budget back, or break the row; the try may have cost what was reserved, so that stays held."""
    impossible = ModelTurn("", (ProposedCall("look", {"label": "a"}),), tokens, 20)
    run_id = engine.run([impossible, done()], agent=agent)
    run = run_now(run_id)
    assert (run.status, run.takeovers, SCRIPT.labels("look")) == ("COMPLETED", 0, [])
    lost, sealed = Attempt.objects.filter(model_call__run=run).order_by("attempt_no")
    assert (lost.outcome, sealed.outcome) == ("NO_RESPONSE", "OK")
    assert f"{tokens} and 20 tokens" in lost.error
    assert run.budgets.get(unit="tokens").held_unknown == 8000
    assert broken_invariants() == {}


# ── many at once in one turn ──


def test_fifty_calls_of_one_step_in_one_turn_are_one_call_with_fifty_answers(engine: Engine) -> None:
    run_id = engine.run(calls(*[("once", "a")] * 50))
    engine.approve(run_id)
    drive(run_id)
    assert (run_now(run_id).status, SCRIPT.labels("once"), Effect.objects.count()) == ("COMPLETED", ["a"], 1)
    assert (ToolCall.objects.count(), Proposal.objects.filter(disposition="REUSED").count()) == (1, 49)
    answers = [message for message in SCRIPT.requests[1].history if message["role"] == "tool"]
    assert len({answer["id"] for answer in answers}) == 50 and all(answer["ok"] for answer in answers)
    assert broken_invariants() == {}


# ── one start asked for in many ways at the same instant ──


def begin(engine: Engine, key: str, **said: Any) -> Started | Refused:
    return run_start(actor=engine.person("olga"), wanted=StartRequest("told", {}, key=key, **said))


def test_many_starts_with_few_keys_in_one_new_workspace_give_a_run_for_each_key(engine: Engine) -> None:
    """A start that is repeated while the first one commits hears of that run, never that its own thread is busy."""
    keys = [f"k{number % 4}" for number in range(16)]
    outcomes = together(*[partial(begin, engine, key, workspace="w") for key in keys])
    assert all(isinstance(outcome, Started) for outcome in outcomes), outcomes
    runs = {(key, outcome.run_id) for key, outcome in zip(keys, outcomes, strict=True) if isinstance(outcome, Started)}
    assert len(runs) == Run.objects.count() == 4
    assert broken_invariants() == {}


def test_one_key_with_two_goals_at_the_same_instant_makes_one_run_and_refuses_the_other_goal(engine: Engine) -> None:
    outcomes = together(*[partial(begin, engine, "k", goal=f"goal {number % 2}") for number in range(8)])
    assert Run.objects.count() == 1
    assert sum(isinstance(outcome, Started) and outcome.new for outcome in outcomes) == 1
    assert [type(outcome) for outcome in outcomes].count(KeyReused) == 4


def test_keys_that_differ_only_at_their_end_make_runs_of_their_own(engine: Engine) -> None:
    first, second = (begin(engine, "k" * 199 + end) for end in "ab")
    assert isinstance(first, Started) and isinstance(second, Started), second
    assert first.run_id != second.run_id


# ── what comes between a “not now” and the next try ──


def resumed(engine: Engine, run_id: UUID) -> None:
    run_pause(actor=engine.person("otto"), run_id=run_id, reason="not now")
    engine.resume(run_id)
    assert (run_now(run_id).status, run_now(run_id).due_at) == ("QUEUED", None)


def taken_over(engine: Engine, run_id: UUID) -> None:
    """As where the worker was killed after it had recorded the answer, and before it had given the run back."""
    sql("UPDATE runs_run SET due_at = NULL WHERE id = %s", run_id)


@pytest.mark.parametrize("between", [resumed, taken_over])
@pytest.mark.parametrize("asks", ["a tool", "the model"])
def test_nothing_is_sent_before_the_time_that_the_other_side_asked_for_whatever_comes_between(
    engine: Engine, between: Callable[[Engine, UUID], None], asks: str
) -> None:
    SCRIPT.do("a", ToolRetryable("busy", retry_after=50) if asks == "a tool" else went_well("a"), went_well("a"))
    turn = calls(("look", "a"))
    run_id = engine.run([ModelRetryable("busy", retry_after=50), turn] if asks == "the model" else turn)
    sent, due = (len(SCRIPT.sent), len(SCRIPT.requests)), run_now(run_id).due_at
    between(engine, run_id)
    drive(run_id)
    run = run_now(run_id)
    assert (len(SCRIPT.sent), len(SCRIPT.requests)) == sent
    assert (run.status, lease_of(run_id).owner, run.takeovers) == ("QUEUED", None, 0)
    assert due is not None and run.due_at is not None and abs(run.due_at - due) < timedelta(seconds=5)
    pass_retry(run_id)
    drive(run_id)
    assert (run_now(run_id).status, SCRIPT.labels("look")) == ("COMPLETED", ["a", "a"] if asks == "a tool" else ["a"])
    assert broken_invariants() == {}


# ── acts of several people and workers at the same instant ──


def test_three_who_move_the_head_an_approval_and_two_workers_at_once_leave_one_wait(engine: Engine) -> None:
    """Every move is a revision of its own, the approval of what was asked before sends nothing, and it is asked once more."""
    run_id = engine.run(calls(("once", "a")))
    asked = open_wait(run_id)
    bind = partial(
        run_bind, actor=engine.person("otto"), run_id=run_id, terms=Terms(("Be kind.",)), reason="it was missing"
    )
    heads = [partial(engine.revise, run_id, "one"), partial(engine.revise, run_id, "two"), bind]
    together(*heads, partial(engine.decide, asked), partial(drive, run_id), partial(drive, run_id))
    sweep()
    drive(run_id)
    if SCRIPT.labels("once") == []:
        engine.approve(run_id)
        drive(run_id)
    assert (run_now(run_id).status, SCRIPT.labels("once")) == ("COMPLETED", ["a"])
    assert broken_invariants() == {}


@pytest.mark.parametrize("verdict", ["EXECUTED", "NOT_EXECUTED"])
def test_a_verdict_a_stop_a_settlement_and_a_fork_at_once_end_the_run_once_and_send_nothing(
    engine: Engine, verdict: str
) -> None:
    """The fork finds what happened and does not repeat it, or asks a person before it does what did not happen."""
    run_id = engine.run(calls(("once", "a")))
    SCRIPT.do("a", ToolUnknown("no answer"))
    engine.approve(run_id)
    drive(run_id)
    happened = verdict == "EXECUTED"
    said = partial(
        engine.reconcile,
        call_named(run_id, "a"),
        verdict,
        "NONE" if happened else "FAIL",
        external_ref="seen" if happened else "",
    )
    together(said, partial(engine.stop, run_id), partial(engine.settle, run_id), partial(engine.fork, run_id, 2))
    sweep()
    drive(run_id)
    run = run_now(run_id)
    assert run.status in ("CANCELLED", "SETTLED") and lease_of(run_id).owner is None
    assert RunTransition.objects.filter(run=run, to_status__in=["CANCELLED", "SETTLED"]).count() == 1
    fork = Run.objects.exclude(id=run_id).get()
    drive(fork.id)
    assert run_now(fork.id).status == ("COMPLETED" if happened else "WAITING")
    assert SCRIPT.labels("once") == ["a"]
    assert broken_invariants() == {}


@pytest.mark.parametrize("point", ["after_acquire", "after_model_dispatch_commit", "after_result_commit"])
def test_a_parent_whose_worker_dies_as_its_child_has_ended_hears_of_it_once(
    engine: Engine, at_point: At, point: str
) -> None:
    tell([spawn("c"), awaits], [calls(("look", "a")), done()])
    run_id = engine.start("parent")
    drive(run_id)
    drive(child_of(run_id).id)
    sweep()
    at_point(point, kill)
    with pytest.raises(Killed):
        drive(run_id)
    expire_lease(run_id)
    drive(run_id)
    run = run_now(run_id)
    assert (run.status, run.takeovers, SCRIPT.labels("look")) == ("COMPLETED", 1, ["a"])
    assert run.wakeups.filter(status="PENDING").count() == 0
    assert broken_invariants() == {}
