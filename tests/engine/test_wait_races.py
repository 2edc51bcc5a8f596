"""Acts on one wait at the same instant, each on a session of its own: one outcome, and the losers hear who and when."""

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from accounts.errors import NotAllowed, Refused
from approvals.errors import AlreadyDecided, AlreadyTaken, AlreadyVoted, Expired, NoVote, PolicyChanged, RunStopped
from approvals.models import Decision, Delegation, Grant, GrantUse, Vote, Wait
from approvals.policies import version_name
from approvals.selectors import policy_number
from approvals.services import (
    Decided,
    GrantGiven,
    Looked,
    PolicyActivated,
    Voted,
    VoteWithdrawn,
    delegation_end,
    grant_revoke,
    policy_activate,
    vote_withdraw,
    wait_claim,
    wait_expire,
)
from receipts.models import Attempt
from runs.models import Wakeup
from runtime.loop import drive
from runtime.services import GrantRequest, StopState, tool_grant
from runtime.tasks import sweep
from tests.engine.engine import Engine, call_named, demand, open_wait, run_now, sql
from tests.engine.governed import govern, rule
from tests.engine.races import together
from tests.engine.test_standing_in import given
from tests.scripted import SCRIPT, calls

Act = Callable[[], Any]
FEW, MANY = 6, pytest.param(100, marks=pytest.mark.matrix)
PEOPLE = ("ann", "abe", "olga", "rolf")


def a_wait(engine: Engine) -> Wait:
    return open_wait(engine.run(calls(("once", "a"))))


def end_its_time(wait: Wait) -> None:
    """The deadline is this very moment."""
    sql("UPDATE approvals_wait SET deadline = clock_timestamp() WHERE id = %s AND status = 'OPEN'", wait.id)


def mixed(engine: Engine, wait: Wait, many: int, chance: random.Random, *, stops: bool) -> list[Act]:
    """So many approvals, rejections and expiries by four people, the end of its time, and a stop if one is asked for."""
    ways: list[Callable[[str], Act]] = [
        lambda by: partial(engine.decide, wait, "APPROVE", by),
        lambda by: partial(engine.decide, wait, "REJECT", by),
        lambda _: partial(wait_expire, wait_id=wait.id),
    ]
    acts = [chance.choice(ways)(chance.choice(PEOPLE)) for _ in range(many - 2)]
    late = partial(engine.stop, wait.run_id) if stops else partial(wait_expire, wait_id=wait.id)
    acts += [partial(end_its_time, wait), late]
    chance.shuffle(acts)
    return acts


def assert_one_outcome(engine: Engine, wait: Wait, outcomes: list[Any]) -> str:
    """One act closed the wait, one decision row at most, and everybody else was told by whom or what, and when."""
    wait.refresh_from_db()
    won = [outcome for outcome in outcomes if isinstance(outcome, Decided)]
    expired = outcomes.count(True)
    stopped = [outcome for outcome in outcomes if isinstance(outcome, StopState)]
    decision = Decision.objects.filter(wait=wait).first()
    assert (len(won), expired) in {(1, 0), (0, 1), (0, 0)}
    assert (decision is not None) == bool(won)
    assert len(won) + expired == 1 or stopped
    for refused in (outcome for outcome in outcomes if isinstance(outcome, Refused)):
        assert_said_who_and_when(refused, wait, decision)
    end = "DECIDED" if won else "EXPIRED" if expired else "CANCELLED"
    kept = {"APPROVE": "APPROVED", "REJECT": "REJECTED"}.get(decision.verdict if decision else "", end)
    assert wait.status == (kept if kept == "EXPIRED" or not stopped else "CANCELLED")
    assert Vote.objects.filter(wait=wait).count() == len(won)
    pending = Wakeup.objects.filter(wait_id=wait.id, status="PENDING").count()
    assert pending == (0 if stopped else 1)
    return end


def assert_said_who_and_when(refused: Refused, wait: Wait, decision: Decision | None) -> None:
    if isinstance(refused, AlreadyDecided):
        assert decision is not None and refused.facts["decided_at"] == decision.at.isoformat()
        assert f"person:{refused.facts['by']}" == decision.actor
    elif isinstance(refused, Expired):
        assert f"{wait.deadline:%Y-%m-%d %H:%M:%S} UTC" in refused.sentence
    else:
        assert isinstance(refused, RunStopped), refused
        assert f"{wait.closed_at:%Y-%m-%d %H:%M:%S} UTC" in refused.sentence


def assert_sent_only_on_approval(wait: Wait, end: str) -> None:
    """Whatever a worker does then: the call is sent where an approval stands, and nowhere else."""
    approved = end == "DECIDED" and Decision.objects.get(wait=wait).verdict == "APPROVE"
    expected = 1 if approved and run_now(wait.run_id).status == "QUEUED" else 0
    drive(wait.run_id)
    assert Attempt.objects.filter(tool_call=wait.tool_call_id).count() == expected


