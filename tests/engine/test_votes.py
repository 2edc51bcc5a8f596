"""Votes on live connections: several people, one decision; what was said stays, and nobody counts twice (ruling 15)."""

import random
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from django.db import DatabaseError, transaction

from accounts.audit import audit_verify
from accounts.errors import Invalid, NotAllowed, Refused
from accounts.models import AuditEvent, Membership
from approvals.errors import (
    AlreadyDecided,
    AlreadyVoted,
    Expired,
    IncompleteView,
    NotAsked,
    NoVote,
    RunStopped,
    SelfApproval,
)
from approvals.models import Decision, Vote, Wait
from approvals.services import Decided, Seen, Voted, VoteWithdrawn, vote_withdraw, wait_expire
from receipts.models import Attempt, ToolCall
from runs.models import Run, Wakeup
from runtime.loop import drive
from runtime.services import StopState
from tests.engine.engine import (
    Engine,
    added,
    call_named,
    counts,
    demand,
    open_wait,
    pass_deadline,
    run_now,
    shown,
    sql,
)
from tests.engine.races import together, undone
from tests.scripted import SCRIPT, calls

ROUNDS = 6


@pytest.fixture
def pair(wait: Wait) -> Wait:
    """An open wait that asks for two people."""
    return demand(wait, quorum=2)


def withdraw(engine: Engine, wait: Wait, by: str, reason: str = "I was wrong") -> VoteWithdrawn | Refused:
    return vote_withdraw(actor=engine.person(by), wait_id=wait.id, reason=reason)


def standing(wait: Wait) -> list[tuple[str, str]]:
    """(who, verdict) of the votes that stand."""
    rows = Vote.objects.filter(wait=wait, withdrawn_at=None).order_by("at")
    return [(row.actor.partition(":")[2].partition("-")[0], row.verdict) for row in rows]


# ── a quorum ─────────────────────────────────────────────────────────────────


def test_the_vote_that_meets_the_quorum_decides_and_the_call_is_sent_once(engine: Engine, pair: Wait) -> None:
    before = counts()
    assert engine.decide(pair, by="ann") == Voted(pair.id, "APPROVE", engine.person("ann").label, 1, 2)
    assert added(before) == {"accounts_auditevent": 1, "approvals_vote": 1}
    assert (open_wait(pair.run_id), run_now(pair.run_id).status) == (pair, "WAITING")
    assert isinstance(engine.decide(pair, by="abe"), Decided)
    assert Decision.objects.get(wait=pair).actor == engine.person("abe").label
    assert list(Wakeup.objects.filter(wait_id=pair.id).values_list("cause", flat=True)) == ["DECISION"]
    drive(pair.run_id)
    assert SCRIPT.labels("once") == ["a"]
    details = list(AuditEvent.objects.filter(object_id=str(pair.id)).order_by("seq").values_list("action", "detail"))
    assert [(action, detail["approvals"], detail["quorum"]) for action, detail in details] == [
        ("wait.vote", 1, 2),
        ("wait.decide", 2, 2),
    ]


def test_one_person_is_heard_once_and_is_told_how_many_are_missing(engine: Engine, pair: Wait) -> None:
    """B22, S01: whoever comes back sees that another person is needed."""
    engine.decide(pair, by="ann")
    for verdict in ("APPROVE", "REJECT"):
        refused = engine.decide(pair, verdict, "ann")
        assert isinstance(refused, AlreadyVoted)
        assert "1 of 2" in refused.sentence
    assert not Decision.objects.exists()


def test_the_first_reject_decides_whatever_was_approved_before(engine: Engine, pair: Wait) -> None:
    engine.decide(pair, by="ann")
    assert isinstance(engine.decide(pair, "REJECT", "abe"), Decided)
    assert standing(pair) == [("ann", "APPROVE"), ("abe", "REJECT")]
    drive(pair.run_id)
    assert ToolCall.objects.get(id=pair.tool_call_id).status == "REJECTED"


def test_five_hundred_orders_never_execute_without_two_people(engine: Engine) -> None:
    """S01 in small: whoever votes, withdraws and comes back in whatever order, two distinct people stand behind a dispatch."""
    chance = random.Random(4)
    for _ in range(ROUNDS):
        wait = demand(open_wait(engine.run(calls(("once", "a")))), quorum=2)
        for _ in range(12):
            by = chance.choice(["ann", "abe", "olga"])
            if chance.random() < 0.4:
                withdraw(engine, wait, by)
            else:
                engine.decide(wait, "APPROVE", by)
        decided = Decision.objects.filter(wait=wait).exists()
        assert decided == (len({who for who, _ in standing(wait)}) >= 2)
        drive(wait.run_id)
        assert Attempt.objects.filter(tool_call=wait.tool_call_id).exists() == decided


