"""What does not move is told: each hold, and what nobody is asked about. Once for as long as it is the same thing."""

from collections.abc import Iterator
from datetime import timedelta
from ipaddress import ip_network

import pytest
from django.db import transaction
from django.test import override_settings

from accounts.models import Notice
from accounts.states import NoticeKind, Subject
from approvals.models import Wait
from approvals.services import wait_expire, wait_looked
from runs.selectors import database_now
from runs.services import run_lock, run_move
from runs.states import HoldReason, RunStatus
from runtime.loop import drive
from runtime.notices import notices_deliver
from runtime.sentences import HOLD, path_of, sentence
from runtime.services import run_pause
from runtime.stuck import Cause, stuck_tell
from runtime.sweep import sweep_all
from tests.engine.engine import Engine, demand, open_wait, pass_deadline, sql, sql_past_triggers
from tests.engine.lost import lose_answer
from tests.engine.scoped import pause
from tests.engine.test_notices import listening
from tests.receiver import Receiver, receiver
from tests.scripted import calls


@pytest.fixture
def hook(engine: Engine) -> Iterator[Receiver]:
    with (
        receiver() as got,
        override_settings(NOTICE_NETWORKS=[ip_network("127.0.0.1/32")], NOTICE_SECONDS=5.0, NOTICE_STUCK_SECONDS=60.0),
    ):
        yield got


def told() -> list[tuple[str, str]]:
    return list(Notice.objects.order_by("created_at", "id").values_list("kind", "subject"))


# ── held ─────────────────────────────────────────────────────────────────────


def test_every_hold_has_words() -> None:
    assert set(HOLD) == set(HoldReason)


@pytest.mark.parametrize("reason", [reason for reason in HoldReason if reason != HoldReason.PAUSED])
def test_every_hold_is_told_once(engine: Engine, hook: Receiver, reason: HoldReason) -> None:
    listening(engine, hook)
    run_id = engine.start()
    with transaction.atomic():
        run_move(run_lock(run_id), RunStatus.HELD, cause=str(reason), actor="test", hold_reason=reason)
    notices_deliver()
    (body,) = hook.bodies
    assert body["kind"] in {"UNKNOWN_CALL", "HELD", "STUCK"}
    assert reason == HoldReason.UNCERTAIN_CALL or HOLD[reason] in body["text"]


def test_a_pause_is_told_to_all_but_who_paused(engine: Engine, hook: Receiver) -> None:
    mine = listening(engine, hook, NoticeKind.HELD, by="otto", whole_tenant=False)
    others = listening(engine, hook, NoticeKind.HELD, by="ann", whole_tenant=False)
    run_id = engine.start()
    run_pause(actor=engine.person("otto"), run_id=run_id, reason="lunch")
    assert [row.endpoint_id for row in Notice.objects.all()] == [others] != [mine]
    notices_deliver()
    assert hook.bodies[0]["text"].startswith("A run is held: somebody paused it.")


def test_a_pause_of_a_scope_is_not_told_run_by_run(engine: Engine, hook: Receiver) -> None:
    listening(engine, hook)
    engine.start()
    pause(engine)
    sweep_all()
    assert told() == []


def test_the_notice_of_an_unknown_call_leads_to_the_call(engine: Engine, hook: Receiver) -> None:
    listening(engine, hook, NoticeKind.UNKNOWN_CALL)
    call = lose_answer(engine)
    notices_deliver()
    (body,) = hook.bodies
    assert (body["subject"], body["subject_id"]) == (Subject.CALL, str(call.id))
    assert body["link"].endswith(f"/calls/{call.id}/")


def test_an_unknown_call_about_which_a_person_has_said_something_is_not_told(engine: Engine, hook: Receiver) -> None:
    listening(engine, hook, NoticeKind.UNKNOWN_CALL)
    call = lose_answer(engine)
    engine.reconcile(call, "EXECUTED", external_ref="there")
    drive(call.run_id)
    notices_deliver()
    assert hook.bodies == [] and Notice.objects.get().status == "SKIPPED"


# ── nobody takes it ──────────────────────────────────────────────────────────


def long_ago(run_id: object) -> None:
    """Let everything that this run did be hours ago."""
    sql_past_triggers("UPDATE runs_runtransition SET at = at - interval '3 hours' WHERE run_id = %s", run_id)


