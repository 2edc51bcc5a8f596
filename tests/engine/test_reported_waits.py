"""What users reported of other systems, tried here: approvals, waits and what follows them."""

import random
from functools import partial
from uuid import UUID

import pytest

from accounts.selectors import actor_named
from approvals.errors import AlreadyDecided, RunStopped
from approvals.models import Decision, Wait
from approvals.selectors import waits_visible
from approvals.services import Decided, GrantGiven
from receipts.models import ToolCall
from runs.leases import lease_acquire
from runtime.loop import drive
from runtime.services import GrantRequest, run_abort, tool_grant
from runtime.tasks import sweep
from tests.engine.engine import Engine, call_named, expire_lease, open_wait, run_now
from tests.engine.family import child_of, spawn, tell
from tests.engine.governed import govern, rule
from tests.engine.races import together
from tests.scripted import SCRIPT, calls, done


def asked_about(engine: Engine, run_id: UUID) -> list[Wait]:
    """What people are asked about a run now, as the queue shows it."""
    return list(waits_visible(engine.person("vera")).filter(run_id=run_id, status="OPEN").order_by("opened_at"))


def wait_for(run_id: UUID, label: str) -> Wait:
    return Wait.objects.get(tool_call=call_named(run_id, label))


@pytest.mark.parametrize("rounds", [8, pytest.param(100, marks=pytest.mark.matrix)])
def test_b01_two_answers_at_once_each_reach_their_own_call(engine: Engine, rounds: int) -> None:
    chance = random.Random(1)
    for _ in range(rounds):
        run_id = engine.run(calls(("once", "a"), ("once", "b")))
        wanted = {label: chance.choice(["APPROVE", "REJECT"]) for label in "ab"}
        acts = [
            partial(engine.decide, wait_for(run_id, label), wanted[label], by)
            for label, by in (("a", "ann"), ("b", "abe"))
        ]
        chance.shuffle(acts)
        assert [type(outcome) for outcome in together(*acts)] == [Decided, Decided]
        SCRIPT.sent.clear()
        drive(run_id)
        assert sorted(SCRIPT.labels("once")) == sorted(label for label in "ab" if wanted[label] == "APPROVE")
        for label in "ab":
            assert Decision.objects.get(wait=wait_for(run_id, label)).verdict == wanted[label]


def test_b02_b03_three_calls_of_a_turn_are_three_waits_before_any_answer(engine: Engine) -> None:
    run_id = engine.run(calls(("once", "a"), ("once", "b"), ("once", "c")))
    waits = asked_about(engine, run_id)
    assert {wait.tool_call_id for wait in waits} == {call_named(run_id, label).id for label in "abc"}
    assert len({wait.id for wait in waits}) == 3
    for wait, verdict in zip(waits, ("APPROVE", "REJECT", "APPROVE"), strict=True):
        engine.decide(wait, verdict)
    assert [Decision.objects.get(wait=wait).verdict for wait in waits] == ["APPROVE", "REJECT", "APPROVE"]


def test_b04_a_wait_that_was_answered_is_never_asked_again(engine: Engine) -> None:
    run_id = engine.run(calls(("once", "a"), ("once", "b")))
    answered, other = wait_for(run_id, "a"), wait_for(run_id, "b")
    engine.decide(answered)
    for _ in range(2):
        assert asked_about(engine, run_id) == [other]
        sweep()
        drive(run_id)
    engine.decide(other)
    drive(run_id)
    assert asked_about(engine, run_id) == []
    assert Wait.objects.filter(run_id=run_id).count() == 2
    assert (run_now(run_id).status, SCRIPT.labels("once")) == ("COMPLETED", ["a", "b"])


def test_b06_what_goes_before_a_wait_goes_once_in_each_round_of_pushing_back(engine: Engine) -> None:
    govern(engine, rule("posts go", "allow", tools=["apart"]), rule("the rest is asked", "ask", tools=["once"]))
    rounds = "12345"
    turns = [calls(("apart", f"draft {n}"), ("once", f"post {n}")) for n in rounds]
    run_id = engine.run(*turns)
    for n in rounds:
        assert open_wait(run_id).tool_call_id == call_named(run_id, f"post {n}").id
        engine.decide(open_wait(run_id), "REJECT")
        drive(run_id)
    assert (SCRIPT.labels("apart"), SCRIPT.labels("once")) == ([f"draft {n}" for n in rounds], [])
    assert run_now(run_id).status == "COMPLETED"