@pytest.mark.parametrize("stops", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_forty_on_one_wait_have_one_outcome(engine: Engine, seed: int, *, stops: bool) -> None:
    race(engine, 40, seed, stops=stops)


@pytest.mark.matrix
@pytest.mark.parametrize("stops", [False, True])
@pytest.mark.parametrize("seed", range(10))
def test_two_hundred_on_one_wait_have_one_outcome(engine: Engine, seed: int, *, stops: bool) -> None:
    """G7, S02."""
    race(engine, 200, seed, stops=stops)


def race(engine: Engine, many: int, seed: int, *, stops: bool) -> None:
    wait, chance = a_wait(engine), random.Random(f"{seed}{stops}")
    outcomes = together(*mixed(engine, wait, many, chance, stops=stops))
    assert_sent_only_on_approval(wait, assert_one_outcome(engine, wait, outcomes))


@pytest.mark.parametrize("many", [20, pytest.param(100, marks=pytest.mark.matrix)])
def test_votes_that_are_withdrawn_and_votes_that_meet_the_quorum_agree(engine: Engine, many: int) -> None:
    wait = demand(a_wait(engine), quorum=2)
    engine.decide(wait, by="ann")
    gone = [partial(vote_withdraw, actor=engine.person("ann"), wait_id=wait.id, reason="wrong") for _ in range(many)]
    outcomes = together(*gone, *(partial(engine.decide, wait, "APPROVE", "abe") for _ in range(many)))
    withdrawn = [outcome for outcome in outcomes if isinstance(outcome, VoteWithdrawn)]
    decided = [outcome for outcome in outcomes if isinstance(outcome, Decided)]
    assert len(withdrawn) + len(decided) == 1
    assert Decision.objects.filter(wait=wait).count() == len(decided)
    standing = Vote.objects.filter(wait=wait, withdrawn_at=None, verdict="APPROVE").count()
    assert standing == (2 if decided else 1)
    known = (VoteWithdrawn, Decided, Voted, AlreadyDecided, AlreadyVoted, NoVote)
    assert not [outcome for outcome in outcomes if not isinstance(outcome, known)]


@pytest.mark.parametrize("rounds", [FEW, MANY])
def test_of_a_decision_and_another_policy_at_once_nothing_goes_by_the_old_one(engine: Engine, rounds: int) -> None:
    first = govern(engine, rule("asked", "ask", people=1))
    second = govern(engine, rule("asked of two", "ask", people=2))
    for n in range(rounds):
        wait = a_wait(engine)
        number, seen = ((first, second) if n % 2 == 0 else (second, first))[0], policy_number(engine.tenant.id)
        act = partial(policy_activate, actor=engine.person("gail"), number=number, seen=seen, reason="it is time")
        decided, activated = together(partial(engine.decide, wait, "APPROVE"), act)
        assert isinstance(activated, PolicyActivated)
        assert isinstance(decided, Decided | Voted | PolicyChanged)
        sweep()
        drive(wait.run_id)
        assert open_wait(wait.run_id).policy_version == version_name(number)
        assert Wait.objects.get(id=wait.id).status in {"SUPERSEDED", "INVALIDATED"}
        assert SCRIPT.labels("once") == []


@pytest.mark.parametrize("rounds", [FEW, MANY])
def test_of_a_dispatch_by_a_grant_and_its_end_at_once_the_call_is_sent_and_counted_or_asked_about(
    engine: Engine, rounds: int
) -> None:
    for n in range(rounds):
        wanted = GrantRequest("told", "once", hours=1, max_uses=1)
        outcome = tool_grant(actor=engine.person("ann"), wanted=wanted, reason="a routine")
        assert isinstance(outcome, GrantGiven)
        SCRIPT.tell(calls(("once", f"g{n}")))
        run_id = engine.start()
        revoke = partial(grant_revoke, actor=engine.person("abe"), grant_id=outcome.grant_id, reason="no more")
        together(partial(drive, run_id), revoke)
        call, grant = call_named(run_id, f"g{n}"), Grant.objects.get(id=outcome.grant_id)
        sent = Attempt.objects.filter(tool_call=call).values_list("authorised_by", flat=True)
        assert list(sent) == [f"grant:{grant.id}"] * grant.uses
        assert GrantUse.objects.filter(tool_call_id=call.id).count() == grant.uses
        assert Wait.objects.filter(tool_call=call, status="OPEN").exists() == (grant.uses == 0)


@pytest.mark.parametrize("rounds", [FEW, MANY])
def test_of_a_decision_in_anothers_place_and_the_end_of_that_at_once_none_comes_after_the_end(
    engine: Engine, rounds: int
) -> None:
    for _ in range(rounds):
        wait, stands_in = a_wait(engine), given(engine, "ann", "vera")
        end = partial(delegation_end, actor=engine.person("ann"), delegation_id=stands_in.id)
        decided, _ = together(partial(engine.decide, wait, "APPROVE", "vera"), end)
        ended = Delegation.objects.get(id=stands_in.id).ended_at
        assert ended is not None
        if isinstance(decided, Decided):
            assert Decision.objects.get(wait=wait).at <= ended
            assert Vote.objects.get(wait=wait).voice == engine.person("ann").label
        else:
            assert isinstance(decided, NotAllowed)
            assert not Vote.objects.filter(wait=wait).exists()


@pytest.mark.parametrize("many", [20, pytest.param(200, marks=pytest.mark.matrix)])
def test_of_many_who_take_a_wait_one_has_it_and_the_others_hear_who_and_since_when(engine: Engine, many: int) -> None:
    wait = a_wait(engine)
    people = [engine.person(PEOPLE[n % len(PEOPLE)]) for n in range(many)]
    outcomes = together(*(partial(wait_claim, actor=one, wait_id=wait.id) for one in people))
    (taken,) = [outcome for outcome in outcomes if isinstance(outcome, Looked)]
    for refused in (outcome for outcome in outcomes if not isinstance(outcome, Looked)):
        assert isinstance(refused, AlreadyTaken)
        assert f"person:{refused.facts['by']}" == taken.person and "UTC" in refused.facts["at"]
