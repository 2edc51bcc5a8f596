"""The canonical test (B-041): the search's result is committed, the worker is killed, the next one takes over after the
lease has run out, the run completes, and the evidence was searched once in all.
"""

import pytest

from runtime.services import Started, StartRequest, run_start, typed_text
from tests.scenarios.records import Records
from tests.scenarios.world import World

pytestmark = pytest.mark.process

SEARCH = "search_evidence"


def test_a_committed_search_is_never_searched_again(world: World) -> None:
    killed = world.kill_at("after_result_commit", SEARCH)
    searched_before = world.outside_counts()["evidence"]["total"]
    claims = {"claims": typed_text("Northwind Grid operated 412 substations at the end of 2025.")}
    started = run_start(actor=world.person(), wanted=StartRequest("evidence_search", claims))
    assert isinstance(started, Started)
    killed.wait()
    records = Records(started.run_id)
    search = records.call(SEARCH)
    assert (search.status, records.result(search)) == ("SUCCEEDED", ("LIVE", True, 1, 1))

    world.wait_status(started.run_id, "COMPLETED")

    assert records.run.takeovers == 1
    assert records.transitions == [
        ("QUEUED", "ADMITTED", None),
        ("RUNNING", "ACQUIRED", 1),
        ("RUNNING", "TAKEOVER", 2),
        ("COMPLETED", "FINISHED", 2),
    ]
    assert records.tries(search) == [("OK", 1, "policy:builtin-1")]
    counts = world.outside_counts()["evidence"]
    assert counts["total"] - searched_before == 1
    assert counts["keys"][search.idempotency_key] == 1
    assert records.reports == [(1, "console", "PUBLISHED")]
    assert records.refusals == []
