"""Who looks at a wait goes on looking where the call is asked about anew; those whom it concerns are told."""

from collections.abc import Callable, Iterator
from functools import partial
from ipaddress import ip_network

import pytest
from django.db import DatabaseError
from django.test import override_settings

from accounts.models import Notice
from accounts.services import member_set
from accounts.states import NoticeKind, Role
from approvals.models import Assignment, Wait
from approvals.selectors import waits_visible, waits_whose
from approvals.services import Looked, delegation_end, wait_assign, wait_claim, wait_release
from approvals.states import Whose
from runtime.loop import drive
from runtime.notices import notices_deliver
from tests.engine.engine import Engine, open_wait, sql
from tests.engine.races import together
from tests.engine.test_notices import listening
from tests.engine.test_standing_in import given, looked_at
from tests.receiver import Receiver, receiver
from tests.scripted import calls


@pytest.fixture
def hook() -> Iterator[Receiver]:
    with receiver() as got, override_settings(NOTICE_NETWORKS=[ip_network("127.0.0.1/32")], NOTICE_SECONDS=5.0):
        yield got


def assign(engine: Engine, wait: Wait, by: str = "ann", to: str = "abe") -> None:
    person = engine.person(to)
    given = wait_assign(actor=engine.person(by), wait_id=wait.id, person=person.name, reason="you know it")
    assert given == Looked(wait.id, person.label)


def asked_anew(engine: Engine, wait: Wait) -> Wait:
    """The wait in the place of this one, once the goal was revised."""
    engine.revise(wait.run_id, f"something else than revision {wait.checkpoint_revision}")
    drive(wait.run_id)
    fresh = open_wait(wait.run_id)
    assert fresh.id != wait.id and fresh.tool_call_id == wait.tool_call_id
    return fresh


def roles_of(engine: Engine, name: str, role: Role) -> None:
    member_set(tenant=engine.tenant, username=name, password=None, roles=frozenset({role}))


def told() -> list[tuple[str, str]]:
    rows = Notice.objects.order_by("created_at", "id").values_list("kind", "endpoint__membership__user__username")
    return [(kind, name.partition("-")[0]) for kind, name in rows]


# ── carried on ───────────────────────────────────────────────────────────────


def test_an_assignment_goes_on_to_the_wait_in_the_place_of_the_one_assigned(engine: Engine, wait: Wait) -> None:
    assign(engine, wait)
    before = Assignment.objects.get(wait=wait)
    after = Assignment.objects.get(wait=asked_anew(engine, wait))
    assert (after.person, after.assigned_by, after.reason) == (before.person, before.assigned_by, "you know it")
    assert after.carried_from_id == before.id


def test_a_claim_goes_on_as_often_as_it_is_asked_about_anew(engine: Engine, wait: Wait) -> None:
    wait_claim(actor=engine.person("ann"), wait_id=wait.id)
    second = asked_anew(engine, wait)
    third = asked_anew(engine, second)
    assert looked_at(second) == looked_at(third) == ["ann"]


def test_what_was_given_back_is_not_carried(engine: Engine, wait: Wait) -> None:
    wait_claim(actor=engine.person("ann"), wait_id=wait.id)
    wait_release(actor=engine.person("ann"), wait_id=wait.id)
    assert looked_at(asked_anew(engine, wait)) == []


def test_who_may_not_decide_any_more_does_not_look_on(engine: Engine, wait: Wait) -> None:
    assign(engine, wait)
    name = engine.person("abe").name
    roles_of(engine, name, Role.VIEWER)
    try:
        assert looked_at(asked_anew(engine, wait)) == []
    finally:
        roles_of(engine, name, Role.APPROVER)


def test_who_decides_for_another_one_looks_on_while_they_do(engine: Engine, wait: Wait) -> None:
    lent = given(engine, "ann", "vera")
    wait_claim(actor=engine.person("vera"), wait_id=wait.id)
    second = asked_anew(engine, wait)
    assert looked_at(second) == ["vera"]
    delegation_end(actor=engine.person("ann"), delegation_id=lent.id)
    assert looked_at(asked_anew(engine, second)) == []


def test_another_call_takes_nothing_over(engine: Engine, wait: Wait) -> None:
    wait_claim(actor=engine.person("ann"), wait_id=wait.id)
    assert looked_at(open_wait(engine.run(calls(("once", "b"))))) == []


def test_where_an_assignment_comes_from_never_changes(engine: Engine, wait: Wait) -> None:
    assign(engine, wait)
    fresh = asked_anew(engine, wait)
    with pytest.raises(DatabaseError, match="Cannot update rows"):
        sql("UPDATE approvals_assignment SET carried_from_id = NULL WHERE wait_id = %s", fresh.id)


