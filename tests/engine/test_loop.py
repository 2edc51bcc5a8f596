"""What the loop makes of a turn: proposals in order, refused, repeated, and turns that never end."""

from typing import Any
from uuid import UUID

import pytest

from receipts.models import Attempt, Claim, Effect, ModelCall, Proposal, Result, ToolCall
from runs.models import Budget, RunTransition
from runtime.contracts import (
    ModelFailed,
    ModelRetryable,
    ModelTurn,
    ModelUnknown,
    ToolFailed,
    ToolRetryable,
)
from runtime.loop import drive
from tests.engine.engine import (
    At,
    Engine,
    Killed,
    attempts_of,
    call_named,
    expire_lease,
    kill,
    open_wait,
    phases,
    run_now,
    sql,
    watch_requests,
)
from tests.engine.governed import govern, rule
from tests.scripted import SCRIPT, calls, done, went_well


def dispositions(turn_no: int = 1) -> list[str]:
    rows = Proposal.objects.filter(model_call__turn_no=turn_no).order_by("ordinal")
    return list(rows.values_list("disposition", flat=True))


def refusals(turn_no: int = 1) -> list[str]:
    rows = Proposal.objects.filter(model_call__turn_no=turn_no, disposition="REFUSED").order_by("ordinal")
    return list(rows.values_list("refusal", flat=True))


def answers() -> list[dict[str, Any]]:
    """The answers to proposals that the last request held."""
    return [message for message in SCRIPT.requests[-1].history if message["role"] == "tool"]


# ── the proposals of a turn ──────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("proposal", "why"),
    [
        (("unheard_of", "x"), "unknown tool unheard_of"),
        (("look", {}), "label: Field required"),
        (("look", {"label": 7}), "label: Input should be a valid string"),
        (("look", {"label": "x", "more": 1}), "more: Extra inputs are not permitted"),
        (("look", {"label": "x" * 200}), "the step name is longer than 200 characters"),
        (("publish_report", {"channel": "wiki"}), "report_version: Field required"),
        (("compute_overlap", {}), "Disclosure A has not been read"),
    ],
)
def test_a_proposal_that_can_not_be_used_is_refused_to_the_model(
    engine: Engine, proposal: tuple[str, Any], why: str
) -> None:
    run_id = engine.run(calls(proposal, ("look", "good")))
    assert dispositions() == ["REFUSED", "NEW"]
    assert why in refusals()[0]
    assert why in answers()[0]["value"]["error"]
    assert [(answer["id"], answer["ok"]) for answer in answers()] == [("t1-0", False), ("t1-1", True)]
    assert (run_now(run_id).status, SCRIPT.labels("look")) == ("COMPLETED", ["good"])


def test_a_turn_of_refused_proposals_only_is_told_and_asked_again(engine: Engine) -> None:
    run_id = engine.run(calls(("unheard_of", "x")), calls(("look", {})), calls(("look", "a")))
    assert phases(run_id)[:3] == ["READY_TO_DECIDE"] * 3
    assert (run_now(run_id).status, SCRIPT.labels("look"), len(answers())) == ("COMPLETED", ["a"], 3)


def test_the_end_must_be_proposed_alone(engine: Engine) -> None:
    run_id = engine.run(calls(("finish", {"summary": "x"}), ("look", "a")))
    assert dispositions() == ["REFUSED", "NEW"]
    assert "alone" in refusals()[0]
    assert (run_now(run_id).status, SCRIPT.labels("look")) == ("COMPLETED", ["a"])


def test_more_calls_than_a_turn_may_have_are_refused_and_the_run_can_be_taken_over(
    engine: Engine, at_point: At
) -> None:
    SCRIPT.tell(calls(*[("look", str(n)) for n in range(70)]))
    run_id = engine.start()
    sql("UPDATE runs_budget SET cap = 1000 WHERE run_id = %s AND unit = 'tool_calls'", run_id)
    at_point("after_turn_sealed", kill)
    with pytest.raises(Killed):
        drive(run_id)
    expire_lease(run_id)
    drive(run_id)
    assert dispositions() == ["NEW"] * 64 + ["REFUSED"] * 6
    assert (run_now(run_id).status, len(set(SCRIPT.labels("look")))) == ("COMPLETED", 64)


