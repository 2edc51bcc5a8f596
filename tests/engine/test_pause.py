"""Pause and resume (rulings 17 and 32): nothing new starts, waits stay, and the resume takes back the pause alone."""

from collections.abc import Callable
from functools import partial
from uuid import UUID

import pytest

from accounts.errors import Refused
from approvals.models import Wait
from receipts.models import Attempt
from runs.errors import PausedSince, PauseOver
from runs.models import ControlRequest
from runs.statements import run_statement
from runtime import statements as steps
from runtime.contracts import ToolUnknown
from runtime.loop import drive
from runtime.services import CapRaised, PauseShown, PauseState, Resumed, budget_raise, run_pause, run_resume
from runtime.tasks import sweep
from tests.engine.engine import (
    At,
    Engine,
    Killed,
    call_named,
    expire_lease,
    kill,
    lease_of,
    open_wait,
    pass_deadline,
    run_now,
)
from tests.engine.held import STATEMENTS, held_worker
from tests.engine.races import together
from tests.engine.stops import causes, tried
from tests.scenarios.invariants import broken_invariants
from tests.scripted import SCRIPT, calls


def paused(engine: Engine, run_id: UUID, by: str = "otto", reason: str = "not now") -> PauseState | Refused:
    return run_pause(actor=engine.person(by), run_id=run_id, reason=reason)


def pause(engine: Engine, run_id: UUID) -> None:
    assert isinstance(paused(engine, run_id), PauseState)


def the_pause(run_id: UUID) -> ControlRequest:
    return ControlRequest.objects.filter(run_id=run_id, kind="PAUSE").latest("accepted_at")


def assert_paused(run_id: UUID) -> None:
    run = run_now(run_id)
    assert (run.status, run.hold_reason, run.hold_detail) == ("HELD", "PAUSED", "not now")
    assert (lease_of(run_id).owner, the_pause(run_id).status) == (None, "ADOPTED")
    assert not Attempt.objects.filter(outcome=None).exists()
    assert not broken_invariants()


def resumed(engine: Engine, run_id: UUID) -> None:
    assert isinstance(engine.resume(run_id), Resumed)
    assert (the_pause(run_id).status, lease_of(run_id).pause_requested) == ("SETTLED", False)


# ── a run without a holder ──


@pytest.mark.parametrize("knew", ["none", "another"])
def test_who_was_not_shown_a_pause_does_not_take_it_back(engine: Engine, knew: str) -> None:
    run_id = engine.start()
    pause(engine, run_id)
    shown = PauseShown(None if knew == "none" else the_pause(run_id).id)
    if knew == "another":
        resumed(engine, run_id)
        pause(engine, run_id)
    refused = run_resume(actor=engine.person("otto"), run_id=run_id, reason="go on", shown=shown)
    assert isinstance(refused, PausedSince) and "otto-north paused this run at" in refused.sentence
    assert_paused(run_id)


def test_who_means_a_pause_that_is_over_has_nothing_else_tried_again(engine: Engine) -> None:
    run_id = engine.start()
    pause(engine, run_id)
    shown = PauseShown(the_pause(run_id).id)
    resumed(engine, run_id)
    refused = run_resume(actor=engine.person("otto"), run_id=run_id, reason="go on", shown=shown)
    assert isinstance(refused, PauseOver)


def test_a_queued_run_is_held_at_once_and_goes_on_when_it_is_resumed(engine: Engine) -> None:
    run_id = engine.start()
    state = paused(engine, run_id)
    assert isinstance(state, PauseState) and (state.status, state.new) == ("ADOPTED", True)
    assert_paused(run_id)
    engine.hints.clear()
    sweep()
    drive(run_id)
    assert (engine.hints, SCRIPT.requests) == ([], [])
    resumed(engine, run_id)
    assert (run_now(run_id).status, engine.hints) == ("QUEUED", [run_id])
    drive(run_id)
    assert run_now(run_id).status == "COMPLETED"
    assert causes(run_id)[:3] == ["ADMITTED", "PAUSED", "RESUMED"]


def test_asking_again_gives_the_same_pause(engine: Engine) -> None:
    run_id = engine.start()
    first, second = paused(engine, run_id), paused(engine, run_id, "olga")
    assert isinstance(first, PauseState) and isinstance(second, PauseState)
    assert (second.request_id, second.new) == (first.request_id, False)
    assert [action for action, _, _ in engine.audited()].count("run.pause") == 1


def test_a_waiting_run_keeps_its_wait_and_waits_again_when_it_is_resumed(engine: Engine, wait: Wait) -> None:
    paused(engine, wait.run_id)
    assert_paused(wait.run_id)
    wait.refresh_from_db()
    assert wait.status == "OPEN"
    resumed(engine, wait.run_id)
    assert run_now(wait.run_id).status == "WAITING"
    engine.approve(wait.run_id)
    drive(wait.run_id)
    assert (run_now(wait.run_id).status, SCRIPT.labels("once")) == ("COMPLETED", ["a"])