def test_an_assignment_against_a_revised_goal_is_carried_or_refused(engine: Engine, wait: Wait) -> None:
    for number in range(4):
        person = engine.person("abe").name
        give = partial(wait_assign, actor=engine.person("ann"), wait_id=wait.id, person=person, reason="x")
        acts: list[Callable[[], object]] = [give, partial(engine.revise, wait.run_id, f"goal {number}")]
        together(*acts)
        had = looked_at(wait)
        drive(wait.run_id)
        wait = open_wait(wait.run_id)
        assert looked_at(wait) == had


# ── told ─────────────────────────────────────────────────────────────────────


def test_an_assignment_is_told_to_whom_it_was_given(engine: Engine, hook: Receiver, wait: Wait) -> None:
    for name in ("abe", "rolf"):
        listening(engine, hook, NoticeKind.ASSIGNED, by=name, whole_tenant=False)
    assign(engine, wait)
    assert told() == [("ASSIGNED", "abe")]
    notices_deliver()
    ann, abe = engine.person("ann").name, engine.person("abe").name
    assert hook.bodies[0]["text"].startswith(f"{ann} gave a call of once to {abe} to look at.")
    assert hook.bodies[0]["link"].endswith(f"/waits/{wait.id}/")


def test_the_tenant_hears_of_an_assignment_and_who_takes_something_does_not(
    engine: Engine, hook: Receiver, wait: Wait
) -> None:
    listening(engine, hook, NoticeKind.ASSIGNED, by="ann", whole_tenant=False)
    wait_claim(actor=engine.person("ann"), wait_id=wait.id)
    assert told() == []
    listening(engine, hook, NoticeKind.ASSIGNED)
    assign(engine, wait, to="rolf")
    assert Notice.objects.get().endpoint.membership is None


def test_an_assignment_that_was_taken_back_is_not_told(engine: Engine, hook: Receiver, wait: Wait) -> None:
    listening(engine, hook, NoticeKind.ASSIGNED, by="abe", whole_tenant=False)
    assign(engine, wait)
    assign(engine, wait, to="rolf")
    notices_deliver()
    assert hook.bodies == [] and Notice.objects.get().status == "SKIPPED"


def test_who_looked_is_told_that_it_is_asked_anew(engine: Engine, hook: Receiver, wait: Wait) -> None:
    listening(engine, hook, NoticeKind.ASSIGNED, by="ann", whole_tenant=False)
    wait_claim(actor=engine.person("ann"), wait_id=wait.id)
    fresh = asked_anew(engine, wait)
    notices_deliver()
    (body,) = hook.bodies
    assert body["subject_id"] == str(fresh.id)
    assert body["text"].startswith(f"A call of once that {engine.person('ann').name} looks at is asked about anew.")


def test_what_is_given_back_is_told_to_the_others_whom_it_asks(engine: Engine, hook: Receiver, wait: Wait) -> None:
    for name in ("ann", "abe", "vera"):
        listening(engine, hook, NoticeKind.RELEASED, by=name, whole_tenant=False)
    wait_claim(actor=engine.person("ann"), wait_id=wait.id)
    wait_release(actor=engine.person("ann"), wait_id=wait.id)
    notices_deliver()
    statuses = dict(Notice.objects.values_list("endpoint__membership__user__username", "status"))
    assert statuses == {engine.person("abe").name: "SENT", engine.person("vera").name: "SKIPPED"}


def test_who_decides_for_another_one_is_told_unless_it_was_taken_back(engine: Engine, hook: Receiver) -> None:
    listening(engine, hook, NoticeKind.DELEGATED, by="vera", whole_tenant=False)
    given(engine, "ann", "vera")
    over = given(engine, "rolf", "vera")
    delegation_end(actor=engine.person("vera"), delegation_id=over.id)
    notices_deliver()
    (body,) = hook.bodies
    assert body["text"].startswith(f"{engine.person('ann').name} has {engine.person('vera').name} decide with their")
    assert body["link"].endswith("/delegations/")


# ── mine, and nobody's ───────────────────────────────────────────────────────


def whose(engine: Engine, name: str, which: Whose) -> set[Wait]:
    actor = engine.person(name)
    return set(waits_whose(waits_visible(actor), actor=actor, whose=which))


def test_mine_is_what_i_look_at_and_those_for_whom_i_decide_now(engine: Engine, wait: Wait) -> None:
    other = open_wait(engine.run(calls(("once", "b"))))
    wait_claim(actor=engine.person("ann"), wait_id=wait.id)
    assert whose(engine, "ann", Whose.MINE) == {wait} and whose(engine, "abe", Whose.MINE) == set()
    assert whose(engine, "abe", Whose.UNCLAIMED) == {other} and whose(engine, "abe", Whose.ALL) == {wait, other}
    lent = given(engine, "ann", "abe")
    assert whose(engine, "abe", Whose.MINE) == {wait}
    delegation_end(actor=engine.person("ann"), delegation_id=lent.id)
    assert whose(engine, "abe", Whose.MINE) == set()
    wait_release(actor=engine.person("ann"), wait_id=wait.id)
    assert whose(engine, "ann", Whose.UNCLAIMED) == {wait, other}
