"""What a decision leads to, and what makes an approval void before it is used."""

from dataclasses import replace
from uuid import UUID

import pytest
from django.db import transaction

from approvals.models import Decision, Wait
from approvals.selectors import waits_past_deadline
from approvals.services import wait_expire
from approvals.statements import PAST_DEADLINE
from runs.models import Refusal, Wakeup
from runtime.loop import drive
from runtime.tasks import sweep
from tests.agents import Told
from tests.engine.engine import (
    At,
    Engine,
    attempts_of,
    call_named,
    open_wait,
    pass_deadline,
    run_now,
    sql,
)
from tests.engine.governed import govern, rule
from tests.scripted import SCRIPT, calls

ROUNDS = 20


# ── what a decision leads to ─────────────────────────────────────────────────


def test_an_approved_call_is_dispatched_once_on_the_word_of_who_approved(engine: Engine, wait: Wait) -> None:
    engine.decide(wait)
    drive(wait.run_id)
    wait.refresh_from_db()
    call = call_named(wait.run_id, "a")
    assert (wait.status, call.status) == ("CONSUMED", "SUCCEEDED")
    assert attempts_of(call) == [(1, "OK", "person:ann-north")]
    wakeup = Wakeup.objects.get(wait_id=wait.id)
    assert (wakeup.status, wakeup.consumed_fence) == ("CONSUMED", call.tries.get().fence)
    assert run_now(wait.run_id).status == "COMPLETED"


def test_a_rejected_call_is_never_sent_and_the_model_is_told_why(engine: Engine, wait: Wait) -> None:
    engine.decide(wait, "REJECT", reason="not on a Friday")
    drive(wait.run_id)
    call = call_named(wait.run_id, "a")
    assert (call.status, call.attempts, SCRIPT.labels("once")) == ("REJECTED", 0, [])
    told = SCRIPT.requests[-1].history[-1]
    assert (told["role"], told["ok"]) == ("tool", False)
    assert "not on a Friday" in told["value"]["error"]


def test_waits_that_are_due_are_found_by_their_deadline_and_not_among_all_that_are_open(engine: Engine) -> None:
    with transaction.atomic():
        sql("SET LOCAL enable_seqscan = off")
        plan = "\n".join(line for (line,) in sql("EXPLAIN " + PAST_DEADLINE.replace("%(limit)s", "200")))
    assert "using wait_due" in plan
    assert "Index Cond: (deadline <= " in plan


def test_an_expired_wait_rejects_its_call_and_the_run_goes_on(engine: Engine, wait: Wait) -> None:
    assert not wait_expire(wait_id=wait.id)
    pass_deadline(wait)
    assert waits_past_deadline() == [(wait.id, wait.run_id)]
    sweep()
    sweep()
    wait.refresh_from_db()
    assert (wait.status, run_now(wait.run_id).status) == ("EXPIRED", "QUEUED")
    assert Wakeup.objects.get(wait_id=wait.id).cause == "TIMER"
    drive(wait.run_id)
    call = call_named(wait.run_id, "a")
    assert (call.status, call.attempts, run_now(wait.run_id).status) == ("REJECTED", 0, "COMPLETED")
    assert Wakeup.objects.get(wait_id=wait.id).status == "CONSUMED"
    assert "nobody decided in time" in SCRIPT.requests[-1].history[-1]["value"]["error"]


# ── what makes an approval void ──────────────────────────────────────────────


def assert_asked_again(run_id: UUID, wait: Wait, kind: str) -> Wait:
    """The approval is void, a refusal says why, nothing was sent, and a fresh wait asks again."""
    wait.refresh_from_db()
    assert wait.status == "INVALIDATED"
    assert Decision.objects.filter(wait=wait).exists()
    assert Wakeup.objects.get(wait_id=wait.id).status == "REFUSED"
    assert list(Refusal.objects.filter(run_id=run_id).values_list("kind", "subject_id")) == [(kind, wait.id)]
    assert SCRIPT.labels("once") == []
    assert run_now(run_id).status == "WAITING"
    fresh = open_wait(run_id)
    assert fresh.id != wait.id
    return fresh


