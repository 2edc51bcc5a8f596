"""What the owner of a run decides where a revision could not be saved."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from accounts.errors import Refused
from accounts.selectors import sealed_body
from checkpoints.envelope import Snapshot
from checkpoints.models import SaveAttempt
from checkpoints.selectors import load_head
from checkpoints.services import prepare
from checkpoints.statements import Candidate, Prepared
from checkpoints.states import NotSaved, Phase, Trigger
from receipts.models import Effect, ModelCall, Publication
from runs.models import Refusal, Run
from runtime import session as sessions
from runtime.contracts import ToolContext, ToolOutcome
from runtime.loop import drive
from tests.engine.engine import (
    At,
    Engine,
    Killed,
    call_named,
    expire_lease,
    head_of,
    kill,
    lease_of,
    open_wait,
    phases,
    run_now,
    sql,
    watch_requests,
)
from tests.engine.governed import govern, rule
from tests.scenarios.invariants import broken_invariants
from tests.scripted import SCRIPT, calls, done, went_well


def spoil(patch: pytest.MonkeyPatch, trigger: Trigger, times: int = 1, **fields: Any) -> None:
    """Let the next saves of a trigger hold something that can't be stored."""
    left = [times]
    plain = prepare

    def spoiled(candidate: Candidate) -> Prepared | NotSaved:
        if candidate.trigger != trigger or left[0] == 0:
            return plain(candidate)
        left[0] -= 1
        draft = Snapshot.model_construct(**{**vars(candidate.snapshot), **fields})
        return plain(replace(candidate, snapshot=draft))

    patch.setattr(sessions, "prepare", spoiled)


def saves_refused(run_id: UUID) -> list[tuple[str, str, str]]:
    rows = SaveAttempt.objects.filter(run_id=run_id).order_by("at")
    return [(row.trigger, row.status, row.kind or "") for row in rows]