def test_b07_a_child_that_waited_repeats_nothing_of_what_it_had_done(engine: Engine) -> None:
    tell([spawn("c")], [calls(("look", "first")), calls(("again", "second")), calls(("once", "x")), done()])
    run_id = engine.start("parent")
    drive(run_id)
    child = child_of(run_id)
    drive(child.id)
    engine.approve(child.id)  # `again` leaves a mark too, so it is asked about
    drive(child.id)
    before = list(ToolCall.objects.filter(run=child).order_by("ordinal").values_list("id", flat=True))
    engine.approve(child.id)
    drive(child.id)
    assert [SCRIPT.labels(tool) for tool in ("look", "again", "once")] == [["first"], ["second"], ["x"]]
    after = list(ToolCall.objects.filter(run=child).order_by("ordinal").values_list("id", flat=True))
    assert after[: len(before)] == before and run_now(child.id).status == "COMPLETED"


def test_b08_another_answer_later_is_refused_with_the_one_that_stands(engine: Engine, wait: Wait) -> None:
    engine.decide(wait, "APPROVE", "ann")
    drive(wait.run_id)
    refused = engine.decide(wait, "REJECT", "abe")
    assert isinstance(refused, AlreadyDecided)
    assert "ann-north approved this call at" in refused.sentence
    assert Decision.objects.get(wait=wait).verdict == "APPROVE"


def test_b09_a_second_wait_right_after_the_first_is_asked_and_told(engine: Engine) -> None:
    run_id = engine.run(calls(("once", "a")), calls(("once", "b")))
    for label in "ab":
        (wait,) = asked_about(engine, run_id)
        assert (wait.tool_call_id, run_now(run_id).status) == (call_named(run_id, label).id, "WAITING")
        engine.decide(wait)
        drive(run_id)
    assert (run_now(run_id).status, SCRIPT.labels("once")) == ("COMPLETED", ["a", "b"])


def test_b10_an_approval_outlives_the_worker_that_took_it_up(engine: Engine, wait: Wait) -> None:
    """The one that dies has read it and sent nothing; the next one sends, and nobody is asked a second time."""
    engine.approve(wait.run_id)
    assert lease_acquire(run_id=wait.run_id, owner="worker:dies")
    expire_lease(wait.run_id)
    drive(wait.run_id)
    assert (SCRIPT.labels("once"), Wait.objects.filter(run=wait.run_id).count()) == (["a"], 1)


def test_b16_a_standing_grant_for_one_agent_lets_no_other_agent_go(engine: Engine) -> None:
    given = tool_grant(
        actor=engine.person("ann"), wanted=GrantRequest("told", "once", hours=1, max_uses=9), reason="a routine"
    )
    assert isinstance(given, GrantGiven)
    engine.run(calls(("once", "of the one")))
    other = engine.run(calls(("once", "of the other")), agent="paid")
    assert SCRIPT.labels("once") == ["of the one"]
    assert open_wait(other).tool_call_id == call_named(other, "of the other").id


def test_b17_an_approval_is_for_one_call_and_the_next_of_its_turn_and_of_its_run_still_ask(engine: Engine) -> None:
    run_id = engine.run(calls(("once", "a"), ("once", "b")), calls(("once", "c")))
    engine.decide(wait_for(run_id, "a"))
    assert asked_about(engine, run_id) == [wait_for(run_id, "b")]
    engine.decide(wait_for(run_id, "b"), "REJECT")
    drive(run_id)
    assert (SCRIPT.labels("once"), asked_about(engine, run_id)) == (["a"], [wait_for(run_id, "c")])


@pytest.mark.parametrize("end", ["stopped", "aborted", "settled"])
def test_b28_a_run_that_has_ended_is_in_no_queue(engine: Engine, end: str) -> None:
    run_id = engine.run(calls(("once", "a"), ("once", "b")))
    engine.decide(wait_for(run_id, "a"))
    if end == "stopped":
        engine.stop(run_id)
    elif end == "aborted":
        run_abort(actor=engine.person("otto"), run_id=run_id, reason="at once")
    else:
        assert getattr(engine.settle(run_id), "code", "") == ""
    assert run_now(run_id).ended_at is not None
    assert asked_about(engine, run_id) == []
    assert not Wait.objects.filter(run_id=run_id, status__in=["OPEN", "APPROVED", "REJECTED"]).exists()
    assert isinstance(engine.decide(wait_for(run_id, "b")), RunStopped)
    drive(run_id)
    assert SCRIPT.labels("once") == []


def test_b29_of_a_decided_wait_who_when_and_what_they_saw_stay(engine: Engine, wait: Wait) -> None:
    engine.decide(wait, "REJECT", "abe", reason="the title is wrong")
    drive(wait.run_id)
    said = Decision.objects.get(wait=wait)
    assert (said.actor, said.verdict, said.reason) == (
        actor_named(username="abe-north", door="page").label,
        "REJECT",
        "the title is wrong",
    )
    bound = (wait.checkpoint_revision, wait.checkpoint_digest, wait.args_digest)
    assert (said.seen_revision, said.seen_digest, said.seen_args_digest) == bound
    assert said.at >= wait.opened_at