@pytest.mark.parametrize(("verdict", "after"), [("APPROVE", "APPROVED"), ("REJECT", "REJECTED")])
def test_a_decision_on_a_paused_run_is_stored_and_queues_nothing(
    engine: Engine, wait: Wait, verdict: str, after: str
) -> None:
    run_id = wait.run_id
    paused(engine, run_id)
    engine.hints.clear()
    assert not isinstance(engine.decide(wait, verdict), Refused)
    for _ in range(2):
        sweep()
        drive(run_id)
    wait.refresh_from_db()
    assert (wait.status, engine.hints, SCRIPT.labels("once")) == (after, [], [])
    assert_paused(run_id)
    resumed(engine, run_id)
    assert run_now(run_id).status == "QUEUED"
    drive(run_id)
    assert run_now(run_id).status == "COMPLETED"
    assert SCRIPT.labels("once") == (["a"] if verdict == "APPROVE" else [])


def test_a_wait_of_a_paused_run_still_expires(engine: Engine, wait: Wait) -> None:
    paused(engine, wait.run_id)
    pass_deadline(wait)
    sweep()
    wait.refresh_from_db()
    assert wait.status == "EXPIRED"
    assert_paused(wait.run_id)
    resumed(engine, wait.run_id)
    drive(wait.run_id)
    assert run_now(wait.run_id).status == "COMPLETED"


def test_a_paused_run_can_be_stopped(engine: Engine, wait: Wait) -> None:
    paused(engine, wait.run_id)
    engine.stop(wait.run_id)
    run = run_now(wait.run_id)
    assert (run.status, the_pause(wait.run_id).status) == ("CANCELLED", "SETTLED")
    assert isinstance(paused(engine, wait.run_id), Refused)
    assert not broken_invariants()


# ── a run with a holder ──


