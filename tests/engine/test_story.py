"""The whole story in one process, against a real outside world: every row that it leaves, and no other."""

from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest
from pytest_django import Settings

from accounts.audit import audit_verify
from checkpoints.models import Obligation
from checkpoints.selectors import load_head
from receipts.models import Attempt, Effect, Publication, ReportVersion, Result, ToolCall
from receipts.selectors import report_body
from runs.models import Budget, RunTransition
from runtime.loop import drive
from runtime.services import Upload
from tests.engine.engine import Engine, added, attempts_of, counts, lease_of, open_wait, phases, run_now, sql
from tests.unit.agent_runs import A, B
from tests.unit.outside_world import OutsideWorld, outside_world

FILES = {"a": Upload("larch.csv", A), "b": Upload("maple.csv", B)}
TURNS, CALLS = 7, 6

# t1, t2, t3 are read-only: sealed and sent in one commit. t4 and t6 have an effect: the decision is a revision of its own.
UNTIL_THE_WAIT = [
    "READY_TO_DECIDE",
    *["AWAITING_TOOL_RESULT", "TOOL_RESULT_RECORDED"] * 3,
    *["DECISION_RECORDED", "AWAITING_TOOL_RESULT", "TOOL_RESULT_RECORDED"],
    *["AWAITING_TOOL_RESULT", "TOOL_RESULT_RECORDED"],
    *["DECISION_RECORDED", "AWAITING_APPROVAL"],
]
AFTER_THE_WAIT = ["AWAITING_TOOL_RESULT", "TOOL_RESULT_RECORDED", "READY_TO_VERIFY", "FINISHED"]
PHASES = [*UNTIL_THE_WAIT, *AFTER_THE_WAIT]

ROWS = {
    "accounts_auditevent": 2,  # start and decision; a worker's moves are not audited
    "approvals_decision": 1,
    "approvals_policydecision": CALLS,
    "approvals_policyhead": 1,  # of the tenant, made for its first run
    "approvals_vote": 1,
    "approvals_wait": 1,
    "checkpoints_commitment": 2,
    "checkpoints_checkpoint": len(PHASES),
    "checkpoints_head": 1,
    "checkpoints_intent": 1,
    "checkpoints_obligation": 2,
    "receipts_attempt": TURNS + CALLS,
    "receipts_claim": 2,
    "receipts_effect": 2,
    "receipts_modelcall": TURNS,
    "receipts_proposal": TURNS,
    "receipts_publication": 2,
    "receipts_report": 1,
    "receipts_reportversion": 2,
    "receipts_result": CALLS,
    "receipts_toolcall": CALLS,
    "runs_agent": 1,
    "runs_allowance": 1,
    "runs_agentversion": 1,
    "runs_artifact": 2 + TURNS + 2,  # inputs, turns, report bodies
    "runs_budgetentry": 2 * TURNS + 2 * CALLS,  # each reserved and settled
    "runs_lease": 1,
    "runs_message": 1,
    "runs_run": 1,
    "runs_runinput": 2,
    "runs_runtransition": 6,
    "runs_thread": 1,
    "runs_wakeup": 1,
}


@pytest.fixture
def outside(engine: Engine, settings: Settings, tmp_path: Path) -> Iterator[OutsideWorld]:
    with outside_world(tmp_path) as world:
        settings.OUTSIDE_URL = world.url
        yield world


def finished(engine: Engine) -> UUID:
    run_id = engine.start("fund_comparison", inputs=FILES)
    drive(run_id)
    engine.approve(run_id)
    drive(run_id)
    return run_id


def test_the_story_leaves_exactly_these_rows(engine: Engine, outside: OutsideWorld) -> None:
    before = counts()
    run_id = engine.start("fund_comparison", inputs=FILES)
    drive(run_id)
    assert (run_now(run_id).status, phases(run_id)) == ("WAITING", UNTIL_THE_WAIT)
    assert outside.counts()["wiki"]["total"] == 0
    engine.approve(run_id)
    drive(run_id)
    assert (run_now(run_id).status, phases(run_id)) == ("COMPLETED", PHASES)
    assert added(before) == ROWS
    assert list(
        RunTransition.objects.filter(run_id=run_id).order_by("id").values_list("to_status", "cause", "fence")
    ) == [
        ("QUEUED", "ADMITTED", None),
        ("RUNNING", "ACQUIRED", 1),
        ("WAITING", "WAIT_OPENED", 1),
        ("QUEUED", "DECISION", None),
        ("RUNNING", "ACQUIRED", 2),
        ("COMPLETED", "FINISHED", 2),
    ]
    assert (lease_of(run_id).owner, lease_of(run_id).fence) == (None, 2)
    assert audit_verify(engine.tenant.id) == 2