def test_what_was_not_shown_whole_is_rejected_but_not_approved(engine: Engine, wait: Wait) -> None:
    """B19: the arguments that a page could not show stand in the refusal."""
    partly = Seen(wait.checkpoint_revision, wait.checkpoint_digest, wait.args_digest, ("$.body", "$.to[0]"))
    refused = engine.decide(wait, seen=partly)
    assert isinstance(refused, IncompleteView)
    assert "$.body, $.to[0]" in refused.sentence
    assert isinstance(engine.decide(wait, "REJECT", seen=partly), Decided)


# ── who is asked ─────────────────────────────────────────────────────────────


def test_a_wait_that_asks_for_a_role_or_a_group_is_decided_by_its_people_only(engine: Engine, wait: Wait) -> None:
    demand(wait, required_role="reconciler")
    assert isinstance(engine.decide(wait, by="ann"), NotAsked)
    assert isinstance(engine.decide(wait, by="rita"), NotAllowed)
    demand(wait, required_group="funds")
    refused = engine.decide(wait, by="rolf")
    assert isinstance(refused, NotAsked)
    assert "in the group funds" in refused.sentence
    Membership.objects.filter(user__username="rolf-north").update(groups=["funds"])
    try:
        assert isinstance(engine.decide(wait, by="rolf"), Decided)
    finally:
        Membership.objects.filter(user__username="rolf-north").update(groups=[])


def test_whoever_started_the_run_does_not_decide_where_the_wait_says_so(engine: Engine, wait: Wait) -> None:
    demand(wait, starter_may_decide=False)
    for verdict in ("APPROVE", "REJECT"):
        assert isinstance(engine.decide(wait, verdict, "olga"), SelfApproval)
    assert isinstance(engine.decide(wait, by="ann"), Decided)


def test_an_approval_of_somebody_who_may_decide_no_more_is_void_before_dispatch(engine: Engine, pair: Wait) -> None:
    """Guard 10 of every vote that counts, not only of the last one."""
    engine.decide(pair, by="ann")
    engine.decide(pair, by="abe")
    Membership.objects.filter(user__username="ann-north").update(roles=["viewer"])
    try:
        drive(pair.run_id)
    finally:
        Membership.objects.filter(user__username="ann-north").update(roles=["approver"])
    pair.refresh_from_db()
    assert (pair.status, SCRIPT.labels("once")) == ("INVALIDATED", [])
    assert open_wait(pair.run_id).tool_call_id == pair.tool_call_id
    assert standing(pair) == [("ann", "APPROVE"), ("abe", "APPROVE")]


# ── withdrawal ───────────────────────────────────────────────────────────────


def test_a_vote_that_was_withdrawn_stays_as_evidence_and_another_may_follow(engine: Engine, pair: Wait) -> None:
    engine.decide(pair, by="ann")
    before = counts()
    assert withdraw(engine, pair, "ann") == VoteWithdrawn(pair.id, engine.person("ann").label, 0, 2)
    assert added(before) == {"accounts_auditevent": 1}
    assert isinstance(engine.decide(pair, by="abe"), Voted)
    assert isinstance(engine.decide(pair, by="ann", reason="now I read it whole"), Decided)
    first, *_ = Vote.objects.filter(wait=pair).order_by("at")
    assert (first.withdrawal_reason, first.withdrawn_at is not None) == ("I was wrong", True)
    assert Vote.objects.filter(wait=pair).count() == 3
    assert audit_verify(engine.tenant.id) == AuditEvent.objects.count()


def test_nobody_withdraws_what_is_not_theirs_or_decided_or_without_a_reason(engine: Engine, pair: Wait) -> None:
    engine.decide(pair, by="ann")
    assert isinstance(withdraw(engine, pair, "abe"), NoVote)
    assert isinstance(withdraw(engine, pair, "vera"), NoVote)
    assert isinstance(withdraw(engine, pair, "ann", " "), Invalid)
    engine.decide(pair, by="abe")
    assert isinstance(withdraw(engine, pair, "ann"), AlreadyDecided)
    assert standing(pair) == [("ann", "APPROVE"), ("abe", "APPROVE")]