def test_a_call_proposed_twice_in_one_turn_is_made_once_and_answered_twice(engine: Engine) -> None:
    run_id = engine.run(calls(("look", "a"), ("look", "b"), ("look", "a")))
    assert dispositions() == ["NEW", "NEW", "REUSED"]
    assert (SCRIPT.labels("look"), ToolCall.objects.filter(run_id=run_id).count()) == (["a", "b"], 2)
    assert [(answer["id"], answer["value"]["label"]) for answer in answers()] == [
        ("t1-0", "a"),
        ("t1-1", "b"),
        ("t1-2", "a"),
    ]


@pytest.mark.parametrize("tool", ["look", "once"])
def test_a_call_that_succeeded_is_answered_from_its_result(engine: Engine, tool: str) -> None:
    run_id = engine.run(calls((tool, "a")), calls((tool, "a")), calls((tool, "a"), (tool, "b")))
    for _ in range(2 if tool == "once" else 0):
        engine.approve(run_id)
        drive(run_id)
    assert run_now(run_id).status == "COMPLETED"
    assert (dispositions(2), dispositions(3)) == (["REUSED"], ["REUSED", "NEW"])
    assert (SCRIPT.labels(tool), call_named(run_id, "a").attempts) == (["a", "b"], 1)
    assert [answer["value"]["label"] for answer in answers()] == ["a", "a", "a", "b"]


@pytest.mark.parametrize("taken_over", [False, True])
def test_a_call_that_failed_may_be_proposed_again_as_another_call(
    engine: Engine, taken_over: bool, at_point: At
) -> None:
    """Ruling 6, and whoever continues the run says the same."""
    SCRIPT.do("a", ToolFailed("no"))
    SCRIPT.tell(calls(("look", "a")), calls(("look", "a")))
    run_id = engine.start()
    if taken_over:
        at_point("after_result_commit", kill)
        with pytest.raises(Killed):
            drive(run_id)
        expire_lease(run_id)
    drive(run_id)
    first, second = ToolCall.objects.order_by("ordinal")
    assert (dispositions(2), first.idempotency_key, first.status) == (["NEW"], second.idempotency_key, "FAILED")
    assert SCRIPT.labels("look") == ["a", "a"]


@pytest.mark.parametrize("taken_over", [False, True])
def test_a_call_that_was_not_sent_may_be_proposed_again(engine: Engine, taken_over: bool, at_point: At) -> None:
    run_id = engine.run(calls(("once", "a")), calls(("once", "a")))
    engine.decide(open_wait(run_id), "REJECT")
    if taken_over:
        at_point("after_model_dispatch_commit", kill)
        with pytest.raises(Killed):
            drive(run_id)
        expire_lease(run_id)
    drive(run_id)
    assert dispositions(2) == ["NEW"]
    engine.approve(run_id)
    drive(run_id)
    statuses = ToolCall.objects.order_by("ordinal").values_list("step_name", "status")
    assert list(statuses) == [("once/a", "REJECTED"), ("once/a", "SUCCEEDED")]


def test_arguments_keep_their_types_also_in_another_worker(engine: Engine, at_point: At) -> None:
    typed = {"label": "t", "day": "2026-02-28", "weights": [1, 2.5]}
    SCRIPT.tell(calls(("look", "a"), ("typed", typed)), calls(("typed", typed), ("typed", {**typed, "day": "never"})))
    run_id = engine.start()
    at_point("after_tool@typed", kill)
    with pytest.raises(Killed):
        drive(run_id)
    expire_lease(run_id)
    drive(run_id)
    assert (run_now(run_id).status, call_named(run_id, "t").attempts) == ("COMPLETED", 2)
    assert answers()[1]["value"] == {"next": "2026-03-01", "sum": 3.5}
    assert dispositions(2) == ["REUSED", "REFUSED"]
    assert "day: Input should be a valid date" in refusals(2)[0]


def test_a_call_that_policy_denies_is_not_sent_and_the_next_one_is(engine: Engine) -> None:
    govern(engine, rule("no notes today", "deny", tools=["note"]))
    run_id = engine.run(calls(("note", "n"), ("look", "a")), calls(("note", "n")))
    first, second = ToolCall.objects.filter(tool="note").order_by("ordinal")
    assert (first.status, second.status, SCRIPT.labels("note")) == ("DENIED", "DENIED", [])
    assert (dispositions(2), SCRIPT.labels("look"), run_now(run_id).status) == (["NEW"], ["a"], "COMPLETED")
    assert first.policy_decisions.get().outcome == "DENY"
    assert "no notes today" in answers()[0]["value"]["error"]
    assert [answer["id"] for answer in answers()] == ["t1-0", "t1-1", "t2-0"]


