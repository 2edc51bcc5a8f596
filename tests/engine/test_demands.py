"""What a wait asks beside a yes: time to look, the password, and what its clock does when nobody answers."""

from dataclasses import replace
from functools import partial
from uuid import uuid4

import pytest
from django.db import DatabaseError

from accounts.errors import Invalid, NotAllowed, WrongPassword
from accounts.models import AuditEvent, Membership, User
from accounts.services import actor_confirm
from accounts.states import Actor
from approvals.errors import (
    AlreadyDecided,
    Dwell,
    IncompleteView,
    NotAsked,
    NotTogether,
    PolicyChanged,
    StaleRevision,
    StepUp,
    WaitNotHere,
)
from approvals.models import Decision, Look, Vote, Wait
from approvals.reports import measures_of
from approvals.services import (
    Answered,
    Decided,
    Item,
    Seen,
    Voted,
    wait_escalate,
    wait_expire,
    wait_looked,
    wait_remind,
)
from approvals.states import DecisionVerdict
from receipts.models import ToolCall
from runs.models import Wakeup
from runs.selectors import database_now
from runtime.loop import drive
from runtime.services import wait_decide, waits_decide
from runtime.tasks import sweep
from tests.engine.engine import Engine, demand, open_wait, pass_deadline, people, run_now, shown, sql, sql_past_triggers
from tests.engine.governed import govern, rule
from tests.engine.races import together, undone
from tests.scripted import SCRIPT, calls

# ── time to look ─────────────────────────────────────────────────────────────


def looked(engine: Engine, wait: Wait, by: str, seconds_ago: float = 0) -> None:
    wait_looked(actor=engine.person(by), wait_id=wait.id)
    sql_past_triggers(
        "UPDATE approvals_look SET at = at - %s * interval '1 second' WHERE wait_id = %s AND actor = %s",
        *(seconds_ago, wait.id, engine.person(by).label),
    )


def test_an_approval_needs_the_time_that_the_server_has_measured_since_the_first_look(
    engine: Engine, wait: Wait
) -> None:
    demand(wait, dwell_seconds=30)
    never = engine.decide(wait)
    assert isinstance(never, Dwell)
    assert never.facts == {"seconds": 30, "left": 30}
    looked(engine, wait, "ann", seconds_ago=10)
    early = engine.decide(wait)
    assert isinstance(early, Dwell)
    assert 18 <= early.facts["left"] <= 20
    assert isinstance(engine.decide(wait, by="abe"), Dwell)  # another person's look is not theirs
    looked(engine, wait, "abe", seconds_ago=31)
    wait_looked(actor=engine.person("abe"), wait_id=wait.id)  # a second look begins nothing anew
    assert Look.objects.filter(wait=wait).count() == 2
    assert isinstance(engine.decide(wait, by="abe"), Decided)


def test_a_rejection_never_waits(engine: Engine, wait: Wait) -> None:
    demand(wait, dwell_seconds=3600, step_up=True)
    assert isinstance(engine.decide(wait, "REJECT"), Decided)


def test_a_first_look_is_not_moved(engine: Engine, wait: Wait) -> None:
    wait_looked(actor=engine.person("ann"), wait_id=wait.id)
    with pytest.raises(DatabaseError, match="Cannot update"), undone():
        sql("UPDATE approvals_look SET at = at - interval '1 hour' WHERE wait_id = %s", wait.id)


def test_a_look_at_the_wait_before_does_not_count_for_the_one_that_replaced_it(engine: Engine, wait: Wait) -> None:
    looked(engine, wait, "ann", seconds_ago=100)
    engine.revise(wait.run_id, "another goal")
    drive(wait.run_id)
    fresh = demand(open_wait(wait.run_id), dwell_seconds=30)
    assert isinstance(engine.decide(fresh), Dwell)


# ── the password again ───────────────────────────────────────────────────────


def by_actor(actor: Actor, wait: Wait, verdict: str = "APPROVE") -> object:
    return wait_decide(
        actor=actor, wait_id=wait.id, verdict=DecisionVerdict(verdict), seen=shown(wait), reason="I read it"
    )


def test_a_wait_that_asks_for_the_password_takes_no_old_one_and_no_wrong_one(engine: Engine, wait: Wait) -> None:
    demand(wait, step_up=True)
    ann = engine.person("ann")
    user = User.objects.get(username=ann.name)
    user.set_password("long and secret")
    user.save()
    assert isinstance(by_actor(ann, wait), StepUp)
    assert isinstance(actor_confirm(actor=ann, password="guessed"), WrongPassword)
    assert AuditEvent.objects.latest("id").action == "password.confirm.refused"
    old = replace(ann, confirmed_at=database_now() - (database_now() - Wait.objects.get(id=wait.id).opened_at) * 1e6)
    assert isinstance(by_actor(old, wait), StepUp)
    confirmed = actor_confirm(actor=ann, password="long and secret")
    assert isinstance(confirmed, Actor)
    assert isinstance(by_actor(confirmed, wait), Decided)


# ── when nobody answers ──────────────────────────────────────────────────────