def test_a_vote_outlives_the_stop_of_its_run(engine: Engine, pair: Wait) -> None:
    engine.decide(pair, by="ann")
    engine.stop(pair.run_id)
    assert standing(pair) == [("ann", "APPROVE")]
    assert isinstance(withdraw(engine, pair, "ann"), RunStopped)
    assert isinstance(engine.decide(pair, by="abe"), RunStopped)


# ── at the same instant ──────────────────────────────────────────────────────


def test_the_last_approval_and_a_withdrawal_at_once_agree(engine: Engine) -> None:
    for _ in range(ROUNDS):
        wait = demand(open_wait(engine.run(calls(("once", "a")))), quorum=2)
        engine.decide(wait, by="ann")
        gone, last = together(partial(withdraw, engine, wait, "ann"), partial(engine.decide, wait, "APPROVE", "abe"))
        decided = Decision.objects.filter(wait=wait).exists()
        assert (isinstance(gone, AlreadyDecided), isinstance(last, Decided)) == (decided, decided)
        assert (isinstance(gone, VoteWithdrawn), isinstance(last, Voted)) == (not decided, not decided)


def assert_one_end(engine: Engine, wait: Wait, outcomes: list[Any]) -> None:
    """However many acted, the wait has one end, its votes fit it, and nobody was told something else."""
    wait.refresh_from_db()
    decisions = list(Decision.objects.filter(wait=wait))
    said = [outcome for outcome in outcomes if isinstance(outcome, Decided)]
    assert len(decisions) == len(said) <= 1
    approvals = {who for who, verdict in standing(wait) if verdict == "APPROVE"}
    if decisions and decisions[0].verdict == "APPROVE":
        assert len(approvals) >= wait.quorum
    ends = {"APPROVED", "REJECTED"} if decisions else {"EXPIRED", "CANCELLED", "OPEN"}
    assert wait.status in ends | {"CANCELLED"}
    per_person = Counter(Vote.objects.filter(wait=wait, withdrawn_at=None).values_list("actor", flat=True))
    assert set(per_person.values()) <= {1}
    pending = Wakeup.objects.filter(wait_id=wait.id, status="PENDING").count()
    if Run.objects.get(id=wait.run_id).status == "CANCELLED":
        assert pending == 0
        drive(wait.run_id)
        assert not Attempt.objects.filter(tool_call=wait.tool_call_id).exists()
    else:
        assert pending == int(wait.status in {"APPROVED", "REJECTED", "EXPIRED"})
    known = (Decided, Voted, VoteWithdrawn, AlreadyDecided, AlreadyVoted, NoVote, RunStopped, Expired, StopState, bool)
    assert not [outcome for outcome in outcomes if not isinstance(outcome, known)]


def everybody_at_once(engine: Engine, wait: Wait, many: int, seed: int, *, stop: bool = True) -> list[Any]:
    chance = random.Random(seed)
    people = ["ann", "abe", "olga", "rolf"]
    acts: list[Callable[[], Any]] = []
    for _ in range(many):
        by = chance.choice(people)
        ways: list[Callable[[], Any]] = [
            partial(engine.decide, wait, "APPROVE", by),
            partial(engine.decide, wait, "APPROVE", by),
            partial(engine.decide, wait, "REJECT", by),
            partial(withdraw, engine, wait, by),
            partial(wait_expire, wait_id=wait.id),
        ]
        acts.append(chance.choice(ways))
    if stop:
        acts.append(partial(engine.stop, wait.run_id))
    chance.shuffle(acts)
    return together(*acts)


@pytest.mark.parametrize("quorum", [1, 2, 3])
def test_forty_at_once_give_a_wait_one_end(engine: Engine, quorum: int) -> None:
    wait = demand(open_wait(engine.run(calls(("once", "a")))), quorum=quorum)
    assert_one_end(engine, wait, everybody_at_once(engine, wait, 39, seed=quorum))


@pytest.mark.matrix
@pytest.mark.parametrize("seed", range(12))
def test_two_hundred_at_once_give_a_wait_one_end(engine: Engine, seed: int) -> None:
    """G7, S02. A third of the rounds is at the deadline itself."""
    wait = demand(open_wait(engine.run(calls(("once", "a")))), quorum=1 + seed % 3)
    if seed % 3 == 0:
        pass_deadline(wait)
    outcomes: list[Any] = []
    for part in range(5):  # the server takes fewer sessions than two hundred
        outcomes += everybody_at_once(engine, wait, 39, seed=seed * 5 + part, stop=part == seed % 5)
    assert_one_end(engine, wait, outcomes)


