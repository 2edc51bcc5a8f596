"""Who looks at a wait, and who decides with whose authority for a time."""

from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.db import DatabaseError

from accounts.errors import Invalid, NotAllowed, NotFound, Refused
from accounts.models import AuditEvent, Membership, Tenant
from approvals.errors import (
    AlreadyTaken,
    AlreadyVoted,
    DelegationOver,
    NobodyThere,
    NotAsked,
    NotTaken,
    SelfApproval,
    WaitClosed,
)
from approvals.models import Assignment, Delegation, Vote, Wait
from approvals.services import (
    Decided,
    Delegated,
    DelegationWanted,
    Looked,
    Voted,
    delegation_end,
    delegation_give,
    wait_assign,
    wait_claim,
    wait_release,
)
from runs.selectors import database_now
from runtime.loop import drive
from tests.engine.engine import Engine, added, counts, demand, open_wait, people, sql
from tests.engine.races import together, undone
from tests.scripted import SCRIPT, calls


def give(engine: Engine, giver: str, taker: str, *, hours: float = 8, after: float | None = None) -> Any:
    """Have one person decide for another one, from now or from so many hours on."""
    now = database_now()
    starts = None if after is None else now + timedelta(hours=after)
    wanted = DelegationWanted(f"{taker}-north", (starts or now) + timedelta(hours=hours), "on leave", starts)
    return delegation_give(actor=engine.person(giver), wanted=wanted)


def given(engine: Engine, giver: str, taker: str) -> Delegation:
    outcome = give(engine, giver, taker)
    assert isinstance(outcome, Delegated), outcome
    return Delegation.objects.get(id=outcome.delegation_id)


# ── delegation ───────────────────────────────────────────────────────────────


def test_who_stands_in_decides_with_the_authority_of_the_other_and_both_are_named(engine: Engine, wait: Wait) -> None:
    assert isinstance(engine.decide(wait, by="otto"), NotAllowed)
    given(engine, "ann", "vera")
    assert isinstance(engine.decide(wait, by="vera"), Decided)
    vote = Vote.objects.get(wait=wait)
    assert (vote.actor, vote.voice) == (engine.person("vera").label, engine.person("ann").label)
    assert AuditEvent.objects.latest("id").detail["in_place_of"] == engine.person("ann").label
    drive(wait.run_id)
    assert SCRIPT.labels("once") == ["a"]


def test_giver_and_taker_are_one_voice_of_two(engine: Engine, wait: Wait) -> None:
    """Four eyes are two people and two authorities, whoever is first."""
    given(engine, "ann", "vera")
    pair = demand(wait, quorum=2)
    assert isinstance(engine.decide(pair, by="vera"), Voted)
    assert isinstance(engine.decide(pair, by="ann"), AlreadyVoted)
    assert isinstance(engine.decide(pair, by="vera"), AlreadyVoted)
    assert isinstance(engine.decide(pair, by="abe"), Decided)


def test_who_has_authority_of_their_own_speaks_for_themselves(engine: Engine, wait: Wait) -> None:
    given(engine, "ann", "abe")
    demand(wait, quorum=2)
    assert isinstance(engine.decide(wait, by="abe"), Voted)
    assert Vote.objects.get(wait=wait).voice == engine.person("abe").label
    assert isinstance(engine.decide(wait, by="ann"), Decided)


def test_of_two_givers_the_one_that_was_not_heard_yet_is_spoken_for(engine: Engine, wait: Wait) -> None:
    given(engine, "ann", "vera")
    given(engine, "abe", "vera")
    demand(wait, quorum=2)
    assert isinstance(engine.decide(wait, by="ann"), Voted)
    assert isinstance(engine.decide(wait, by="vera"), Decided)
    assert Vote.objects.latest("at").voice == engine.person("abe").label


def test_nobody_decides_through_another_what_they_started_themselves(engine: Engine, wait: Wait) -> None:
    Tenant.objects.filter(id=engine.tenant.id).update(self_approval=False)
    given(engine, "olga", "vera")
    assert isinstance(engine.decide(wait, by="vera"), SelfApproval)
    own = open_wait(engine.run(calls(("once", "b")), by="otto"))
    given(engine, "ann", "otto")
    assert isinstance(engine.decide(own, by="otto"), SelfApproval)
    assert isinstance(engine.decide(own, by="abe"), Decided)


def test_a_delegation_holds_from_its_start_to_its_end_and_not_after_it_was_taken_back(
    engine: Engine, wait: Wait
) -> None:
    assert isinstance(give(engine, "ann", "vera", after=1), Delegated)
    assert isinstance(engine.decide(wait, by="vera"), NotAllowed)
    now = given(engine, "ann", "vera")
    assert isinstance(delegation_end(actor=engine.person("abe"), delegation_id=now.id), NotAllowed)
    assert isinstance(delegation_end(actor=engine.person("vera"), delegation_id=now.id), Delegated)
    assert isinstance(engine.decide(wait, by="vera"), NotAllowed)
    assert isinstance(delegation_end(actor=engine.person("ann"), delegation_id=now.id), DelegationOver)


def test_a_delegation_gives_what_the_giver_may_at_that_moment_and_is_not_given_on(engine: Engine, wait: Wait) -> None:
    given(engine, "ann", "vera")
    assert isinstance(give(engine, "vera", "otto"), NotAllowed)
    demand(wait, required_group="funds")
    assert isinstance(engine.decide(wait, by="vera"), NotAllowed)
    Membership.objects.filter(user__username="ann-north").update(roles=["viewer"])
    try:
        demand(wait, required_group="")
        assert isinstance(engine.decide(wait, by="vera"), NotAllowed)
    finally:
        Membership.objects.filter(user__username="ann-north").update(roles=["approver"])
    assert isinstance(engine.decide(wait, by="vera"), Decided)