def test_a_deadline_that_means_no_rejects_by_a_decision_of_its_own(engine: Engine, wait: Wait) -> None:
    demand(wait, on_deadline="REJECT", quorum=2)
    engine.decide(wait, by="ann")
    pass_deadline(wait)
    sweep()
    decision = Decision.objects.get(wait=wait)
    assert (decision.verdict, decision.actor) == ("REJECT", "system:deadline")
    assert list(Wakeup.objects.filter(wait_id=wait.id).values_list("cause", flat=True)) == ["TIMER"]
    assert isinstance(engine.decide(wait, by="abe"), AlreadyDecided)
    drive(wait.run_id)
    call = ToolCall.objects.get(id=wait.tool_call_id)
    assert (call.status, call.attempts) == ("REJECTED", 0)
    assert "by its deadline" in call.error
    assert Vote.objects.filter(wait=wait, verdict="APPROVE").count() == 1


def test_no_deadline_ever_means_yes(engine: Engine, wait: Wait) -> None:
    with pytest.raises(DatabaseError, match="wait_on_deadline_known"), undone():
        sql("SET session_replication_role = replica; UPDATE approvals_wait SET on_deadline = 'APPROVE'")


def test_a_deadline_and_the_last_approval_at_once_agree(engine: Engine) -> None:
    for n in range(5):
        wait = demand(open_wait(engine.run(calls(("once", "a")))), on_deadline="REJECT")
        sql("UPDATE approvals_wait SET deadline = clock_timestamp() + %s * interval '2 ms' WHERE id = %s", n, wait.id)
        together(partial(engine.decide, wait), partial(wait_expire, wait_id=wait.id))
        assert Decision.objects.filter(wait=wait).count() <= 1
        assert Wakeup.objects.filter(wait_id=wait.id).count() == Decision.objects.filter(wait=wait).count()


def pass_time_of(wait: Wait, column: str) -> None:
    sql_past_triggers(f"UPDATE approvals_wait SET {column} = clock_timestamp() WHERE id = %s", wait.id)


def test_an_escalated_wait_asks_others_as_well(engine: Engine, wait: Wait) -> None:
    demand(wait, required_group="funds", escalate_seconds=60, escalate_to="group:heads")
    Membership.objects.filter(user__username="rolf-north").update(groups=["heads"])
    try:
        assert isinstance(engine.decide(wait, by="rolf"), NotAsked)
        assert not wait_escalate(wait_id=wait.id)
        pass_time_of(wait, "escalate_at")
        sweep()
        escalated = Wait.objects.get(id=wait.id)
        assert escalated.escalated_at is not None
        assert not wait_escalate(wait_id=wait.id)
        refused = engine.decide(wait, by="ann")
        assert isinstance(refused, NotAsked)
        assert "or one in the group heads" in refused.sentence
        assert isinstance(engine.decide(wait, by="rolf"), Decided)
        drive(wait.run_id)
        assert SCRIPT.labels("once") == ["a"]
    finally:
        Membership.objects.filter(user__username="rolf-north").update(groups=[])


def test_people_are_reminded_of_an_open_wait_once(engine: Engine, wait: Wait) -> None:
    assert not wait_remind(wait_id=wait.id)
    pass_time_of(wait, "remind_at")
    reminded = together(*[partial(wait_remind, wait_id=wait.id)] * 4)
    assert reminded.count(True) == 1
    assert Wait.objects.get(id=wait.id).reminded_at is not None
    assert run_now(wait.run_id).status == "WAITING"


def test_nobody_is_reminded_of_what_is_decided(engine: Engine, wait: Wait) -> None:
    pass_time_of(wait, "remind_at")
    engine.decide(wait)
    assert not wait_remind(wait_id=wait.id)


# ── as a policy asks ─────────────────────────────────────────────────────────


def test_what_a_tenants_policy_asks_is_what_the_decision_is_held_to(engine: Engine) -> None:
    govern(engine, rule("two look at it", "ask", tools=["once"], people=2, dwell="30s", risk="high"))
    wait = open_wait(engine.run(calls(("once", "a"))))
    assert isinstance(engine.decide(wait), Dwell)
    for by in ("ann", "abe"):
        looked(engine, wait, by, seconds_ago=31)
    assert isinstance(engine.decide(wait), Voted)
    assert isinstance(engine.decide(wait, by="abe"), Decided)
    drive(wait.run_id)
    assert SCRIPT.labels("once") == ["a"]


@pytest.mark.parametrize("verdict", ["APPROVE", "REJECT"])
def test_nothing_is_decided_under_a_policy_that_is_over_before_the_sweep_has_noticed(
    engine: Engine, wait: Wait, verdict: str
) -> None:
    """Ruling 35: the decision itself compares, under the lock of the version in force."""
    govern(engine, rule("everything is asked", "ask"))
    refused = engine.decide(wait, verdict)
    assert isinstance(refused, PolicyChanged)
    assert (refused.facts["now"], refused.facts["asked"]) == ("v1", "builtin-1")
    assert not Vote.objects.exists()
    sweep()
    drive(wait.run_id)
    assert isinstance(engine.decide(open_wait(wait.run_id), verdict), Decided)