# ── what the database holds by itself ────────────────────────────────────────


def assert_refused_by_database(words: str, statement: str, *params: Any) -> None:
    with pytest.raises(DatabaseError, match=words), undone():
        sql(statement, *params)


def test_a_decision_without_its_votes_is_refused_by_the_database(engine: Engine, pair: Wait) -> None:
    engine.decide(pair, by="ann")
    decide = (
        "INSERT INTO approvals_decision (wait_id, verdict, seen_revision, seen_digest, seen_args_digest, reason, actor) "
        "SELECT id, %s, checkpoint_revision, checkpoint_digest, args_digest, 'x', %s FROM approvals_wait WHERE id = %s"
    )
    assert_refused_by_database("needs the votes", decide, "APPROVE", "person:abe", pair.id)
    assert_refused_by_database("needs the votes", decide, "REJECT", "person:abe", pair.id)
    assert_refused_by_database("people_approve", decide, "APPROVE", "system:deadline", pair.id)


def test_a_vote_is_changed_by_its_withdrawal_only_and_only_while_the_wait_is_open(engine: Engine, pair: Wait) -> None:
    engine.decide(pair, by="ann")
    vote = Vote.objects.get(wait=pair)
    for column, value in (("verdict", "'REJECT'"), ("actor", "'person:x'"), ("reason", "'y'"), ("voice", "'person:x'")):
        assert_refused_by_database(
            "Cannot update", f"UPDATE approvals_vote SET {column} = {value} WHERE id = %s", vote.id
        )
    gone = "UPDATE approvals_vote SET withdrawn_at = clock_timestamp(), withdrawal_reason = 'x' WHERE id = %s"
    back = "UPDATE approvals_vote SET withdrawn_at = NULL, withdrawal_reason = '' WHERE id = %s"
    with transaction.atomic():
        sql(gone, vote.id)
        with pytest.raises(DatabaseError, match="Cannot update"), transaction.atomic():
            sql(back, vote.id)
        transaction.set_rollback(True)
    engine.decide(pair, by="abe")
    assert_refused_by_database("only while its wait is open", gone, vote.id)
    copy = (
        "INSERT INTO approvals_vote (id, wait_id, actor, voice, verdict, seen_revision, seen_digest, seen_args_digest, reason) "
        "SELECT gen_random_uuid(), wait_id, %s, %s, verdict, seen_revision, seen_digest, seen_args_digest, reason "
        "FROM approvals_vote WHERE id = %s"
    )
    assert_refused_by_database("only while its wait is open", copy, "person:x", "person:x", vote.id)


def test_a_person_and_a_voice_have_one_vote_in_the_database(engine: Engine, pair: Wait) -> None:
    engine.decide(pair, by="ann")
    copy = (
        "INSERT INTO approvals_vote (id, wait_id, actor, voice, verdict, seen_revision, seen_digest, seen_args_digest, reason) "
        "SELECT gen_random_uuid(), wait_id, %s, %s, verdict, seen_revision, seen_digest, seen_args_digest, reason "
        "FROM approvals_vote WHERE wait_id = %s"
    )
    ann = engine.person("ann").label
    assert_refused_by_database("one_vote_per_person", copy, ann, "person:x", pair.id)
    assert_refused_by_database("one_vote_per_voice", copy, "person:x", ann, pair.id)


# ── several waits of one step (B01, B12, B17) ────────────────────────────────


def test_each_of_three_waits_gets_its_own_votes_and_goes_its_own_way(engine: Engine) -> None:
    run_id = engine.run(calls(("once", "a"), ("once", "b"), ("once", "c")))
    waits = {label: demand(Wait.objects.get(tool_call=call_named(run_id, label)), quorum=2) for label in "abc"}
    assert len({wait.id for wait in waits.values()}) == 3
    for label in "abc":
        engine.decide(waits[label], by="ann", seen=shown(waits[label]))
    assert run_now(run_id).status == "WAITING"
    engine.decide(waits["b"], "REJECT", "abe")
    engine.decide(waits["a"], by="abe")
    assert run_now(run_id).status == "WAITING"
    engine.decide(waits["c"], by="abe")
    drive(run_id)
    assert sorted(SCRIPT.labels("once")) == ["a", "c"]
    assert call_named(run_id, "b").status == "REJECTED"
