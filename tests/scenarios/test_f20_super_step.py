"""F20: three searches go side by side; two are done when the worker is killed. Those are never searched again."""

import pytest

from checkpoints.models import Checkpoint, TaskWrite
from checkpoints.selectors import checkpoint_view
from receipts.models import ToolCall
from runtime.services import Started, StartRequest, run_start, typed_text
from tests.scenarios.records import Records
from tests.scenarios.world import World
from tests.waiting import wait_until

pytestmark = pytest.mark.process

SEARCH = "search_evidence"
CLAIMS = (
    "Northwind Grid operated 412 substations at the end of 2025.",
    "Cinderford Storage is owned by Northwind Grid.",
    "Quarry Robotics has 90 employees.",
)


def test_finished_siblings_are_not_repeated(world: World) -> None:
    world.tell_outside(mode="hang", times=1, execute="never", **{"for": "evidence"})
    claims = {"claims": typed_text("\n".join(CLAIMS))}
    started = run_start(actor=world.person(), wanted=StartRequest("evidence_search", claims))
    assert isinstance(started, Started), started
    records = Records(started.run_id)
    tasks = TaskWrite.objects.filter(run_id=started.run_id)
    wait_until(lambda: tasks.count() == 2, "two of the searches are done")
    world.wait_held("evidence")
    base, phase = records.head
    done = {row.tool_call_id for row in tasks}
    open_call = ToolCall.objects.filter(run_id=started.run_id, tool=SEARCH).exclude(id__in=done).get()
    assert (phase, open_call.status) == ("AWAITING_TOOL_RESULT", "DISPATCHED")

    killed = world.kill_at("after_attempt_commit", SEARCH)  # where the third one is sent for the second time
    world.tell_outside(mode="ok", **{"for": "evidence"})  # its request is cut without an answer
    killed.wait()
    assert records.head == (base, phase)
    world.wait_status(started.run_id, "COMPLETED")

    for call in ToolCall.objects.filter(id__in=done):
        assert (call.status, records.tries(call)) == ("SUCCEEDED", [("OK", 1, "policy:builtin-1")])
        assert records.result(call) == ("LIVE", True, 1, 1)
    assert records.tries(open_call) == [
        ("NO_RESPONSE", 1, "policy:builtin-1"),
        ("NO_RESPONSE", 1, "policy:read-only"),
        ("OK", 2, "policy:read-only"),
    ]
    assert [row.base_revision for row in tasks.all()] == [base, base]
    keys = world.outside_counts()["evidence"]["keys"]
    assert [keys[call.idempotency_key] for call in ToolCall.objects.filter(run_id=started.run_id, tool=SEARCH)] == [
        1
    ] * 3
    after = checkpoint_view(Checkpoint.objects.get(run_id=started.run_id, revision=base + 1))
    before = checkpoint_view(Checkpoint.objects.get(run_id=started.run_id, revision=base))
    assert records.phases[base] == ("TOOL_RESULT_RECORDED", 2)
    assert after["superstep"] == before["superstep"] + 1
    assert {result["call"] for result in after["results"]} >= {str(id) for id in (*done, open_call.id)}
    assert records.run.takeovers == 1
    assert set(records.turns) == {("SEALED", 1)}
