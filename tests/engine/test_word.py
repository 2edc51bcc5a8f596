"""Guard 10 of another try: who had a call sent may still decide when it is sent again, or it is asked anew."""

from collections.abc import Callable, Iterator
from uuid import UUID

import pytest

from accounts.models import Membership
from approvals.models import Wait
from runs.models import Refusal
from runtime import guards
from runtime.contracts import ToolOutcome, ToolRetryable, ToolUnknown
from runtime.loop import drive
from tests.engine.engine import Engine, attempts_of, call_named, open_wait, pass_retry, run_now, sql
from tests.engine.lost import lose_answer
from tests.scenarios.invariants import broken_invariants
from tests.scripted import SCRIPT, calls, went_well

LONG = 50.0  # longer than a worker waits itself
Demote = Callable[[str], None]


@pytest.fixture
def demote(engine: Engine) -> Iterator[Demote]:
    """Take every role from a person, for the time of the test."""
    taken: list[tuple[int, list[str]]] = []

    def demote(name: str) -> None:
        member = Membership.objects.get(tenant=engine.tenant, user__username=f"{name}-{engine.tenant.slug}")
        taken.append((member.id, member.roles))
        Membership.objects.filter(id=member.id).update(roles=["viewer"])

    yield demote
    for id, roles in taken:
        Membership.objects.filter(id=id).update(roles=roles)


@pytest.fixture
def leave(engine: Engine, demote: Demote) -> Iterator[Demote]:
    """Let a person leave the tenant for another one."""
    left: list[Membership] = []

    def leave(name: str) -> None:
        member = Membership.objects.get(tenant=engine.tenant, user__username=f"{name}-{engine.tenant.slug}")
        left.append(member)
        sql("DELETE FROM accounts_membership WHERE id = %s", member.id)

    yield leave
    for member in left:
        member.save(force_insert=True)


def told_not_now(engine: Engine, tool: str = "once") -> UUID:
    """An approved call that was answered “not now”; its run is queued until its next try is due."""
    SCRIPT.do("a", ToolRetryable("busy", retry_after=LONG), went_well("a"))
    run_id = engine.run(calls((tool, "a")), calls((tool, "a")))
    engine.approve(run_id)
    drive(run_id)
    assert run_now(run_id).status == "QUEUED"
    return run_id


def go_on(run_id: UUID) -> None:
    pass_retry(run_id)
    drive(run_id)


def refusals(run_id: UUID) -> list[tuple[str, UUID | None, str]]:
    rows = Refusal.objects.filter(run_id=run_id).exclude(kind="UNCERTAIN_CALL").order_by("id")
    return [(row.kind, row.subject_id, row.detail["why"]) for row in rows]


def test_an_approver_who_still_may_decide_is_enough_for_the_next_try(engine: Engine) -> None:
    run_id = told_not_now(engine)
    go_on(run_id)
    assert (run_now(run_id).status, SCRIPT.labels("once"), refusals(run_id)) == ("COMPLETED", ["a", "a"], [])


@pytest.mark.parametrize("tool", ["once", "again", "asked", "post"])
def test_a_call_whose_approver_lost_the_role_is_not_sent_again_and_is_asked_anew(
    engine: Engine, demote: Demote, tool: str
) -> None:
    run_id = told_not_now(engine, tool)
    first, used = call_named(run_id, "a"), Wait.objects.get(run_id=run_id)
    demote("ann")
    go_on(run_id)
    first.refresh_from_db()
    why = "ann-north, who approved it, may not decide here any more"
    assert (first.status, first.error, SCRIPT.labels(tool)) == ("FAILED", why, ["a"])
    assert refusals(run_id) == [("AUTHORITY", used.id, why)]
    assert SCRIPT.requests[-1].history[-1]["value"] == {"error": why}
    second = open_wait(run_id)
    assert (second.tool_call_id != first.id, run_now(run_id).status) == (True, "WAITING")
    engine.decide(second, by="abe")
    SCRIPT.do("a", went_well("a"))
    drive(run_id)
    assert (run_now(run_id).status, SCRIPT.labels(tool)) == ("COMPLETED", ["a", "a"])
    assert broken_invariants() == {}


def test_so_it_is_where_the_approver_has_left_the_tenant(engine: Engine, leave: Demote) -> None:
    run_id = told_not_now(engine)
    leave("ann")
    go_on(run_id)
    assert [kind for kind, _, _ in refusals(run_id)] == ["AUTHORITY"]
    assert (run_now(run_id).status, SCRIPT.labels("once")) == ("WAITING", ["a"])