def test_runs_that_no_worker_takes_are_told_once_for_the_tenant(engine: Engine, hook: Receiver) -> None:
    listening(engine, hook, NoticeKind.STUCK)
    first = engine.start()
    assert stuck_tell() == 0
    long_ago(first)
    assert stuck_tell() == 1
    engine.start()
    assert stuck_tell() == stuck_tell() == 0
    assert told() == [("STUCK", "tenant")]
    notices_deliver()
    assert "1 queued, the oldest since" in hook.bodies[0]["text"]
    assert path_of(hook.bodies[0]["subject"], engine.tenant.id) == "/"


def test_runs_that_were_taken_meanwhile_are_not_told(engine: Engine, hook: Receiver) -> None:
    listening(engine, hook, NoticeKind.STUCK)
    run_id = engine.start()
    long_ago(run_id)
    stuck_tell()
    engine.stop(run_id)
    notices_deliver()
    assert hook.bodies == [] and Notice.objects.get().status == "SKIPPED"


def test_a_run_that_is_to_wait_before_its_next_try_is_not_stuck(engine: Engine, hook: Receiver) -> None:
    listening(engine, hook, NoticeKind.STUCK)
    run_id = engine.start()
    long_ago(run_id)
    sql("UPDATE runs_run SET due_at = clock_timestamp() + interval '1 hour' WHERE id = %s", run_id)
    assert stuck_tell() == 0


def test_a_holder_that_fell_silent_is_told_once_a_lease(engine: Engine, hook: Receiver) -> None:
    listening(engine, hook, NoticeKind.STUCK)
    run_id = engine.start()
    with transaction.atomic():
        run_move(run_lock(run_id), RunStatus.RUNNING, cause="TAKEN", actor="test")
    lease = "UPDATE runs_lease SET owner = 'worker:gone', fence = fence + 1, expires_at = %s WHERE run_id = %s"
    sql(lease, database_now() - timedelta(minutes=5), run_id)
    assert (stuck_tell(), stuck_tell()) == (1, 0)
    notices_deliver()
    assert "its worker fell silent" in hook.bodies[0]["text"]


def test_a_run_on_which_the_sweep_fails_again_and_again_is_told_once(engine: Engine, hook: Receiver) -> None:
    listening(engine, hook, NoticeKind.STUCK)
    run_id = engine.start()
    failure = "INSERT INTO runs_sweepfailure (run_id, step, error, times) VALUES (%s, 'expire', 'secret words', %s)"
    sql(failure, run_id, 2)
    assert stuck_tell() == 0
    sql("UPDATE runs_sweepfailure SET times = 3")
    assert (stuck_tell(), stuck_tell()) == (1, 0)
    notices_deliver()
    assert "“expire”" in hook.bodies[0]["text"] and "secret" not in hook.bodies[0]["text"]


# ── deadlines ────────────────────────────────────────────────────────────────


def test_a_deadline_that_nobody_looks_at_is_told(engine: Engine, hook: Receiver) -> None:
    listening(engine, hook, NoticeKind.STUCK)
    wait = open_wait(engine.run(calls(("once", "a"))))
    sql("UPDATE approvals_wait SET deadline = clock_timestamp() - interval '5 minutes' WHERE id = %s", wait.id)
    assert (stuck_tell(), stuck_tell()) == (1, 0)
    notices_deliver()
    assert "Deadlines are not looked at: 1 passed" in hook.bodies[0]["text"]


@pytest.mark.parametrize("on_deadline", ["EXPIRE", "REJECT"])
@pytest.mark.parametrize("seen", [True, False])
def test_a_deadline_is_told_and_whether_anybody_had_looked(
    engine: Engine, hook: Receiver, wait: Wait, on_deadline: str, seen: bool
) -> None:
    listening(engine, hook, NoticeKind.DECIDED, NoticeKind.STUCK)
    demand(wait, on_deadline=on_deadline)
    if seen:
        wait_looked(actor=engine.person("ann"), wait_id=wait.id)
    pass_deadline(wait)
    wait_expire(wait_id=wait.id)
    assert told() == [("DECIDED", "wait")] + [("STUCK", "wait")] * (not seen)
    notices_deliver()
    said = {"EXPIRE": "The time to decide about a call of once is over", "REJECT": "the deadline decided"}[on_deadline]
    assert hook.bodies[0]["text"].startswith(said)
    assert [body["text"].startswith("Nobody had looked at a call of once") for body in hook.bodies[1:]] == [True] * (
        not seen
    )


def test_every_cause_has_a_sentence_of_its_own(engine: Engine) -> None:
    facts = {"count": "1", "since": "now", "step": "x", "tool": "y"}
    said = {sentence("STUCK", {**facts, "reason": str(cause)}) for cause in Cause}
    assert len(said) == len(Cause)
