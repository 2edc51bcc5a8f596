"""The window in which an IDEMPOTENT tool tells a repetition by its key."""

import pytest

from receipts.models import ToolCall
from runtime.contracts import ToolRetryable
from runtime.loop import drive
from tests.engine.engine import Engine, call_named, run_now, sql
from tests.engine.flags import UNKNOWN, while_sending
from tests.scripted import SCRIPT, calls, went_well

# ── the window of an IDEMPOTENT tool ─────────────────────────────────────────


def age_tries(call: ToolCall, seconds: int) -> None:
    """Let the tries of a call have been sent earlier, past the guard that keeps them."""
    sql("SET session_replication_role = replica")
    sql(
        "UPDATE receipts_attempt SET dispatched_at = dispatched_at - %s * interval '1 second' WHERE tool_call_id = %s",
        seconds,
        call.id,
    )
    sql("SET session_replication_role = origin")


@pytest.mark.parametrize(("age", "sent"), [(0, ["a", "a"]), (590, ["a", "a"]), (596, ["a"]), (3600, ["a"])])
def test_a_key_is_sent_again_only_while_its_window_lasts(engine: Engine, age: int, sent: list[str]) -> None:
    """The tool declares 600 s; another try may take its 5 s, so 595 s after the first one in doubt is too late."""
    run_id = engine.run(calls(("again", "a")))
    engine.approve(run_id)
    SCRIPT.do("a", while_sending(lambda: age_tries(call_named(run_id, "a"), age), UNKNOWN), went_well("a"))
    drive(run_id)
    assert SCRIPT.labels("again") == sent
    run = run_now(run_id)
    if len(sent) == 2:
        assert run.status == "COMPLETED"
    else:
        assert (run.status, run.hold_reason) == ("HELD", "UNCERTAIN_CALL")
        assert "is over" in run.hold_detail


def test_a_not_now_after_a_try_in_doubt_does_not_outlast_the_window(engine: Engine) -> None:
    """The second try said that it did not do it; whether the first one did is open, and its key is forgotten by now."""
    run_id = engine.run(calls(("again", "a")))
    engine.approve(run_id)
    old = while_sending(lambda: age_tries(call_named(run_id, "a"), 3600), ToolRetryable("busy"))
    SCRIPT.do("a", UNKNOWN, old, went_well("a"))
    drive(run_id)
    call = call_named(run_id, "a")
    assert (call.status, run_now(run_id).hold_reason) == ("UNCERTAIN", "UNCERTAIN_CALL")
    assert SCRIPT.labels("again") == ["a", "a"]
    engine.reconcile(call, "NOT_EXECUTED", "RETRY", by="rolf")
    drive(run_id)
    assert (run_now(run_id).status, SCRIPT.labels("again")) == ("COMPLETED", ["a", "a", "a"])


def test_a_not_now_without_a_doubt_is_tried_again_at_any_time(engine: Engine) -> None:
    run_id = engine.run(calls(("again", "a")))
    engine.approve(run_id)
    old = while_sending(lambda: age_tries(call_named(run_id, "a"), 3600), ToolRetryable("busy"))
    SCRIPT.do("a", old, went_well("a"))
    drive(run_id)
    assert (run_now(run_id).status, SCRIPT.labels("again")) == ("COMPLETED", ["a", "a"])
