"""X05: killed between a local business write and its journal row. Neither is there; the journal says so; it is done once."""

import pytest

from receipts.models import Effect, Reconciliation, ReportVersion, Result
from tests.scenarios.records import Records
from tests.scenarios.world import World

pytestmark = pytest.mark.process

DRAFT = "send_answer_part"


def test_a_local_write_and_its_journal_row_are_there_together_or_not_at_all(world: World) -> None:
    world.stop_beat()
    killed = world.kill_at("inside_result_tx", DRAFT)
    run_id = world.start_run()
    killed.wait()
    records = Records(run_id)
    draft = records.call(DRAFT)
    assert not ReportVersion.objects.filter(run_id=run_id).exists()
    assert not Effect.objects.filter(tool_call=draft).exists()
    assert not Result.objects.filter(tool_call=draft).exists()

    world.start_processes()
    world.approve(world.open_wait(run_id))
    world.wait_status(run_id, "COMPLETED")

    draft = records.call(DRAFT)
    assert (draft.status, records.tries(draft)) == (
        "SUCCEEDED",
        [("NO_RESPONSE", 1, "policy:builtin-1"), ("OK", 2, "probe")],
    )
    verdict = Reconciliation.objects.get(tool_call=draft)
    assert (verdict.method, verdict.verdict, verdict.follow_up) == ("PROBE", "NOT_EXECUTED", "RETRY")
    assert verdict.evidence == "the effect journal has no row of it"
    assert records.effects(draft) == 1
    assert ReportVersion.objects.filter(run_id=run_id, tool_call=draft).count() == 1
    assert records.run.takeovers == 1