def test_an_approval_in_the_place_of_somebody_who_lost_the_role_is_void_before_dispatch(
    engine: Engine, wait: Wait
) -> None:
    given(engine, "ann", "vera")
    engine.decide(wait, by="vera")
    Membership.objects.filter(user__username="ann-north").update(roles=["viewer"])
    try:
        drive(wait.run_id)
    finally:
        Membership.objects.filter(user__username="ann-north").update(roles=["approver"])
    wait.refresh_from_db()
    assert (wait.status, SCRIPT.labels("once")) == ("INVALIDATED", [])


def test_a_delegation_begins_when_it_is_given_at_the_earliest(engine: Engine) -> None:
    outcome = give(engine, "ann", "vera", after=-5, hours=8)
    assert isinstance(outcome, Delegated)
    stored = Delegation.objects.get(id=outcome.delegation_id)
    assert abs(stored.starts_at - stored.given_at) < timedelta(seconds=30)


def test_who_stands_in_for_two_is_not_kept_from_deciding_by_what_one_of_them_started(engine: Engine) -> None:
    """The older delegation is that of who started the run, whose voice may not be heard."""
    Tenant.objects.filter(id=engine.tenant.id).update(self_approval=False)
    Membership.objects.filter(user__username="olga-north").update(roles=["operator", "approver"])
    given(engine, "olga", "vera")
    run_id = engine.run(calls(("once", "a")))
    wait = open_wait(run_id)
    assert isinstance(engine.decide(wait, by="vera"), SelfApproval)
    given(engine, "ann", "vera")
    assert isinstance(engine.decide(wait, by="vera"), Decided)
    assert Vote.objects.get(wait=wait).voice == engine.person("ann").label


def test_what_does_not_fit_is_no_delegation(engine: Engine) -> None:
    before = counts()
    assert isinstance(give(engine, "ann", "ann"), Invalid)
    assert isinstance(give(engine, "ann", "nobody"), NobodyThere)
    assert isinstance(give(engine, "ann", "vera", hours=-1), Invalid)
    assert isinstance(give(engine, "ann", "vera", hours=24 * 93), Invalid)
    assert isinstance(give(engine, "otto", "vera"), NotAllowed)
    assert added(before) == {"accounts_auditevent": 5}
    past = "INSERT INTO approvals_delegation (id, tenant_id, giver, taker, starts_at, ends_at, reason) VALUES "
    with pytest.raises(DatabaseError, match="delegation_to_another"), undone():
        sql(past + "(gen_random_uuid(), %s, 'a', 'a', now(), now() + interval '1 h', 'x')", engine.tenant.id)


# ── who looks ────────────────────────────────────────────────────────────────


def looked_at(wait: Wait) -> list[str]:
    rows = Assignment.objects.filter(wait=wait, ended_at=None).values_list("person", flat=True)
    return [label.partition(":")[2].partition("-")[0] for label in rows]


def test_a_wait_is_taken_once_given_back_and_given_to_somebody(engine: Engine, wait: Wait) -> None:
    ann, abe = engine.person("ann"), engine.person("abe")
    assert wait_claim(actor=ann, wait_id=wait.id) == Looked(wait.id, ann.label)
    taken = wait_claim(actor=abe, wait_id=wait.id)
    assert isinstance(taken, AlreadyTaken)
    assert ann.name in taken.sentence
    assert isinstance(wait_release(actor=abe, wait_id=wait.id), NotTaken)
    assert isinstance(wait_assign(actor=ann, wait_id=wait.id, person="vera-north", reason="please"), NobodyThere)
    assert isinstance(
        wait_assign(actor=engine.person("vera"), wait_id=wait.id, person=ann.name, reason="x"), NotAllowed
    )
    assert wait_assign(actor=ann, wait_id=wait.id, person=abe.name, reason="you know it") == Looked(wait.id, abe.label)
    assert looked_at(wait) == ["abe"]
    assert wait_release(actor=abe, wait_id=wait.id) == Looked(wait.id, None)
    assert looked_at(wait) == []
    assert Assignment.objects.filter(wait=wait).count() == 2


def test_whoever_looks_keeps_nobody_from_deciding(engine: Engine, wait: Wait) -> None:
    wait_claim(actor=engine.person("ann"), wait_id=wait.id)
    assert isinstance(engine.decide(wait, by="abe"), Decided)
    assert isinstance(wait_release(actor=engine.person("ann"), wait_id=wait.id), WaitClosed)


def test_of_many_who_take_a_wait_at_once_one_has_it(engine: Engine, wait: Wait) -> None:
    acts = [partial(wait_claim, actor=engine.person(by), wait_id=wait.id) for by in ("ann", "abe", "olga", "rolf") * 3]
    outcomes: list[Looked | Refused] = together(*acts)
    assert len([one for one in outcomes if isinstance(one, Looked)]) == 1
    assert len(looked_at(wait)) == 1


def test_the_acts_of_another_tenant_find_nothing(engine: Engine, wait: Wait) -> None:
    stranger = Engine(people("south")).person("ann")
    mine = given(engine, "ann", "vera")
    for act in (
        partial(wait_claim, actor=stranger, wait_id=wait.id),
        partial(wait_release, actor=stranger, wait_id=wait.id),
        partial(delegation_end, actor=stranger, delegation_id=mine.id),
    ):
        with pytest.raises(NotFound):
            act()


def test_a_wait_that_asks_for_somebody_else_says_so_to_an_approver(engine: Engine, wait: Wait) -> None:
    demand(wait, required_role="reconciler")
    refused = engine.decide(wait, by="ann")
    assert isinstance(refused, NotAsked)
    assert "the role reconciler" in refused.sentence