def test_so_it_is_where_the_approval_has_lapsed(engine: Engine) -> None:
    """Ruling 36."""
    run_id = told_not_now(engine)
    sql("UPDATE approvals_wait SET valid_until = clock_timestamp() WHERE run_id = %s", run_id)
    go_on(run_id)
    assert refusals(run_id)[0][2] == "the approval lapsed before the next try"
    assert (run_now(run_id).status, SCRIPT.labels("once")) == ("WAITING", ["a"])


def test_a_call_that_policy_asked_nobody_about_needs_nobody(engine: Engine, demote: Demote) -> None:
    SCRIPT.do("a", ToolRetryable("busy", retry_after=LONG), went_well("a"))
    run_id = engine.run(calls(("look", "a")))
    demote("ann")
    go_on(run_id)
    assert run_now(run_id).status == "COMPLETED"


def test_who_had_a_call_sent_again_may_still_decide_when_that_is_done(engine: Engine, demote: Demote) -> None:
    """The verdict stands, it did not happen; the word to send it again does not."""
    call = lose_answer(engine)
    engine.reconcile(call, "NOT_EXECUTED", "RETRY")
    demote("rolf")
    drive(call.run_id)
    call.refresh_from_db()
    why = "rolf-north, who had it sent again, may not decide here any more"
    assert (call.status, call.error, SCRIPT.labels("post")) == ("FAILED", why, ["a"])
    assert refusals(call.run_id) == [("AUTHORITY", call.id, why)]
    assert broken_invariants() == {}


def test_the_word_of_a_reconciler_stands_without_the_first_approver(engine: Engine, demote: Demote) -> None:
    call = lose_answer(engine)
    engine.reconcile(call, "NOT_EXECUTED", "RETRY")
    demote("ann")
    drive(call.run_id)
    assert (run_now(call.run_id).status, SCRIPT.labels("post")) == ("COMPLETED", ["a", "a"])


def test_a_call_of_unknown_outcome_is_not_sent_again_on_a_word_that_does_not_stand(
    engine: Engine, demote: Demote
) -> None:
    """It may have happened, so it does not fail: a person looks."""
    SCRIPT.do("a", lambda _: _lost_meanwhile(demote), went_well("a"))
    run_id = engine.run(calls(("again", "a")))
    engine.approve(run_id)
    drive(run_id)
    run = run_now(run_id)
    assert (run.status, run.hold_reason, SCRIPT.labels("again")) == ("HELD", "UNCERTAIN_CALL", ["a"])
    assert "It is not sent again: ann-north, who approved it" in run.hold_detail
    engine.reconcile(call_named(run_id, "a"), "NOT_EXECUTED", "RETRY")
    drive(run_id)
    assert (run_now(run_id).status, SCRIPT.labels("again")) == ("COMPLETED", ["a", "a"])


def _lost_meanwhile(demote: Demote) -> ToolOutcome:
    demote("ann")
    raise ToolUnknown("no answer")


def test_a_retry_with_an_earlier_try_in_doubt_is_left_to_a_person(engine: Engine, demote: Demote) -> None:
    """Attempt 1 gave no answer, attempt 2 was answered “not now”: FAILED would say that it did not happen."""
    SCRIPT.do("a", ToolUnknown("no answer"), ToolRetryable("busy", retry_after=LONG))
    run_id = engine.run(calls(("again", "a")))
    engine.approve(run_id)
    drive(run_id)
    assert run_now(run_id).status == "QUEUED"
    demote("ann")
    go_on(run_id)
    call, run = call_named(run_id, "a"), run_now(run_id)
    assert (call.status, run.status, run.hold_reason) == ("UNCERTAIN", "HELD", "UNCERTAIN_CALL")
    assert [outcome for _, outcome, _ in attempts_of(call)] == ["NO_RESPONSE", "ERROR_RETRYABLE"]


def test_a_role_that_is_lost_between_the_look_and_the_dispatch_is_noticed_in_its_commit(
    engine: Engine, demote: Demote, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = told_not_now(engine)
    asked: list[str | None] = []

    def lose_after_the_first(call: object) -> guards.Failed | None:
        failed = word(call)
        asked.append(failed.why if failed is not None else None)
        if len(asked) == 1:
            demote("ann")
        return failed

    word = guards.word
    monkeypatch.setattr(guards, "word", lose_after_the_first)
    go_on(run_id)
    assert asked[0] is None and asked[1] is not None
    assert (call_named(run_id, "a").attempts, SCRIPT.labels("once")) == (0, ["a"])
    assert run_now(run_id).status == "WAITING"
