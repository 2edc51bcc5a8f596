"""One byte of the arguments changed by direct SQL after the approval: nothing is sent, and each time it is shown."""

from collections.abc import Iterator
from uuid import UUID

import pytest

from accounts.selectors import sealed_body
from approvals.models import Wait
from receipts.models import Attempt, ToolCall
from receipts.selectors import call_arguments
from runs.models import Refusal
from runtime.loop import drive
from tests.agents import SCRIPT, calls
from tests.engine.engine import Engine, call_named, open_wait, run_now, sql


def other_bodies(call: ToolCall) -> Iterator[bytes]:
    """Bodies that differ by one byte from the approved one, without end and none twice: by turns in the stored bytes, and in
    the arguments themselves, sealed anew with the tenant's own key as somebody who holds it could.
    """
    stored, plain = bytes(call.args), call_arguments(call)
    for change in range(1, 256):
        for place in range(max(len(stored), len(plain))):
            for body, seals in ((stored, False), (plain, True)):
                if place < len(body):
                    other = bytearray(body)
                    other[place] ^= change
                    yield sealed_body(key_id=call.data_key_id, plain=bytes(other)) if seals else bytes(other)


def is_held_for_it(run_id: UUID) -> bool:
    run = run_now(run_id)
    return (run.status, run.hold_reason) == ("HELD", "RESUME_REFUSED") and run.hold_detail.startswith("DIGEST_MISMATCH")


@pytest.mark.parametrize("ways", [25, pytest.param(1000, marks=pytest.mark.matrix)])
def test_one_changed_byte_after_the_approval_sends_nothing_and_is_shown(engine: Engine, ways: int) -> None:
    run_id = engine.run(calls(("once", "a")))
    call = call_named(run_id, "a")
    change = "UPDATE receipts_toolcall SET args = %s WHERE id = %s"
    bodies = other_bodies(call)
    for way in range(ways):
        engine.approve(run_id)
        approved = Wait.objects.get(run_id=run_id, status="APPROVED")
        sql(change, next(bodies), call.id)
        drive(run_id)
        assert is_held_for_it(run_id), way
        approved.refresh_from_db()
        assert approved.status == "INVALIDATED", way
        sql(change, bytes(call.args), call.id)
        engine.resume(run_id)
        drive(run_id)
        assert open_wait(run_id).tool_call_id == call.id, way
    shown = Refusal.objects.filter(run_id=run_id, kind="DIGEST_MISMATCH", subject_id=call.id)
    assert (shown.count(), SCRIPT.labels("once"), Attempt.objects.filter(tool_call=call).count()) == (ways, [], 0)
    engine.approve(run_id)
    drive(run_id)
    assert SCRIPT.labels("once") == ["a"]


def test_one_changed_byte_before_the_decision_is_refused_to_every_verdict(engine: Engine, wait: Wait) -> None:
    call = ToolCall.objects.get(id=wait.tool_call_id)
    bodies = other_bodies(call)
    for _ in range(25):
        sql("UPDATE receipts_toolcall SET args = %s WHERE id = %s", next(bodies), call.id)
        for verdict in ("APPROVE", "REJECT"):
            assert getattr(engine.decide(wait, verdict), "code", "") == "ARGS_CHANGED"
    assert Wait.objects.get(id=wait.id).status == "OPEN"