# ── the end ──────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "end", [done(), ModelTurn("That is all.", (), 10, 5), ModelTurn("", (), 0, 0)], ids=["finish", "text", "nothing"]
)
def test_a_turn_without_a_call_ends_the_run(engine: Engine, end: ModelTurn) -> None:
    run_id = engine.run(calls(("look", "a")), end)
    assert (run_now(run_id).status, phases(run_id)[-2:]) == ("COMPLETED", ["READY_TO_VERIFY", "FINISHED"])
    assert dispositions(2) == ["FINISH"] * len(end.proposals)
    assert run_now(run_id).end_reason == ""


@pytest.mark.parametrize("tool", ["look", "note", "unheard_of_{}"])
def test_a_model_that_never_ends_is_ended_at_its_turn_limit(engine: Engine, tool: str) -> None:
    SCRIPT.tell(*[calls((tool.format(n), str(n))) for n in range(20)])
    run_id = engine.start("brief")
    drive(run_id)
    run = run_now(run_id)
    assert (run.status, run.end_reason) == ("FAILED", "no end after 3 turns")
    assert (len(SCRIPT.requests), ModelCall.objects.count()) == (3, 3)
    assert not Attempt.objects.filter(outcome=None).exists()
    assert not Budget.objects.filter(reserved__gt=0).exists()
    assert RunTransition.objects.filter(run_id=run_id, to_status="FAILED").count() == 1


# ── tools that fail ──────────────────────────────────────────────────────────


def test_a_call_that_is_put_off_is_sent_again_under_the_same_key(engine: Engine) -> None:
    SCRIPT.do("a", ToolRetryable("busy"), ToolRetryable("busy"), went_well("a"))
    run_id = engine.run(calls(("once", "a")))
    engine.approve(run_id)
    drive(run_id)
    call = call_named(run_id, "a")
    assert [(number, outcome) for number, outcome, _ in attempts_of(call)] == [
        (1, "ERROR_RETRYABLE"),
        (2, "ERROR_RETRYABLE"),
        (3, "OK"),
    ]
    assert [by for _, _, by in attempts_of(call)] == ["person:ann-north", "policy:retry", "policy:retry"]
    assert len({sent.key for sent in SCRIPT.sent}) == 1
    assert (call.status, run_now(run_id).status) == ("SUCCEEDED", "COMPLETED")
    assert Budget.objects.get(run_id=run_id, unit="tool_calls").spent == 1


def test_a_call_that_is_put_off_too_often_fails_and_the_run_goes_on(engine: Engine) -> None:
    SCRIPT.do("a", ToolRetryable("busy"))
    run_id = engine.run(calls(("look", "a")))
    call = call_named(run_id, "a")
    assert [outcome for _, outcome, _ in attempts_of(call)] == ["ERROR_RETRYABLE", "ERROR_RETRYABLE", "ERROR_FINAL"]
    assert (call.status, call.error, run_now(run_id).status) == ("FAILED", "busy (3 attempts)", "COMPLETED")
    assert answers()[0]["value"] == {"error": "busy (3 attempts)"}


def test_an_approval_that_lapses_before_a_retry_is_not_used(engine: Engine) -> None:
    """Ruling 36."""

    def lapse_and_put_off(_: Any) -> Any:
        sql("UPDATE approvals_wait SET valid_until = clock_timestamp() - interval '1 second'")
        raise ToolRetryable("busy")

    SCRIPT.do("a", lapse_and_put_off, went_well("a"))
    run_id = engine.run(calls(("once", "a")))
    engine.approve(run_id)
    drive(run_id)
    call = call_named(run_id, "a")
    assert (call.status, call.attempts, SCRIPT.labels("once")) == ("FAILED", 1, ["a"])
    assert "lapsed" in call.error
    assert run_now(run_id).status == "COMPLETED"


def test_a_call_that_fails_for_good_leaves_no_effect_and_frees_its_claim(engine: Engine) -> None:
    SCRIPT.do("a", ToolFailed("refused"))
    run_id = engine.run(calls(("once", "a")))
    engine.approve(run_id)
    drive(run_id)
    call = call_named(run_id, "a")
    assert attempts_of(call) == [(1, "ERROR_FINAL", "person:ann-north")]
    assert (call.status, call.error, Result.objects.get(tool_call=call).ok) == ("FAILED", "refused", False)
    assert not Effect.objects.exists()
    assert Claim.objects.get(tool_call=call).released_at is not None
    assert (run_now(run_id).status, answers()[0]["value"]) == ("COMPLETED", {"error": "refused"})


# ── the model ────────────────────────────────────────────────────────────────