# ── many at once ─────────────────────────────────────────────────────────────


def three(engine: Engine, **demanded: object) -> list[Wait]:
    return [demand(open_wait(engine.run(calls(("once", label)))), **demanded) for label in "abc"]


def batch(engine: Engine, waits: list[Wait], verdict: str, by: str = "ann") -> list[Answered]:
    items = [Item(wait.id, shown(wait)) for wait in waits]
    outcome = waits_decide(
        actor=engine.person(by), items=items, verdict=DecisionVerdict(verdict), reason="all of one kind"
    )
    assert isinstance(outcome, list), outcome
    return outcome


def test_many_are_rejected_at_once_and_what_moved_is_refused_by_itself(engine: Engine) -> None:
    first, second, third = three(engine)
    items = [Item(first.id, shown(first)), Item(second.id, replace(shown(second), revision=1))]
    items += [Item(third.id, shown(third)), Item(uuid4(), shown(third))]
    outcome = waits_decide(
        actor=engine.person("ann"), items=items, verdict=DecisionVerdict.REJECT, reason="none of these"
    )
    assert isinstance(outcome, list)
    assert [type(each.outcome) for each in outcome] == [Decided, StaleRevision, Decided, WaitNotHere]
    assert [Wait.objects.get(id=wait.id).status for wait in (first, second, third)] == ["REJECTED", "OPEN", "REJECTED"]


def test_only_what_the_policy_marks_is_approved_together(engine: Engine) -> None:
    """One dangerous call among trivial ones is left to be gone through, and the others go on."""
    first, second, third = three(engine, batchable=True)
    demand(second, batchable=False, risk="HIGH")
    outcomes = [each.outcome for each in batch(engine, [first, second, third], "APPROVE")]
    assert [type(outcome) for outcome in outcomes] == [Decided, NotTogether, Decided]
    assert Wait.objects.get(id=second.id).status == "OPEN"
    for wait in (first, second, third):
        drive(wait.run_id)
    assert SCRIPT.labels("once").count("b") == 0
    assert {vote.reason for vote in Vote.objects.all()} == {"all of one kind"}


def test_each_of_a_batch_meets_every_guard(engine: Engine) -> None:
    """The same answers as one by one: a batch is no other door."""
    waits = three(engine, batchable=True)
    demand(waits[0], dwell_seconds=60)
    demand(waits[1], step_up=True)
    pass_deadline(waits[2])
    codes = [getattr(each.outcome, "code", "") for each in batch(engine, waits, "APPROVE")]
    assert codes == ["DWELL", "STEP_UP", "EXPIRED"]
    odd = Item(waits[0].id, replace(shown(waits[0]), not_shown=("$.label",)))
    outcome = waits_decide(
        actor=engine.person("ann"), items=[odd], verdict=DecisionVerdict.APPROVE, reason="all of one kind"
    )
    assert isinstance(outcome, list)
    assert isinstance(outcome[0].outcome, IncompleteView)


def test_a_batch_is_refused_as_a_whole_for_who_may_decide_nothing_and_where_it_is_none(
    engine: Engine, wait: Wait
) -> None:
    def sent(by: str, items: list[Item]) -> object:
        return waits_decide(
            actor=engine.person(by), items=items, verdict=DecisionVerdict.REJECT, reason="none of these"
        )

    one = Item(wait.id, Seen(wait.checkpoint_revision, wait.checkpoint_digest, wait.args_digest))
    assert isinstance(sent("otto", [one]), NotAllowed)
    assert isinstance(sent("ann", []), Invalid)
    assert isinstance(sent("ann", [one, one]), Invalid)
    assert isinstance(sent("ann", [Item(uuid4(), one.seen) for _ in range(201)]), Invalid)
    assert not Decision.objects.exists()


# ── how the team decides ─────────────────────────────────────────────────────


def test_the_measures_count_looks_votes_and_what_ran_out(engine: Engine) -> None:
    first, second, third = three(engine)
    looked(engine, first, "ann", seconds_ago=60)
    looked(engine, second, "abe")
    sql_past_triggers("UPDATE approvals_wait SET opened_at = opened_at - interval '2 minutes'")
    engine.decide(first, by="ann")
    engine.decide(second, by="abe")
    pass_deadline(third)
    sweep()
    found = measures_of(actor=engine.person("vera"), days=1)
    all_ = found.totals
    assert (all_.opened, all_.decided, all_.approved, all_.expired, all_.votes, all_.quick) == (3, 2, 2, 1, 2, 1)
    assert all_.decision_median is not None
    assert 120 <= all_.decision_median < 180
    voters = {one.person: (one.votes, one.approved, one.quick) for one in found.people}
    assert voters == {engine.person("ann").label: (1, 1, 0), engine.person("abe").label: (1, 1, 1)}
    assert [(one.tool, one.opened, one.decided, one.expired) for one in found.tools] == [("once", 3, 2, 1)]
    stranger = Engine(people("south")).person("vera")
    assert measures_of(actor=stranger, days=1).totals.opened == 0