def test_a_result_outlives_the_snapshot_that_could_not_be_saved(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F11 a, b: the receipt, its effect and its budget commit alone; the next revision is derived from them."""
    spoil(monkeypatch, Trigger.AFTER_EFFECT, turn_no=float("nan"))
    run_id = engine.run(calls(("note", "b")), calls(("look", "c")))
    assert saves_refused(run_id) == [("AFTER_EFFECT", "NOT_SAVED", "SCHEMA")]
    assert [refusal.kind for refusal in Refusal.objects.filter(run_id=run_id)] == ["SCHEMA"]
    call = call_named(run_id, "b")
    assert (call.status, call.attempts, Effect.objects.filter(tool_call=call).count()) == ("SUCCEEDED", 1, 1)
    assert run_now(run_id).status == "COMPLETED"
    assert SCRIPT.labels("note") == ["b"]
    assert [
        revision for (revision,) in sql("SELECT revision FROM checkpoints_checkpoint WHERE run_id = %s", run_id)
    ] == [*range(1, head_of(run_id).revision + 1)]


def unsaved(patch: pytest.MonkeyPatch) -> None:
    """From here on no snapshot after an effect can be serialised."""
    spoil(patch, Trigger.AFTER_EFFECT, times=-1, turn_no=float("nan"))


def asked_once(run_id: UUID) -> bool:
    """Whether no turn of the run was asked twice."""
    return not ModelCall.objects.filter(run_id=run_id, attempts__gt=1).exists()


def test_while_nothing_can_be_saved_reads_go_on_and_an_effect_is_refused(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F11 a, A-124: the report stays published; a call that leaves a mark is refused until a save succeeds."""
    with monkeypatch.context() as patch:
        unsaved(patch)
        run_id = engine.run(calls(("note", "a")), calls(("look", "b")), calls(("once", "c")), calls(("look", "d")))
    run, call = run_now(run_id), call_named(run_id, "c")
    assert (run.status, run.hold_reason, run.waits.count()) == ("HELD", "SAVE_REFUSED", 0)
    assert "WAIT_UNBINDABLE" in run.hold_detail
    assert (call.status, call.attempts) == ("PROPOSED", 0)
    assert Refusal.objects.get(run_id=run_id, kind="WAIT_UNBINDABLE").subject_id == call.id
    assert Publication.objects.get(report_version__run_id=run_id).status == "PUBLISHED"
    assert [call_named(run_id, label).status for label in ("a", "b")] == ["SUCCEEDED"] * 2
    assert (head_of(run_id).phase, load_head(run).snapshot.turn_no) == ("AWAITING_TOOL_RESULT", 1)
    assert {row[:2] for row in saves_refused(run_id)} == {("AFTER_EFFECT", "NOT_SAVED")}

    engine.resume(run_id)
    drive(run_id)
    engine.approve(run_id)
    drive(run_id)
    assert run_now(run_id).status == "COMPLETED"
    assert (SCRIPT.labels("note"), SCRIPT.labels("look"), SCRIPT.labels("once")) == (["a"], ["b", "d"], ["c"])
    assert asked_once(run_id)
    assert broken_invariants() == {}


def test_while_nothing_can_be_saved_a_read_goes_by_the_policy_that_came_meanwhile(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def tighten(_: ToolContext) -> ToolOutcome:
        govern(engine, rule("no more looking", "deny", tools=["look"]))
        return went_well("b")

    SCRIPT.do("b", tighten)
    with monkeypatch.context() as patch:
        unsaved(patch)
        run_id = engine.run(calls(("note", "a")), calls(("look", "b")), calls(("look", "c")))
    assert SCRIPT.labels("look") == ["b"]
    call = call_named(run_id, "c")
    assert (call.attempts, call.status, run_now(run_id).status) == (0, "PROPOSED", "HELD")
    engine.resume(run_id)
    drive(run_id)
    call.refresh_from_db()
    assert (call.attempts, call.status, run_now(run_id).status) == (0, "DENIED", "COMPLETED")


def test_a_worker_that_takes_over_an_unsaved_run_derives_it_from_what_is_stored(
    engine: Engine, at_point: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F06 too: a sealed turn without a revision is decided from its rows, and the model is not asked again."""

    def last(context: ToolContext) -> ToolOutcome:
        at_point("after_result_commit", kill)
        return went_well("b")

    SCRIPT.tell(calls(("note", "a")), calls(("look", "b")), calls(("look", "c")))
    SCRIPT.do("b", last)
    differences = watch_requests()
    run_id = engine.start()
    with monkeypatch.context() as patch:
        unsaved(patch)
        with pytest.raises(Killed):
            drive(run_id)
    assert load_head(run_now(run_id)).snapshot.turn_no == 1
    expire_lease(run_id)
    drive(run_id)
    assert run_now(run_id).status == "COMPLETED"
    assert (SCRIPT.labels("note"), SCRIPT.labels("look")) == (["a"], ["b", "c"])
    assert (asked_once(run_id), differences) == (True, [])
    results = load_head(run_now(run_id)).snapshot.results
    assert [ref.step_name for ref in results] == ["note/a", "look/b", "look/c"]
    assert broken_invariants() == {}


@pytest.mark.parametrize("dies_after", ["a", "b"])
def test_a_worker_that_takes_over_while_nothing_can_be_saved_goes_on_with_reads_too(
    engine: Engine, at_point: At, monkeypatch: pytest.MonkeyPatch, dies_after: str
) -> None:
    """A-124: it derives the state from what is stored, beyond the head, and is held where the first one would be."""

    def last(_: ToolContext) -> ToolOutcome:
        at_point("after_result_commit", kill)
        return went_well(dies_after)

    SCRIPT.tell(calls(("note", "a")), calls(("look", "b")), calls(("look", "c")), calls(("once", "d")))
    SCRIPT.do(dies_after, last)
    differences = watch_requests()
    run_id = engine.start()
    with monkeypatch.context() as patch:
        unsaved(patch)
        with pytest.raises(Killed):
            drive(run_id)
        expire_lease(run_id)
        drive(run_id)
        run = run_now(run_id)
        assert (run.status, run.hold_reason) == ("HELD", "SAVE_REFUSED")
        assert "WAIT_UNBINDABLE" in run.hold_detail
        assert (head_of(run_id).phase, load_head(run).snapshot.turn_no) == ("AWAITING_TOOL_RESULT", 1)
        assert Refusal.objects.get(run_id=run_id, kind="WAIT_UNBINDABLE").subject_id == call_named(run_id, "d").id
        assert (SCRIPT.labels("note"), SCRIPT.labels("look")) == (["a"], ["b", "c"])
    engine.resume(run_id)
    drive(run_id)
    engine.approve(run_id)
    drive(run_id)
    assert run_now(run_id).status == "COMPLETED"
    assert (SCRIPT.labels("note"), SCRIPT.labels("look"), SCRIPT.labels("once")) == (["a"], ["b", "c"], ["d"])
    assert (asked_once(run_id), differences) == (True, [])
    assert broken_invariants() == {}


def test_a_goal_that_was_revised_beside_an_unsaved_result_holds_for_the_next_turn(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F11 c. No agent changes its reasoning effort yet; a revised goal is the nearest change that a next turn goes by."""
    with monkeypatch.context() as patch:
        unsaved(patch)
        run_id = engine.run(calls(("note", "a")), calls(("once", "b")), done())
        assert not isinstance(engine.revise(run_id, "Do it in French."), Refused)
    engine.resume(run_id)
    drive(run_id)
    engine.decide(open_wait(run_id), "REJECT")
    drive(run_id)
    assert SCRIPT.requests[-1].goal == "Do it in French."
    assert (run_now(run_id).status, asked_once(run_id)) == ("COMPLETED", True)


def test_a_stop_that_was_accepted_beside_an_unsaved_result_settles(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F11 d."""

    def stopped(context: ToolContext) -> ToolOutcome:
        engine.stop(context.run_id)
        return went_well("a")

    SCRIPT.do("a", stopped)
    unsaved(monkeypatch)
    run_id = engine.run(calls(("note", "a")), calls(("look", "b")))
    run = run_now(run_id)
    assert (run.status, run.controls.get().status, call_named(run_id, "a").status) == (
        "CANCELLED",
        "SETTLED",
        "SUCCEEDED",
    )
    assert SCRIPT.labels("look") == []


def test_a_decision_that_can_not_be_saved_holds_the_run_and_fails_nothing(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F10: nothing of the turn is written; a person may try again, and it is asked again."""
    spoil(monkeypatch, Trigger.CURSOR, next_node="x" * 129)
    run_id = engine.run(calls(("look", "a")))
    run = run_now(run_id)
    assert (run.status, run.hold_reason) == ("HELD", "SAVE_REFUSED")
    assert "FIELD_LIMIT at $.next_node" in run.hold_detail
    assert (head_of(run_id).revision, lease_of(run_id).owner) == (1, None)
    assert saves_refused(run_id) == [("CURSOR", "NOT_SAVED", "FIELD_LIMIT")]
    engine.resume(run_id)
    drive(run_id)
    assert run_now(run_id).status == "COMPLETED"


def test_a_wait_is_not_opened_at_a_revision_that_can_not_be_saved(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A-130: no wait, and the call stays proposed."""
    plain, waiting = prepare, Phase.AWAITING_APPROVAL

    def spoiled(candidate: Candidate) -> Prepared | NotSaved:
        wrong = {"next_node": "x" * 129} if candidate.snapshot.phase == waiting else {}
        draft = Snapshot.model_construct(**{**vars(candidate.snapshot), **wrong})
        return plain(replace(candidate, snapshot=draft))

    monkeypatch.setattr(sessions, "prepare", spoiled)
    run_id = engine.run(calls(("once", "a")))
    run = run_now(run_id)
    assert (run.status, run.hold_reason, run.waits.count()) == ("HELD", "SAVE_REFUSED", 0)
    assert call_named(run_id, "a").status == "PROPOSED"
    assert {refusal.kind for refusal in run.refusals.all()} == {"FIELD_LIMIT", "WAIT_UNBINDABLE"}
    monkeypatch.setattr(sessions, "prepare", plain)
    engine.resume(run_id)
    drive(run_id)
    assert (run_now(run_id).status, run.waits.count()) == ("WAITING", 1)


def test_a_stop_settles_without_its_closing_revision(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """X01, F11 d."""
    run_id = engine.run(calls(("look", "a")), lambda _: stop_now(engine), calls(("look", "b")))
    run = run_now(run_id)
    assert run.status == "CANCELLED"

    def spoiled(candidate: Candidate) -> Prepared | NotSaved:
        assert candidate.trigger == Trigger.CLOSING
        return prepare(
            Candidate(candidate.snapshot.model_copy(update={"turn_no": -1}), candidate.trigger, after=candidate.after)
        )

    monkeypatch.setattr("runtime.ending.prepare", spoiled)
    other = engine.run(calls(("look", "a")), lambda _: stop_now(engine), calls(("look", "b")))
    run, head = run_now(other), head_of(other)
    assert (run.status, run.controls.get().status, head.phase) == ("CANCELLED", "SETTLED", phases(other)[-1])
    assert "STOPPED" not in phases(other)
    assert saves_refused(other) == [("CLOSING", "NOT_SAVED", "FIELD_LIMIT")]


def stop_now(engine: Engine) -> Any:
    """A stop while the model is asked."""
    engine.stop(Run.objects.latest("created_at").id)
    return calls(("look", "z"))


def keeping(stored: list[bytes]) -> Callable[..., bytes]:
    def kept(*, key_id: Any, plain: bytes) -> bytes:
        stored.append(plain)
        return sealed_body(key_id=key_id, plain=plain)

    return kept
