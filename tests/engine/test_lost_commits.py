"""The acknowledgement of a commit is lost (F12): a real connection is cut at the commit, and what it did is looked up first."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import transaction
from django.test import override_settings

from checkpoints.models import Checkpoint, SaveAttempt
from checkpoints.services import head_lock
from console import settings_test
from receipts.models import Effect, ModelCall
from runs.models import BudgetEntry, Refusal
from runtime.loop import drive
from tests.engine.engine import (
    At,
    Engine,
    attempts_of,
    call_named,
    expire_lease,
    head_of,
    lease_of,
    open_wait,
    run_now,
    sql,
)
from tests.engine.proxy import Lost, Match, Proxy, commit, proxied, statement, through
from tests.engine.races import Aside
from tests.scenarios.invariants import broken_invariants
from tests.scripted import SCRIPT, calls
from tests.waiting import wait_until


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    with proxied(settings_test.SOCKET_DIR) as proxy:
        yield proxy


def drive_through(proxy: Proxy, run_id: UUID) -> None:
    """Drive a run in this thread, through the proxy."""
    through(proxy, lambda: drive(run_id))


def cut_at(at_point: At, point: str, proxy: Proxy, match: Match, lost: Lost, **also: Any) -> None:
    """From a fault point on, cut the connection at the next commit or statement."""
    at_point(point, lambda: proxy.cut(match, lost, **also))


def attempts(run_id: UUID) -> list[tuple[str, str, int]]:
    """(trigger, status, expected revision) of the saves that were not simply acknowledged."""
    rows = SaveAttempt.objects.filter(run_id=run_id).order_by("at")
    return [(row.trigger, row.status, row.expected_revision) for row in rows]


def assert_one_revision_each(run_id: UUID) -> None:
    revisions = Checkpoint.objects.filter(run_id=run_id).order_by("revision").values_list("revision", flat=True)
    assert list(revisions) == [*range(1, head_of(run_id).revision + 1)]


def result_lost(engine: Engine, at_point: At, proxy: Proxy, lost: Lost) -> UUID:
    """A run of which the commit of a result was cut off."""
    SCRIPT.tell(calls(("note", "a")), calls(("look", "b")))
    run_id = engine.start()
    cut_at(at_point, "inside_result_tx", proxy, commit, lost)
    drive_through(proxy, run_id)
    assert proxy.happened.is_set()
    return run_id


@pytest.mark.parametrize("lost", ["answer", "request"])
def test_a_result_whose_commit_was_cut_off_is_stored_once(
    engine: Engine, at_point: At, proxy: Proxy, lost: Lost
) -> None:
    """F12 a and b: the probe decides, the run goes on under a higher fence, and what was answered is not sent again."""
    run_id = result_lost(engine, at_point, proxy, lost)
    call = call_named(run_id, "a")
    assert run_now(run_id).status == "COMPLETED"
    assert SCRIPT.labels("note") == ["a"]
    assert attempts_of(call) == [(1, "OK", "policy:builtin-1")]
    assert Effect.objects.filter(tool_call=call).count() == 1
    (save,) = SaveAttempt.objects.filter(run_id=run_id)
    assert (save.status, save.fence, save.resolved_fence) == ("SAVED" if lost == "answer" else "NOT_SAVED", 1, 2)
    assert Checkpoint.objects.filter(save_id=save.save_id).count() == (1 if lost == "answer" else 0)
    assert_one_revision_each(run_id)
    assert broken_invariants() == {}


def test_a_probe_waits_for_the_commit_that_is_still_under_way(engine: Engine, at_point: At, proxy: Proxy) -> None:
    """F12 d: no false NOT_SAVED."""
    SCRIPT.tell(calls(("note", "a")), calls(("look", "b")))
    run_id = engine.start()
    cut_at(at_point, "inside_result_tx", proxy, commit, "both for now")
    worker = Aside(lambda: drive_through(proxy, run_id))
    wait_until(proxy.happened.is_set, "the connection is cut")
    wait_until(lock_waited_for, "the probe waits for the transaction")
    assert attempts(run_id) == []
    proxy.deliver()
    worker.result()
    assert [status for _, status, _ in attempts(run_id)] == ["SAVED"]
    assert (run_now(run_id).status, SCRIPT.labels("note")) == ("COMPLETED", ["a"])
    assert_one_revision_each(run_id)


def lock_waited_for() -> bool:
    rows = sql("SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'")
    return bool(rows)


def test_a_statement_that_was_still_in_a_socket_writes_nothing_after_the_probe(
    engine: Engine, at_point: At, proxy: Proxy
) -> None:
    """Ruling 29: it holds no lock that a probe could wait for, so the probe raises the fence first."""
    SCRIPT.tell([calls(("look", "a")), calls(("look", "b"))], calls(("look", "c")))
    run_id = engine.start()
    drive_through(proxy, engine.start())  # so that the next one's statements are prepared
    cut_at(at_point, "after_model_response", proxy, statement, "both for now")
    drive_through(proxy, run_id)
    before = {table: sql(f"SELECT md5(string_agg(t::text, '|' ORDER BY t::text)) FROM {table} t") for table in TABLES}
    proxy.deliver()
    assert before == {
        table: sql(f"SELECT md5(string_agg(t::text, '|' ORDER BY t::text)) FROM {table} t") for table in TABLES
    }
    assert [status for _, status, _ in attempts(run_id)] == ["NOT_SAVED"]
    assert run_now(run_id).status == "COMPLETED"


TABLES = ["checkpoints_checkpoint", "checkpoints_head", "receipts_modelcall", "receipts_toolcall", "receipts_attempt"]


@pytest.mark.parametrize("lost", ["answer", "request"])
def test_where_the_database_stays_away_the_worker_does_nothing_and_the_next_holder_looks(
    engine: Engine, at_point: At, proxy: Proxy, lost: Lost
) -> None:
    """F12 c."""
    SCRIPT.tell(calls(("note", "a")), calls(("look", "b")))
    run_id = engine.start()
    cut_at(at_point, "inside_result_tx", proxy, commit, lost, down=True)
    with override_settings(LEASE_TTL_SECONDS=1.0):
        drive_through(proxy, run_id)
    assert proxy.refused.is_set()
    assert (run_now(run_id).status, lease_of(run_id).fence) == ("RUNNING", 1)
    assert [sent.label for sent in SCRIPT.sent] == ["a"]
    expire_lease(run_id)
    drive(run_id)
    assert run_now(run_id).status == "COMPLETED"
    assert SCRIPT.labels("note") == (["a"] if lost == "answer" else ["a", "a"])
    assert_one_revision_each(run_id)


def test_a_call_that_was_dispatched_and_surely_not_sent_needs_no_person(
    engine: Engine, at_point: At, proxy: Proxy
) -> None:
    """Probed by its attempt: it is there, and this worker knows that nothing went out."""
    run_id = engine.run(calls(("once", "a")), calls(("look", "b")))
    engine.approve(run_id)
    cut_at(at_point, "inside_dispatch_tx", proxy, commit, "answer")
    drive_through(proxy, run_id)
    call = call_named(run_id, "a")
    assert [outcome for _, outcome, _ in attempts_of(call)] == ["ERROR_RETRYABLE", "OK"]
    assert (SCRIPT.labels("once"), run_now(run_id).status) == (["a"], "COMPLETED")
    assert broken_invariants() == {}


@pytest.mark.parametrize("lost", ["answer", "request"])
def test_an_approved_call_is_sent_once_whatever_became_of_its_dispatch(
    engine: Engine, at_point: At, proxy: Proxy, lost: Lost
) -> None:
    run_id = engine.run(calls(("once", "a")), calls(("look", "b")))
    engine.approve(run_id)
    cut_at(at_point, "inside_dispatch_tx", proxy, commit, lost)
    drive_through(proxy, run_id)
    assert (SCRIPT.labels("once"), run_now(run_id).status) == (["a"], "COMPLETED")
    assert run_now(run_id).waits.get().status == "CONSUMED"


@pytest.mark.parametrize("lost", ["answer", "request"])
def test_a_turn_whose_seal_was_cut_off_is_not_asked_again(
    engine: Engine, at_point: At, proxy: Proxy, lost: Lost
) -> None:
    """Where the seal is not there, the answer is: it is sealed under the higher fence, and nothing of it is held as unknown."""
    SCRIPT.tell(calls(("look", "a"), ("nowhere", "b")))
    drive_through(proxy, engine.start())
    run_id = engine.start()
    cut_at(at_point, "after_model_response", proxy, statement, lost)
    drive_through(proxy, run_id)
    turns = ModelCall.objects.filter(run_id=run_id).order_by("turn_no")
    assert [(turn.attempts, turn.status) for turn in turns] == [(1, "SEALED"), (1, "SEALED")]
    assert turns[0].sealed_fence == (1 if lost == "answer" else 2)
    assert run_now(run_id).status == "COMPLETED"
    assert [request.turn_no for request in SCRIPT.requests] == [1, 2, 1, 2]
    assert SCRIPT.labels("look").count("a") == 2
    assert not BudgetEntry.objects.filter(run_id=run_id, kind="HOLD_UNKNOWN").exists()
    assert broken_invariants() == {}


def test_a_turn_whose_seal_was_cut_off_is_asked_again_where_the_lease_is_over(
    engine: Engine, at_point: At, proxy: Proxy
) -> None:
    SCRIPT.tell(calls(("look", "a")))
    drive_through(proxy, engine.start())
    run_id = engine.start()

    def cut_and_expire() -> None:
        expire_lease(run_id)
        proxy.cut(statement, "request")

    at_point("after_model_response", cut_and_expire)
    drive_through(proxy, run_id)
    assert ModelCall.objects.get(run_id=run_id).status == "DISPATCHED"
    drive(run_id)
    first = ModelCall.objects.get(run_id=run_id, turn_no=1)
    assert (run_now(run_id).status, first.attempts, first.sealed_fence) == ("COMPLETED", 2, 2)


def test_a_run_that_was_given_back_is_not_called_lost(engine: Engine, at_point: At, proxy: Proxy) -> None:
    """Probed by the lease row: this holder freed it, so the wait that it opened stands."""
    SCRIPT.tell(calls(("once", "a")))
    run_id = engine.start()
    at_point("after_decision_saved", lambda: proxy.cut(commit, "answer"))
    drive_through(proxy, run_id)
    assert proxy.happened.is_set()
    assert (run_now(run_id).status, open_wait(run_id).opened_fence) == ("WAITING", 1)
    assert not Refusal.objects.filter(run_id=run_id).exists()
    assert [status for _, status, _ in attempts(run_id)] == ["SAVED"]


def test_where_the_head_stays_locked_the_run_is_held_until_a_person_tries_again(engine: Engine) -> None:
    """T36, guard 4."""
    SCRIPT.tell(calls(("look", "a")))
    run_id = engine.start()
    run = run_now(run_id)
    SaveAttempt.objects.create(
        save_id=uuid4(), tenant=run.tenant, run=run, trigger="CURSOR", expected_revision=1, fence=0, status="UNKNOWN"
    )
    with transaction.atomic():
        head_lock(run_id)
        Aside(lambda: drive(run_id)).result()
    run = run_now(run_id)
    assert (run.status, run.hold_reason) == ("HELD", "SAVE_UNKNOWN")
    assert [refusal.kind for refusal in Refusal.objects.filter(run_id=run_id)] == ["SAVE_UNKNOWN"]
    assert SCRIPT.requests == []
    engine.resume(run_id)
    drive(run_id)
    assert [status for _, status, _ in attempts(run_id)] == ["NOT_SAVED"]
    assert run_now(run_id).status == "COMPLETED"