def lapse(wait: Wait) -> None:
    sql("UPDATE approvals_wait SET valid_until = clock_timestamp() - interval '1 second' WHERE id = %s", wait.id)


def test_an_approval_that_was_not_used_in_time_is_asked_for_again(engine: Engine, wait: Wait) -> None:
    engine.decide(wait)
    lapse(wait)
    drive(wait.run_id)
    fresh = assert_asked_again(wait.run_id, wait, "AUTHORITY")
    engine.decide(fresh)
    drive(wait.run_id)
    assert (run_now(wait.run_id).status, SCRIPT.labels("once")) == ("COMPLETED", ["a"])


def test_an_approval_that_lapses_between_check_and_commit_is_not_used(engine: Engine, wait: Wait, at_point: At) -> None:
    engine.decide(wait)
    at_point("before_attempt_commit", lambda: lapse(wait))
    drive(wait.run_id)
    assert_asked_again(wait.run_id, wait, "AUTHORITY")


def test_an_approval_under_another_policy_is_asked_for_again(engine: Engine, wait: Wait) -> None:
    engine.decide(wait)
    govern(engine, rule("ask as before", "ask", tools=["once"]))
    drive(wait.run_id)
    assert_asked_again(wait.run_id, wait, "SUPERSEDED")


def test_a_run_whose_agent_was_changed_is_held_until_it_is_there_again(
    engine: Engine, wait: Wait, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.decide(wait)
    with monkeypatch.context() as patch:
        patch.setattr(Told, "spec", replace(Told.spec, instructions="Do something else."))
        drive(wait.run_id)
    run = run_now(wait.run_id)
    assert (run.status, run.hold_reason) == ("HELD", "RESUME_REFUSED")
    assert list(Refusal.objects.values_list("kind", flat=True)) == ["PIN_UNAVAILABLE"]
    assert (Wait.objects.get(id=wait.id).status, SCRIPT.labels("once")) == ("APPROVED", [])
    assert Wakeup.objects.get(wait_id=wait.id).status == "REFUSED"
    sweep()
    assert run_now(wait.run_id).status == "HELD"
    engine.resume(wait.run_id)
    drive(wait.run_id)
    assert (run_now(wait.run_id).status, SCRIPT.labels("once")) == ("COMPLETED", ["a"])


FLIPS = [
    "set_byte(args, 0, get_byte(args, 0) # 1)",
    "set_byte(args, 20, get_byte(args, 20) # 128)",
    "set_byte(args, length(args) - 1, get_byte(args, length(args) - 1) # 1)",
    "substr(args, 2)",
    "''::bytea",
    "(SELECT o.args FROM receipts_toolcall o WHERE o.run_id = receipts_toolcall.run_id AND o.step_name = 'look/b')",
]


@pytest.mark.parametrize("flip", FLIPS)
def test_arguments_changed_after_the_approval_dispatch_nothing_and_are_shown(engine: Engine, flip: str) -> None:
    run_id = engine.run(calls(("look", "b"), ("once", "a")))
    engine.approve(run_id)
    sql(f"UPDATE receipts_toolcall SET args = {flip} WHERE run_id = %s AND step_name = 'once/a'", run_id)
    for _ in range(2):
        drive(run_id)
        run = run_now(run_id)
        assert (run.status, run.hold_reason) == ("HELD", "RESUME_REFUSED")
        assert run.hold_detail.startswith("DIGEST_MISMATCH")
        assert SCRIPT.labels("once") == []
        assert call_named(run_id, "a").attempts == 0
        engine.resume(run_id)
    kinds = Refusal.objects.filter(run_id=run_id).values_list("kind", flat=True)
    assert set(kinds) == {"DIGEST_MISMATCH"}
    assert Wait.objects.get(run_id=run_id).status == "INVALIDATED"
