"""F10: the model is told what is refused and why; after three turns of the same the run has failed, with that reason."""

from collections.abc import Mapping
from typing import Any

import pytest

from checkpoints.models import Checkpoint
from receipts.models import Attempt, Proposal, ToolCall
from runtime.contracts import ModelTurn
from runtime.loop import drive
from tests.engine.engine import At, Engine, Killed, expire_lease, head_of, kill, run_now
from tests.engine.stops import causes
from tests.scenarios.invariants import broken_invariants
from tests.scripted import SCRIPT, calls, done

KEY = "sk-" + "Za9" * 12
REFUSED: dict[str, tuple[str, str | Mapping[str, Any], str]] = {
    "an unknown tool": ("nowhere", "a", "unknown tool nowhere"),
    "an id of 10 000 characters": ("look", "x" * 10_000, "the step name is longer than 200 characters"),
    "a secret": ("look", f"use {KEY}", "the step name looks like a model provider's API key"),
    "an unknown key": ("look", {"label": "a", "more": 1}, "more: Extra inputs are not permitted"),
    "a key that is missing": ("look", {}, "label: Field required"),
}


def forever(*turns: ModelTurn) -> None:
    """The model gives these turns, one after the other, again and again."""
    for turn_no in range(1, 31):
        SCRIPT.turns[turn_no] = [turns[(turn_no - 1) % len(turns)]]


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused_in_three_turns_in_the_same_way_ends_the_run(engine: Engine, what: str) -> None:
    tool, given, why = REFUSED[what]
    forever(calls((tool, given)))
    run_id = engine.start()
    drive(run_id)
    run = run_now(run_id)
    assert (run.status, causes(run_id)[-1], len(SCRIPT.requests)) == ("FAILED", "REFUSED_OFTEN", 3)
    assert run.end_reason.startswith(f"the model proposed {tool} in 3 turns") and why in run.end_reason
    told = [message["value"]["error"] for message in SCRIPT.requests[2].history if message["role"] == "tool"]
    assert len(told) == 2 and all(why in error for error in told)
    assert not ToolCall.objects.filter(run_id=run_id).exists() and KEY not in run.end_reason
    assert Checkpoint.objects.filter(run_id=run_id).count() == head_of(run_id).revision == 4
    assert broken_invariants() == {}


def test_a_model_that_hears_what_it_is_told_goes_on(engine: Engine) -> None:
    run_id = engine.run(calls(("nowhere", "a")), calls(("nowhere", "b")), calls(("look", "a")), calls(("nowhere", "c")))
    assert run_now(run_id).status == "COMPLETED"


def test_the_same_three_times_in_one_turn_is_said_once(engine: Engine) -> None:
    run_id = engine.run(calls(*[("nowhere", label) for label in "abc"]), done())
    assert run_now(run_id).status == "COMPLETED"


def test_different_arguments_that_are_refused_in_the_same_words_count(engine: Engine) -> None:
    forever(*[calls(("look", f"{number}" * 300)) for number in range(1, 4)])
    run_id = engine.start()
    drive(run_id)
    assert (run_now(run_id).status, len(SCRIPT.requests)) == ("FAILED", 3)


def test_two_that_are_refused_in_turns_end_the_run_when_one_of_them_was_refused_three_times(engine: Engine) -> None:
    forever(calls(("nowhere", "a")), calls(("elsewhere", "b")))
    run_id = engine.start()
    drive(run_id)
    assert (run_now(run_id).status, len(SCRIPT.requests)) == ("FAILED", 5)
    assert "proposed nowhere" in run_now(run_id).end_reason


def test_a_new_call_starts_the_count_again_and_one_that_is_known_does_not(engine: Engine) -> None:
    refused = calls(("nowhere", "a"), ("look", "same"))
    SCRIPT.tell(*[calls(("nowhere", "a"), ("look", str(number))) for number in range(4)], *[refused] * 6)
    run_id = engine.start()
    drive(run_id)
    assert (run_now(run_id).status, len(SCRIPT.requests)) == ("FAILED", 8)  # 5 with a new call, and three more


def test_a_worker_that_takes_over_counts_what_was_refused_before(engine: Engine, at_point: At) -> None:
    forever(calls(("nowhere", "a")))
    run_id = engine.start()

    def kill_at_the_third() -> None:
        if len(SCRIPT.requests) == 3:
            kill()
        at_point("after_turn_sealed", kill_at_the_third)

    at_point("after_turn_sealed", kill_at_the_third)
    with pytest.raises(Killed):
        drive(run_id)
    assert Proposal.objects.filter(model_call__run_id=run_id, disposition="REFUSED").count() == 3
    expire_lease(run_id)
    drive(run_id)
    assert (run_now(run_id).status, len(SCRIPT.requests)) == ("FAILED", 3)
    assert not Attempt.objects.filter(attempt_no=2).exists()


def test_a_fork_does_not_count_what_was_refused_to_its_source(engine: Engine) -> None:
    forever(calls(("nowhere", "a")))
    run_id = engine.start()
    drive(run_id)
    fork = engine.fork(run_id, head_of(run_id).revision).run_id
    asked = len(SCRIPT.requests)
    drive(fork)
    assert (run_now(fork).status, len(SCRIPT.requests) - asked) == ("FAILED", 3)