def test_every_call_of_the_story_was_sent_once_and_is_accounted_for(engine: Engine, outside: OutsideWorld) -> None:
    run_id = finished(engine)
    by = {"publish_report/overlap-v2": "person:ann-north"}
    for call in ToolCall.objects.filter(run_id=run_id):
        assert attempts_of(call) == [(1, "OK", by.get(call.step_name, "policy:builtin-1"))]
        assert call.policy_decisions.count() == 1
        assert (Result.objects.get(tool_call=call).source, Result.objects.get(tool_call=call).ok) == ("LIVE", True)
    assert not Attempt.objects.exclude(outcome="OK").exists()
    published = ToolCall.objects.get(step_name="publish_report/overlap-v2")
    assert outside.counts()["wiki"]["keys"] == {published.idempotency_key: 1}
    assert outside.counts()["reference"]["total"] == 1
    assert list(Effect.objects.order_by("at").values_list("kind", flat=True)) == ["send_answer_part", "publish_report"]
    assert set(Obligation.objects.values_list("status", flat=True)) == {"FULFILLED"}


def test_the_budget_is_the_sum_of_its_entries(engine: Engine, outside: OutsideWorld) -> None:
    run_id = finished(engine)
    budgets = {row.unit: (row.reserved, row.held_unknown, row.spent) for row in Budget.objects.filter(run_id=run_id)}
    assert budgets == {
        "model_calls": (0, 0, TURNS),
        "tool_calls": (0, 0, CALLS),
        "tokens": (0, 0, 0),
        "usd_micros": (0, 0, 0),
    }
    summed = sql(
        "SELECT kind, sum(model_calls), sum(tokens), sum(tool_calls), count(*) FROM runs_budgetentry "
        "GROUP BY kind ORDER BY kind"
    )
    reserved = sum(sql("SELECT tokens FROM runs_budgetentry WHERE kind = 'RESERVE' AND tokens > 0"), ())
    assert summed == [
        ("RESERVE", TURNS, sum(reserved), CALLS, TURNS + CALLS),
        ("SETTLE", TURNS, 0, CALLS, TURNS + CALLS),
    ]
    assert len(reserved) == TURNS


def test_both_versions_of_the_report_are_readable_and_published(engine: Engine, outside: OutsideWorld) -> None:
    run_id = finished(engine)
    first, second = ReportVersion.objects.filter(run_id=run_id).order_by("version_no")
    assert (first.version_no, first.publications.get().channel, second.version_no) == (1, "console", 2)
    on_the_wiki = Publication.objects.get(report_version=second)
    assert (on_the_wiki.channel, on_the_wiki.status) == ("wiki", "PUBLISHED")
    assert on_the_wiki.external_ref == ToolCall.objects.get(step_name="publish_report/overlap-v2").external_ref
    assert all(f"call:{call}" in report_body(first) for call in first.source_calls)
    assert len(report_body(second)) > len(report_body(first))
    ends = load_head(run_now(run_id)).snapshot
    assert (ends.phase, len(ends.results), ends.turn_no, ends.barrier) == ("FINISHED", CALLS, TURNS, ())


def test_the_story_can_be_told_again_in_another_run(engine: Engine, outside: OutsideWorld) -> None:
    """Same inputs, another run: keys of its own, so both are published."""
    finished(engine), finished(engine)
    assert list(outside.counts()["wiki"]["keys"].values()) == [1, 1]


# A 503 of the wiki says that nothing was executed; one of a proxy before it says nothing (ADR 0063).
MISBEHAVING = [("drop", "UNCERTAIN"), ("gateway", "UNCERTAIN"), ("refuse", "FAILED"), ("busy", "SUCCEEDED")]


@pytest.mark.parametrize(("mode", "status"), MISBEHAVING)
def test_the_wiki_misbehaves_once(engine: Engine, outside: OutsideWorld, mode: str, status: str) -> None:
    run_id = engine.start("fund_comparison", inputs=FILES)
    drive(run_id)
    outside.control(mode=mode, times=1)
    engine.approve(run_id)
    drive(run_id)
    call = ToolCall.objects.get(step_name="publish_report/overlap-v2")
    held = {"UNCERTAIN": "UNCERTAIN_CALL", "FAILED": "OBLIGATION_OPEN", "SUCCEEDED": None}[status]
    assert (call.status, run_now(run_id).hold_reason) == (status, held)
    assert outside.executions(call.idempotency_key) == (0 if mode == "refuse" else 1)
    assert call.attempts == (2 if mode == "busy" else 1)


def test_a_rejected_publication_leaves_the_first_draft_and_an_open_promise(
    engine: Engine, outside: OutsideWorld
) -> None:
    run_id = engine.start("fund_comparison", inputs=FILES)
    drive(run_id)
    engine.decide(open_wait(run_id), "REJECT", reason="the title is wrong")
    drive(run_id)
    assert (run_now(run_id).status, run_now(run_id).hold_reason) == ("HELD", "OBLIGATION_OPEN")
    assert outside.counts()["wiki"]["total"] == 0
    assert list(Publication.objects.order_by("channel").values_list("channel", "status")) == [
        ("console", "PUBLISHED"),
        ("wiki", "FAILED"),
    ]
    engine.release(run_id)
    drive(run_id)
    assert run_now(run_id).status == "COMPLETED"
