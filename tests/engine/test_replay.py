"""X02: a replay steps through stored outputs, asks nobody and writes nothing but the audit of the view (T13, D-066)."""

from typing import Any

import pytest

from accounts.errors import NotFound
from receipts.models import ModelCall, ToolCall
from runtime.contracts import ToolUnknown
from runtime.loop import drive
from tests.engine.engine import Engine, added, call_named, counts, people, phases, run_now, sql_past_triggers
from tests.scripted import SCRIPT, calls, done


def fail_if_asked(*_: object) -> Any:
    raise AssertionError("a replay asked somebody")


def test_a_replay_gives_the_sequence_of_the_receipts_and_asks_nobody(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = engine.run(calls(("look", "a"), ("nothing", "x")), calls(("note", "b")), calls(("once", "c")), done())
    engine.approve(run_id)
    drive(run_id)
    assert run_now(run_id).status == "COMPLETED"
    monkeypatch.setattr(SCRIPT, "answer", fail_if_asked)
    monkeypatch.setattr(SCRIPT, "run", fail_if_asked)
    before = counts()
    replay = engine.replay(run_id)
    assert added(before) == {"accounts_auditevent": 1}
    assert engine.audited()[-1] == ("run.replay", "person:vera", None)

    turns = [(step.turn_no, step.digest) for step in replay.steps if step.kind == "TURN"]
    stored = ModelCall.objects.filter(run_id=run_id).order_by("turn_no")
    assert turns == [(turn.turn_no, turn.response_digest) for turn in stored]
    called = [step.call_id for step in replay.steps if step.kind == "CALL" and step.call_id]
    assert called == list(ToolCall.objects.filter(run_id=run_id).order_by("ordinal").values_list("id", flat=True))
    assert [step.name for step in replay.steps] == [
        *("user", "scripted", "look/a", "nothing", "scripted", "note/b", "scripted", "once/c", "scripted", "finish")
    ]
    assert [phase for _, phase in replay.phases] == phases(run_id)
    assert all(step.intact for step in replay.steps)
    result = next(step for step in replay.steps if step.name == "once/c")
    assert (result.status, result.attempts, result.output) == ("SUCCEEDED", 1, {"label": "c"})


def test_a_run_that_is_held_can_be_replayed_as_it_is(engine: Engine) -> None:
    SCRIPT.do("a", ToolUnknown("no answer"))
    run_id = engine.run(calls(("once", "a")))
    engine.approve(run_id)
    drive(run_id)
    last = engine.replay(run_id).steps[-1]
    assert (last.name, last.status, last.output) == ("once/a", "UNCERTAIN", None)
    assert run_now(run_id).status == "HELD"


def test_a_changed_result_is_shown_as_changed(engine: Engine) -> None:
    run_id = engine.run(calls(("look", "a")), done())
    call = call_named(run_id, "a")
    sql_past_triggers("UPDATE receipts_result SET digest = repeat('0', 64) WHERE tool_call_id = %s", call.id)
    step = next(step for step in engine.replay(run_id).steps if step.call_id == call.id)
    assert not step.intact


def test_a_stranger_replays_nothing(engine: Engine) -> None:
    run_id = engine.run(done())
    stranger = Engine(people("far"))
    before = counts()
    with pytest.raises(NotFound):
        stranger.replay(run_id)
    assert added(before) == {}
