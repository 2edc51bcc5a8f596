"""Compaction: saved, read back and adopted, and asked the same by whoever asks."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from checkpoints.envelope import Snapshot
from checkpoints.models import Checkpoint, SaveAttempt
from checkpoints.selectors import load_head
from checkpoints.services import prepare
from checkpoints.statements import Candidate, Prepared
from checkpoints.states import NotSaved, Trigger
from console import settings_test
from receipts.models import Attempt, ModelCall, Result
from receipts.states import AttemptOutcome
from runtime import session as sessions
from runtime.contracts import ContextOverflow, ModelRequest, ToolOutcome
from runtime.loop import drive
from tests.engine.engine import At, Engine, Killed, call_named, expire_lease, kill, run_now, watch_requests
from tests.engine.proxy import Lost, Proxy, commit, proxied, through
from tests.scenarios.invariants import broken_invariants
from tests.scripted import SCRIPT, calls

LONG = {"text": "x" * 1000}
TOO_LONG = ContextOverflow("the request is too long")


@pytest.fixture(autouse=True)
def _long_answers(engine: Engine) -> None:
    for label in ("a", "b", "c"):
        SCRIPT.do(label, ToolOutcome({**LONG, "label": label}))


def answers(request: ModelRequest) -> list[Any]:
    """What the calls of a request answered, in order: the label, or what is left of it."""
    values = [message["value"] for message in request.history if message["role"] == "tool"]
    return [value.get("label", sorted(value)) for value in values]


def asked(turn_no: int) -> list[ModelRequest]:
    return [request for request in SCRIPT.requests if request.turn_no == turn_no]


def triggers(run_id: UUID) -> list[str]:
    return list(Checkpoint.objects.filter(run_id=run_id).order_by("revision").values_list("trigger", flat=True))


def test_a_request_that_is_too_long_is_asked_again_without_old_answers(engine: Engine) -> None:
    """A-135: the newest turn stays whole, and what is left out is named by its digest."""
    run_id = engine.run(calls(("look", "a")), calls(("look", "b")), [TOO_LONG, calls(("look", "c"))])
    assert [answers(request) for request in asked(3)] == [["a", "b"], [["left_out"], "b"]]
    (note,) = [
        message["value"]["left_out"] for message in asked(3)[1].history if "left_out" in message.get("value", {})
    ]
    assert note["sha256"] == Result.objects.get(tool_call=call_named(run_id, "a")).digest
    outcomes = Attempt.objects.filter(model_call__turn_no=3).order_by("attempt_no").values_list("outcome", flat=True)
    assert list(outcomes) == [AttemptOutcome.CONTEXT_OVERFLOW, AttemptOutcome.OK]
    assert (triggers(run_id).count("COMPACTION"), run_now(run_id).status) == (1, "COMPLETED")
    assert load_head(run_now(run_id)).snapshot.compacted_through == 1
    assert [answers(request) for request in asked(4)] == [[["left_out"], "b", "c"]]
    assert broken_invariants() == {}


def test_then_the_newest_answers_go_too_and_then_the_run_has_failed(engine: Engine) -> None:
    run_id = engine.run(calls(("look", "a")), calls(("look", "b")), [TOO_LONG])
    assert [answers(request) for request in asked(3)] == [["a", "b"], [["left_out"], "b"], [["left_out"], ["left_out"]]]
    run = run_now(run_id)
    assert (run.status, triggers(run_id).count("COMPACTION")) == ("FAILED", 2)
    assert "too long" in run.end_reason


def test_tools_read_results_as_before(engine: Engine) -> None:
    seen: list[Any] = []

    def reading(context: Any) -> ToolOutcome:
        seen.extend(result.value for result in context.results)
        return ToolOutcome({"label": "c"})

    SCRIPT.do("c", reading)
    engine.run(calls(("look", "a")), calls(("look", "b")), [TOO_LONG, calls(("look", "c"))])
    assert [value["text"] for value in seen] == [LONG["text"]] * 2


def test_a_worker_that_takes_over_asks_the_same(engine: Engine, at_point: At) -> None:
    """The digest of the request after a restore is the one before."""
    SCRIPT.tell(calls(("look", "a")), calls(("look", "b")), [TOO_LONG, calls(("look", "c"))])
    differences = watch_requests()
    run_id = engine.start()
    drive_until_killed_after_c(run_id, at_point)
    before = ModelCall.objects.get(run_id=run_id, turn_no=4).request_digest
    expire_lease(run_id)
    drive(run_id)
    turn = ModelCall.objects.get(run_id=run_id, turn_no=4)
    assert (turn.attempts, turn.request_digest) == (2, before)
    assert answers(asked(4)[-1]) == [["left_out"], "b", "c"]
    assert (differences, run_now(run_id).status) == ([], "COMPLETED")


def drive_until_killed_after_c(run_id: UUID, at_point: At) -> None:
    def after_c(context: Any) -> ToolOutcome:
        at_point("after_result_commit", kill)
        return ToolOutcome({**LONG, "label": "c"})

    SCRIPT.do("c", after_c)
    with pytest.raises(Killed):
        drive(run_id)


def test_a_compaction_that_can_not_be_saved_is_not_adopted(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    def spoiled(candidate: Candidate) -> Prepared | NotSaved:
        if candidate.trigger != Trigger.COMPACTION:
            return prepare(candidate)
        draft = Snapshot.model_construct(**{**vars(candidate.snapshot), "turn_no": -1})
        return prepare(replace(candidate, snapshot=draft))

    with monkeypatch.context() as patch:
        patch.setattr(sessions, "prepare", spoiled)
        run_id = engine.run(calls(("look", "a")), calls(("look", "b")), [TOO_LONG, TOO_LONG, calls()])
    run = run_now(run_id)
    assert (run.status, run.hold_reason, triggers(run_id).count("COMPACTION")) == ("HELD", "SAVE_REFUSED", 0)
    before = ModelCall.objects.get(run_id=run_id, turn_no=3).request_digest
    digests: list[str] = []
    SCRIPT.watch = lambda _: digests.append(ModelCall.objects.get(run_id=run_id, turn_no=3).request_digest)
    engine.resume(run_id)
    drive(run_id)
    assert digests[0] == before != digests[1]
    assert [answers(request) for request in asked(3)] == [["a", "b"], ["a", "b"], [["left_out"], "b"]]
    assert run_now(run_id).status == "COMPLETED"


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    with proxied(settings_test.SOCKET_DIR) as proxy:
        yield proxy


@pytest.mark.parametrize(("lost", "status"), [("answer", "SAVED"), ("request", "NOT_SAVED")])
def test_a_compaction_of_unknown_outcome_is_adopted_only_if_it_is_there(
    engine: Engine, at_point: At, proxy: Proxy, lost: Lost, status: str
) -> None:
    """X09: otherwise the next request is the one from before."""
    SCRIPT.tell(calls(("look", "a")), calls(("look", "b")), [TOO_LONG, calls(("look", "c"))])
    run_id = engine.start()
    digests: list[str] = []
    SCRIPT.watch = lambda _: digests.append(ModelCall.objects.filter(run_id=run_id).latest("turn_no").request_digest)
    at_point("during_compaction_save", lambda: proxy.cut(commit, lost))
    through(proxy, lambda: drive(run_id))
    assert proxy.happened.is_set()
    assert SaveAttempt.objects.get(run_id=run_id).status == status
    first, again = digests[2:4]
    assert (again == first) == (status == "NOT_SAVED")
    assert answers(asked(3)[1]) == (["a", "b"] if status == "NOT_SAVED" else [["left_out"], "b"])
    assert run_now(run_id).status == "COMPLETED"
