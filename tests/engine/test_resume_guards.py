"""The resume guards in their order, a case each: what refuses, what is recorded, what stays, and what can be done next.

Every case is a run whose call was approved. Its ground is spoiled as the guard means it, and a worker takes the run.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import transaction

from accounts.models import Membership
from approvals.models import Wait
from approvals.selectors import newest_waits
from checkpoints.models import SaveAttempt
from checkpoints.services import head_lock
from console.records.runs import RunDetail, run_with_parts
from receipts.models import Attempt
from runs.leases import lease_acquire
from runs.models import Refusal, Run
from runs.states import GUARD_OF
from runtime import guards
from runtime.contracts import Constraint
from runtime.ending import adopt
from runtime.heartbeat import Heartbeat
from runtime.loop import drive
from runtime.recovery import restore
from runtime.session import Session
from tests.agents import Bound
from tests.engine.engine import (
    At,
    Engine,
    Killed,
    call_named,
    expire_lease,
    kill,
    open_wait,
    phases,
    run_now,
    sql,
    sql_past_triggers,
)
from tests.engine.governed import govern, rule
from tests.engine.races import Aside
from tests.engine.test_commitments import refusals, withdraw
from tests.engine.test_envelope import change_note
from tests.engine.test_half_lives import age
from tests.scripted import SCRIPT, calls

Spoil = Callable[["Ground"], None]


@dataclass
class Ground:
    """An approved run, and what a case needs to take its ground away until the test is over."""

    engine: Engine
    run_id: UUID
    wait: Wait
    patch: pytest.MonkeyPatch
    kept: ExitStack

    def demote(self, name: str) -> None:
        """Take every role from a person, for the time of the test."""
        member = Membership.objects.get(tenant=self.engine.tenant, user__username=f"{name}-{self.engine.tenant.slug}")
        roles = member.roles
        self.kept.callback(lambda: Membership.objects.filter(id=member.id).update(roles=roles))
        Membership.objects.filter(id=member.id).update(roles=["viewer"])


@pytest.fixture
def ground(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ground]:
    SCRIPT.tell(calls(("look", "read"), ("watch", "seen")), calls(("once", "a")))
    run_id = engine.start("bound")
    drive(run_id)
    wait = open_wait(run_id)
    engine.decide(wait)
    with ExitStack() as kept:
        yield Ground(engine, run_id, wait, monkeypatch, kept)


# ── how each guard comes to fail ─────────────────────────────────────────────


def spend_takeovers(ground: Ground) -> None:
    sql("UPDATE runs_run SET takeovers = 99 WHERE id = %s", ground.run_id)


def lose_a_save(ground: Ground) -> None:
    """A save of unknown outcome, and another session that keeps the head locked."""
    run = run_now(ground.run_id)
    SaveAttempt.objects.create(
        save_id=uuid4(), tenant=run.tenant, run=run, trigger="CURSOR", expected_revision=1, fence=0, status="UNKNOWN"
    )
    ground.kept.enter_context(head_locked(ground.run_id))


@contextmanager
def head_locked(run_id: UUID) -> Iterator[None]:
    with transaction.atomic():
        head_lock(run_id)
        yield


def change_a_bit(ground: Ground) -> None:
    change_note(ground.run_id, "body = set_byte(body, 30, get_byte(body, 30) # 1)")


def purge_the_head(ground: Ground) -> None:
    change_note(ground.run_id, "body = NULL, purged_at = clock_timestamp()")


def raise_the_format(ground: Ground) -> None:
    change_note(ground.run_id, "format_version = 99")


def change_the_agent(ground: Ground) -> None:
    ground.patch.setattr(Bound, "spec", replace(Bound.spec, instructions="Do something else."))


def lose_a_result(ground: Ground) -> None:
    sql_past_triggers("DELETE FROM receipts_result WHERE tool_call_id = %s", call_named(ground.run_id, "read").id)


def change_the_policy(ground: Ground) -> None:
    govern(ground.engine, rule("ask as before", "ask", effects=["NON_IDEMPOTENT"]))


def demote_the_starter(ground: Ground) -> None:
    ground.demote("olga")


def demote_the_approver(ground: Ground) -> None:
    ground.demote("ann")


def let_the_approval_lapse(ground: Ground) -> None:
    sql("UPDATE approvals_wait SET valid_until = clock_timestamp() - interval '1 second' WHERE id = %s", ground.wait.id)


def withdraw_a_constraint(ground: Ground) -> None:
    withdraw(ground.engine, ground.run_id)


def let_the_facts_lapse(ground: Ground) -> None:
    age(call_named(ground.run_id, "seen"))


def redeclare(ground: Ground) -> None:
    ground.patch.setattr(Bound, "spec", replace(Bound.spec, constraints=(Constraint("Be brief."),)))


@dataclass(frozen=True)
class Case:
    """A guard that fails, what its refusal is, and how run and wait stand afterwards."""

    guard: int
    spoil: Spoil
    kind: str
    status: str
    hold_reason: str | None
    wait: str
    wakeups: tuple[str, ...]
    next_acts: tuple[str, ...] = ("resume", "stop", "settle")


_HELD = ("HELD", "RESUME_REFUSED")
_AFRESH = ("WAITING", None, "INVALIDATED", ("REFUSED",), ("decide", "pause", "stop", "settle"))
CASES = {
    "1 takeovers": Case(1, spend_takeovers, "TAKEOVER_LIMIT", "HELD", "TAKEOVER_LIMIT", "APPROVED", ("PENDING",)),
    "4 save": Case(4, lose_a_save, "SAVE_UNKNOWN", "HELD", "SAVE_UNKNOWN", "APPROVED", ("PENDING",)),
    "5 body": Case(5, purge_the_head, "PURGED", *_HELD, "APPROVED", ("REFUSED",)),
    "5 identity": Case(5, change_a_bit, "DIGEST_MISMATCH", *_HELD, "APPROVED", ("REFUSED",)),
    "6 format": Case(6, raise_the_format, "SCHEMA", *_HELD, "APPROVED", ("REFUSED",)),
    "7 pins": Case(7, change_the_agent, "PIN_UNAVAILABLE", *_HELD, "APPROVED", ("REFUSED",)),
    "8 references": Case(8, lose_a_result, "MISSING_REF", *_HELD, "APPROVED", ("REFUSED",)),
    "9 binding": Case(9, change_the_policy, "SUPERSEDED", *_AFRESH),
    "10 principal": Case(10, demote_the_starter, "AUTHORITY", *_HELD, "INVALIDATED", ("REFUSED",)),
    "10 approver": Case(10, demote_the_approver, "AUTHORITY", *_AFRESH),
    "10 validity": Case(10, let_the_approval_lapse, "AUTHORITY", *_AFRESH),
    "11 withdrawn": Case(11, withdraw_a_constraint, "WITHDRAWN", *_HELD, "INVALIDATED", ("REFUSED", "REFUSED")),
    "12 staleness": Case(12, let_the_facts_lapse, "STALE_FACTS", "COMPLETED", None, "INVALIDATED", ("REFUSED",), ()),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_guard_that_fails_refuses_under_its_own_kind_and_nothing_is_sent(ground: Ground, case: Case) -> None:
    """T20, T25, X07, F19, C-024, C-027, C-029, C-033, C-038."""
    sent, saved = len(SCRIPT.sent), phases(ground.run_id)
    case.spoil(ground)
    Aside(lambda: drive(ground.run_id)).result()
    run = run_now(ground.run_id)
    assert (run.status, run.hold_reason) == (case.status, case.hold_reason)
    assert refusals(ground.run_id) == [case.kind]
    refusal = Refusal.objects.get(run=run)
    assert (refusal.fence, refusal.tenant_id) == (2, run.tenant_id)
    ground.wait.refresh_from_db()
    assert (ground.wait.status, ground.wait.decision.verdict) == (case.wait, "APPROVE")
    assert tuple(run.wakeups.order_by("created_at").values_list("status", flat=True)) == case.wakeups
    assert (len(SCRIPT.sent), SCRIPT.labels("once")) == (sent, [])
    assert not Attempt.objects.filter(tool_call=ground.wait.tool_call).exists()
    if case.status != "COMPLETED":
        assert phases(ground.run_id) == saved
        assert run.lease.owner is None
    told = detail(ground.run_id)
    assert tuple(told["next_acts"]) == case.next_acts
    held_by = told["held_by"]
    assert (held_by and (held_by["guard"], held_by["kind"])) == ((case.guard, case.kind) if run.hold_reason else None)


def detail(run_id: UUID) -> dict[str, Any]:
    """The run as the doors show it."""
    shown: dict[str, Any] = RunDetail(run_with_parts(Run.objects.get(id=run_id))).data
    return shown


@pytest.mark.parametrize(
    "case", [case for case in CASES.values() if case.guard >= 9], ids=lambda case: case.spoil.__name__
)
def test_a_guard_says_by_itself_why_it_fails(ground: Ground, case: Case) -> None:
    """Asked directly, under the lease, as the consuming commit asks it."""
    holding = lease_acquire(run_id=ground.run_id, owner="w1")
    assert holding is not None
    session = restore(holding, Heartbeat(holding, lambda: adopt(holding)))
    assert session is not None
    call = call_named(ground.run_id, "a")
    wait = newest_waits(call_ids=[call.id])[call.id]
    assert _approval(session, call, wait) is None
    case.spoil(ground)
    failed = _approval(session, call, wait)
    assert failed is not None
    assert (failed.kind, failed.holds, bool(failed.why)) == (case.kind, case.status == "HELD", True)


def _approval(session: Session, call: Any, wait: Any) -> guards.Failed | None:
    with transaction.atomic():
        return guards.approval(session, guards.kept(session, [wait.id]), call, wait)


# ── those that hold without an approval in hand ──────────────────────────────


def test_2_a_stop_is_adopted_before_any_other_guard_is_asked(ground: Ground) -> None:
    """Ruling 12: it ends the run, however spoiled its ground is."""
    assert lease_acquire(run_id=ground.run_id, owner="w1") is not None
    expire_lease(ground.run_id)
    change_a_bit(ground)
    ground.engine.stop(ground.run_id)
    drive(ground.run_id)
    ground.wait.refresh_from_db()
    assert (run_now(ground.run_id).status, ground.wait.status, SCRIPT.labels("once")) == ("CANCELLED", "CANCELLED", [])


def test_3_an_unknown_call_holds_the_run_until_somebody_says_what_happened(ground: Ground, at_point: At) -> None:
    at_point("after_tool@once", kill)
    with pytest.raises(Killed):
        drive(ground.run_id)
    expire_lease(ground.run_id)
    drive(ground.run_id)
    run = run_now(ground.run_id)
    assert (run.status, run.hold_reason, SCRIPT.labels("once")) == ("HELD", "UNCERTAIN_CALL", ["a"])
    assert refusals(ground.run_id) == ["UNCERTAIN_CALL"]
    assert detail(ground.run_id)["next_acts"] == ["reconcile", "stop", "settle"]


def test_13_another_registration_is_recorded_and_the_run_goes_on_as_it_accepted(ground: Ground) -> None:
    redeclare(ground)
    drive(ground.run_id)
    assert (run_now(ground.run_id).status, refusals(ground.run_id)) == ("COMPLETED", ["CONFIG_DRIFT"])
    assert SCRIPT.labels("once") == ["a"]


def test_14_where_every_guard_holds_the_wait_is_consumed_and_the_call_sent(ground: Ground) -> None:
    drive(ground.run_id)
    ground.wait.refresh_from_db()
    wakeup = run_now(ground.run_id).wakeups.get()
    assert (ground.wait.status, wakeup.status, wakeup.consumed_fence) == ("CONSUMED", "CONSUMED", 2)
    assert (run_now(ground.run_id).status, SCRIPT.labels("once"), refusals(ground.run_id)) == ("COMPLETED", ["a"], [])


# ── the order ────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(*pair, id=f"{pair[0].spoil.__name__}, {pair[1].spoil.__name__}")
        for pair in pairwise(CASES.values())
    ],
)
def test_of_two_guards_that_fail_the_earlier_one_speaks(ground: Ground, first: Case, second: Case) -> None:
    """The later one is spoiled first, so that the order is that of the guards and of nothing else. What keeps a lock comes
    last.
    """
    for case in sorted((second, first), key=lambda case: case.spoil is lose_a_save):
        case.spoil(ground)
    Aside(lambda: drive(ground.run_id)).result()
    assert refusals(ground.run_id)[0] == first.kind
    assert SCRIPT.labels("once") == []
    if first.status == "HELD":
        assert refusals(ground.run_id) == [first.kind]


def test_every_guard_that_can_hold_a_run_has_a_case() -> None:
    asked = {(case.guard, case.kind) for case in CASES.values()} | {(3, "UNCERTAIN_CALL"), (13, "CONFIG_DRIFT")}
    assert {(guard, kind) for kind, guard in GUARD_OF.items()} == asked