def turn_attempts() -> list[tuple[int, int, str | None]]:
    rows = Attempt.objects.filter(model_call__isnull=False).order_by("model_call__turn_no", "attempt_no")
    return list(rows.values_list("model_call__turn_no", "attempt_no", "outcome"))


def model_budget(run_id: UUID) -> tuple[int, int, int]:
    budget = Budget.objects.get(run_id=run_id, unit="model_calls")
    return budget.reserved, budget.held_unknown, budget.spent


@pytest.mark.parametrize(
    ("error", "outcome", "budget"),
    [(ModelUnknown("cut off"), "NO_RESPONSE", (0, 2, 1)), (ModelRetryable("overloaded"), "ERROR_RETRYABLE", (0, 0, 1))],
)
def test_a_turn_without_an_answer_is_asked_again_as_the_same_turn(
    engine: Engine, error: Exception, outcome: str, budget: tuple[int, int, int]
) -> None:
    run_id = engine.run([error, error, done()])
    assert turn_attempts() == [(1, 1, outcome), (1, 2, outcome), (1, 3, "OK")]
    assert (run_now(run_id).status, model_budget(run_id)) == ("COMPLETED", budget)
    assert {request.turn_no for request in SCRIPT.requests} == {1}


@pytest.mark.parametrize(
    ("error", "outcome", "status"),
    [(ModelUnknown("cut off"), "NO_RESPONSE", "CANCELLED"), (ModelRetryable("busy"), "ERROR_RETRYABLE", "CANCELLED")],
)
def test_a_model_that_never_answers_fails_the_run(engine: Engine, error: Exception, outcome: str, status: str) -> None:
    run_id = engine.run(error)
    run = run_now(run_id)
    assert run.status == "FAILED"
    assert str(error) in run.end_reason
    assert turn_attempts() == [(1, number, outcome) for number in (1, 2, 3)]
    assert ModelCall.objects.get().status == status
    assert model_budget(run_id)[0] == 0


def test_a_planner_with_a_bug_fails_the_run_with_its_reason(engine: Engine) -> None:
    run_id = engine.run(KeyError("no such step"))
    assert (run_now(run_id).status, len(turn_attempts())) == ("FAILED", 3)
    assert "KeyError" in run_now(run_id).end_reason


def test_a_model_that_refuses_fails_the_run_at_once(engine: Engine) -> None:
    run_id = engine.run(calls(("note", "v1")), ModelFailed("not with me"))
    assert (run_now(run_id).status, turn_attempts()[-1]) == ("FAILED", (2, 1, "ERROR_FINAL"))
    assert "not with me" in run_now(run_id).end_reason
    assert call_named(run_id, "v1").report_version.publications.get().status == "PUBLISHED"
    assert model_budget(run_id) == (0, 0, 1)


@pytest.mark.parametrize("value", [float("nan"), 2**60, "\0", "\ud800", {1, 2}])
def test_an_answer_that_can_not_be_stored_fails_the_run_and_says_where(engine: Engine, value: Any) -> None:
    run_id = engine.run(calls(("look", {"label": value})))
    assert run_now(run_id).status == "FAILED"
    assert "can't be stored: $.proposals[0].arguments.label" in run_now(run_id).end_reason
    assert SCRIPT.sent == []


# ── the conversation ─────────────────────────────────────────────────────────


def test_the_worker_that_goes_on_asks_what_one_that_takes_over_would_ask(engine: Engine) -> None:
    """At every request, the conversation in memory is the one that the store gives."""
    differences = watch_requests()
    SCRIPT.do("bad", ToolFailed("no"))
    SCRIPT.do("slow", ToolRetryable("busy"), went_well("slow"))
    turns = [
        calls(("look", "a"), ("unheard_of", "x"), ("look", "a"), ("look", "bad"), ("look", "b")),
        calls(("look", "bad"), ("look", "a"), text="again"),
        calls(("once", "c"), ("look", "d")),
        calls(("once", "e"), ("look", "slow"), ("note", "n")),
        calls(("once", "f")),
        ModelTurn("That is all.", (), 1, 1),
    ]
    run_id = engine.run(*turns)
    engine.approve(run_id)
    drive(run_id)
    engine.revise(run_id, "Another goal.")
    drive(run_id)
    engine.approve(run_id)
    drive(run_id)
    engine.decide(open_wait(run_id), "REJECT")
    drive(run_id)
    assert (run_now(run_id).status, [request.turn_no for request in SCRIPT.requests]) == (
        "COMPLETED",
        [1, 2, 3, 4, 5, 6],
    )
    assert differences == []
