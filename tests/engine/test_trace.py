"""The trace: what was seen, after the commit that it tells of; ids and digests only; and nothing rests on it."""

from collections.abc import Iterator
from uuid import UUID

import pytest
from django.db import connections
from pytest_django import Settings

from receipts.models import ToolCall
from runs.models import TraceEvent
from runs.trace import trace_flush
from runtime.contracts import ToolOutcome, ToolUnknown
from runtime.loop import drive
from tests.engine.engine import At, Engine, Killed, expire_lease, kill, phases, run_now, sql
from tests.scripted import SCRIPT, calls

MARK = "a very distinctive sentence"


@pytest.fixture(autouse=True)
def traced(engine: Engine, settings: Settings) -> Iterator[None]:
    settings.TRACE = True
    yield
    trace_flush()
    connections.close_all()


def names() -> list[str]:
    trace_flush()
    return list(TraceEvent.objects.order_by("at", "id").values_list("name", flat=True))


def test_a_run_leaves_what_was_seen_of_it_with_its_place(engine: Engine) -> None:
    run_id = engine.run(calls(("look", "a")))
    seen = names()
    assert [name for name in seen if name not in ("checkpoint_saved", "guards_passed")] == [
        *("resumed", "model_asked", "call_dispatched", "turn_sealed", "result_recorded"),
        *("model_asked", "turn_sealed", "run_moved"),
    ]
    recorded = TraceEvent.objects.get(name="result_recorded")
    call = ToolCall.objects.get()
    saved: dict[UUID | None, int] = {row.save_id: row.revision for row in run_now(run_id).checkpoints.all()}
    assert (recorded.run_id, recorded.thread_id, recorded.tool_call_id) == (run_id, call.run.thread_id, call.id)
    assert (recorded.trace_id, saved.get(recorded.checkpoint_id)) == (run_id.hex, 3)
    assert (
        TraceEvent.objects.filter(name="checkpoint_saved").count() == len(phases(run_id)) - 2
    )  # not the first, not the last


def test_each_reference_of_the_handoff_note_is_verified_before_the_model_is_asked(engine: Engine, at_point: At) -> None:
    """A-008."""
    SCRIPT.tell(calls(("look", "a")), calls(("look", "b")))
    run_id = engine.start()
    at_point("after_acquire", lambda: None)
    at_point("after_turn_sealed", lambda: at_point("after_turn_sealed", kill))
    with pytest.raises(Killed):
        drive(run_id)
    trace_flush()
    TraceEvent.objects.all().delete()
    expire_lease(run_id)
    drive(run_id)
    seen = names()
    assert seen.count("ref_verified") == 1
    assert seen.index("resumed") < seen.index("ref_verified") < seen.index("model_asked")
    assert TraceEvent.objects.get(name="ref_verified").tool_call_id == ToolCall.objects.get(step_name="look/a").id


def test_what_did_not_commit_is_not_seen(engine: Engine, at_point: At) -> None:
    """B-025."""
    SCRIPT.tell(calls(("note", "a")))
    run_id = engine.start()
    at_point("inside_result_tx", kill)
    with pytest.raises(Killed):
        drive(run_id)
    assert "result_recorded" not in names()
    assert ToolCall.objects.get(run_id=run_id).status == "DISPATCHED"


def test_no_text_of_anybody_is_in_a_trace(engine: Engine) -> None:
    """B-037."""
    SCRIPT.do("a", ToolOutcome({"found": MARK}))
    SCRIPT.do("b", ToolUnknown(MARK))
    run_id = engine.run(calls(("look", "a"), text=MARK), calls(("once", "b"), text=MARK))
    engine.revise(run_id, MARK)
    drive(run_id)
    engine.approve(run_id)
    drive(run_id)
    assert "outcome_unknown" in names()
    assert sql("SELECT count(*) FROM runs_traceevent e WHERE e::text LIKE %s", f"%{MARK}%") == [(0,)]


def test_a_trace_that_can_not_be_written_is_lost_and_nothing_else(engine: Engine) -> None:
    sql("ALTER TABLE runs_traceevent RENAME TO runs_traceaway")
    try:
        run_id = engine.run(calls(("look", "a")))
        trace_flush()
    finally:
        sql("ALTER TABLE runs_traceaway RENAME TO runs_traceevent")
    assert run_now(run_id).status == "COMPLETED"