@pytest.mark.parametrize("statement", [name for name in STATEMENTS if name != "RECORD_TASK"])
def test_before_each_statement_a_pause_lets_facts_commit_and_nothing_new_start(
    engine: Engine, statement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id, gate, worker = held_worker(engine, statement, monkeypatch)
    state = paused(engine, run_id)
    assert isinstance(state, PauseState) and state.status == "ACCEPTED"
    before = tried(run_id)
    gate.open()
    worker.result()
    assert tried(run_id) == before
    assert_paused(run_id)
    resumed(engine, run_id)
    monkeypatch.undo()
    drive(run_id)
    assert run_now(run_id).status == "COMPLETED"
    assert not broken_invariants()


def test_without_its_gate_a_pause_would_not_keep_a_call_from_being_sent(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the condition is for."""
    careless: Callable[[str], str] = lambda statement: statement.replace("AND NOT fence.pause_requested", "")  # noqa: E731
    run_id, gate, worker = held_worker(engine, "DISPATCH_AGAIN", monkeypatch, careless)
    paused(engine, run_id)
    before = tried(run_id)
    gate.open()
    worker.result()
    assert tried(run_id) > before


def test_a_call_on_the_wire_is_recorded_and_then_the_run_is_held(engine: Engine, at_point: At) -> None:
    SCRIPT.tell(calls(("look", "a")), calls(("look", "b")))
    run_id = engine.start()
    at_point("after_tool@look", partial(pause, engine, run_id))
    drive(run_id)
    assert_paused(run_id)
    assert (call_named(run_id, "a").status, SCRIPT.labels("look")) == ("SUCCEEDED", ["a"])
    resumed(engine, run_id)
    drive(run_id)
    assert (run_now(run_id).status, SCRIPT.labels("look")) == ("COMPLETED", ["a", "b"])


def test_a_pause_that_is_taken_back_before_it_is_adopted_holds_nothing(engine: Engine, at_point: At) -> None:
    SCRIPT.tell(calls(("look", "a")), calls(("look", "b")))
    run_id = engine.start()

    def there_and_back() -> None:
        paused(engine, run_id)
        assert isinstance(engine.resume(run_id), Resumed)

    at_point("after_tool@look", there_and_back)
    drive(run_id)
    assert (run_now(run_id).status, the_pause(run_id).status) == ("COMPLETED", "SETTLED")
    assert the_pause(run_id).adopted_at is None
    assert "PAUSED" not in causes(run_id)


def test_a_pause_taken_back_while_the_worker_is_about_to_adopt_it_lets_it_go_on(
    engine: Engine, at_point: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    SCRIPT.tell(calls(("look", "a")), calls(("look", "b")))
    run_id = engine.start()
    at_point("after_tool@look", partial(pause, engine, run_id))

    def resume_after_refusal(sent: str, params: dict[str, object]) -> tuple[object, ...]:
        row = run_statement(sent, params)
        if sent == steps.ASK_FIRST and row[2]:
            engine.resume(run_id)
        return row

    monkeypatch.setattr(steps, "run_statement", resume_after_refusal)
    drive(run_id)
    assert (run_now(run_id).status, "PAUSED" in causes(run_id)) == ("COMPLETED", False)


def test_a_wait_that_opens_under_a_pause_is_kept_and_the_run_is_held(engine: Engine, at_point: At) -> None:
    SCRIPT.tell(calls(("once", "a")))
    run_id = engine.start()
    at_point("after_decision_saved", partial(pause, engine, run_id))
    drive(run_id)
    assert_paused(run_id)
    assert open_wait(run_id).status == "OPEN"
    resumed(engine, run_id)
    assert run_now(run_id).status == "WAITING"


def test_whoever_takes_over_adopts_the_pause_of_a_lost_worker(engine: Engine, at_point: At) -> None:
    SCRIPT.tell(calls(("look", "a")), calls(("look", "b")))
    run_id = engine.start()

    def pause_and_die() -> None:
        paused(engine, run_id)
        kill()

    at_point("after_result_commit", pause_and_die)
    with pytest.raises(Killed):
        drive(run_id)
    expire_lease(run_id)
    drive(run_id)
    assert_paused(run_id)
    assert SCRIPT.labels("look") == ["a"]


def test_a_run_that_ends_first_leaves_the_pause_without_object(engine: Engine, at_point: At) -> None:
    run_id = engine.start()
    at_point("after_decision_saved", partial(pause, engine, run_id))
    drive(run_id)
    assert (run_now(run_id).status, the_pause(run_id).status) == ("COMPLETED", "MOOT")


# ── together with something else ──


def test_a_held_run_is_paused_when_what_held_it_is_gone(engine: Engine) -> None:
    SCRIPT.do("a", ToolUnknown("no answer"))
    run_id = engine.run(calls(("once", "a")))
    engine.approve(run_id)
    drive(run_id)
    state = paused(engine, run_id)
    assert isinstance(state, PauseState) and state.status == "ACCEPTED"
    assert run_now(run_id).hold_reason == "UNCERTAIN_CALL"
    engine.reconcile(call_named(run_id, "a"), "EXECUTED")
    assert_paused(run_id)
    resumed(engine, run_id)
    drive(run_id)
    assert run_now(run_id).status == "COMPLETED"


def test_the_resume_settles_only_the_pause(engine: Engine, at_point: At) -> None:
    SCRIPT.tell(calls(("look", "a")), calls(("look", "b")))
    run_id = engine.start()

    def pause_then_stop_then_resume() -> None:
        paused(engine, run_id)
        engine.stop(run_id)
        assert isinstance(engine.resume(run_id), Resumed)
        assert (lease_of(run_id).stop_requested, lease_of(run_id).pause_requested) == (True, False)

    at_point("after_tool@look", pause_then_stop_then_resume)
    drive(run_id)
    assert (run_now(run_id).status, the_pause(run_id).status) == ("CANCELLED", "SETTLED")


def test_a_run_that_is_being_stopped_is_not_paused(engine: Engine, at_point: At) -> None:
    SCRIPT.tell(calls(("look", "a")))
    run_id = engine.start()
    refused: list[object] = []

    def stop_then_pause() -> None:
        engine.stop(run_id)
        refused.append(paused(engine, run_id))

    at_point("after_tool@look", stop_then_pause)
    drive(run_id)
    (answer,) = refused
    assert isinstance(answer, Refused) and answer.code == "STOP_OPEN"


def test_acts_that_queue_a_run_do_not_queue_a_paused_one(engine: Engine, wait: Wait) -> None:
    run_id = wait.run_id
    paused(engine, run_id)
    engine.revise(run_id, "another goal")
    raised = budget_raise(actor=engine.person("otto"), run_id=run_id, unit="tokens", cap=2_000_000, reason="more")
    assert isinstance(raised, CapRaised)
    moves = len(causes(run_id))
    for _ in range(3):
        sweep()
        drive(run_id)
    assert_paused(run_id)
    assert len(causes(run_id)) == moves
    resumed(engine, run_id)
    drive(run_id)
    assert open_wait(run_id).id != wait.id  # asked anew, for the new goal


@pytest.mark.parametrize("again", range(5))
def test_a_pause_and_a_decision_at_once_leave_the_run_paused_with_the_decision(
    engine: Engine, wait: Wait, again: int
) -> None:
    together(lambda: paused(engine, wait.run_id), lambda: engine.decide(wait))
    wait.refresh_from_db()
    assert wait.status == "APPROVED"
    assert_paused(wait.run_id)
    resumed(engine, wait.run_id)
    drive(wait.run_id)
    assert (run_now(wait.run_id).status, SCRIPT.labels("once")) == ("COMPLETED", ["a"])


@pytest.mark.parametrize(
    ("by", "reason", "code"), [("vera", "x", "NOT_ALLOWED"), ("ann", "x", "NOT_ALLOWED"), ("otto", " ", "INVALID")]
)
def test_who_may_not_pause_or_says_no_reason_is_refused(engine: Engine, by: str, reason: str, code: str) -> None:
    run_id = engine.start()
    outcome = paused(engine, run_id, by, reason)
    assert isinstance(outcome, Refused) and outcome.code == code
    assert engine.audited()[-1] == ("run.pause.refused", f"person:{by}", code)
    assert not ControlRequest.objects.exists()


def test_resuming_what_is_neither_paused_nor_held_is_refused(engine: Engine, wait: Wait) -> None:
    outcome = engine.resume(wait.run_id)
    assert isinstance(outcome, Refused) and outcome.code == "NOTHING_TO_RESUME"
