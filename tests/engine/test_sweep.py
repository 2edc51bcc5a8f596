"""The sweep: what fails for one run keeps it from no other, and is shown until it is past."""

from uuid import UUID

import pytest

from runs.models import BudgetEntry, SweepFailure
from runtime import sweep as sweeping
from runtime.contracts import ToolUnknown
from runtime.loop import drive
from runtime.tasks import sweep
from tests.engine.engine import At, Engine, Killed, call_named, kill, open_wait, pass_deadline, run_now, sql
from tests.scripted import SCRIPT, calls


def forbid_expiry(run_id: UUID) -> None:
    """Have the database refuse that a wait of this run expires, as a bug of a constraint would."""
    sql(f"ALTER TABLE approvals_wait ADD CONSTRAINT bug CHECK (run_id <> '{run_id}' OR status <> 'EXPIRED')")


@pytest.fixture
def two_expired(engine: Engine) -> tuple[UUID, UUID]:
    """Two runs whose wait has passed its deadline, the older one first in every sweep."""
    runs = engine.run(calls(("once", "a"))), engine.run(calls(("once", "a")))
    for run_id in runs:
        pass_deadline(open_wait(run_id))
    return runs


def test_a_wait_that_raises_keeps_no_other_from_its_expiry(engine: Engine, two_expired: tuple[UUID, UUID]) -> None:
    bad, good = two_expired
    forbid_expiry(bad)
    try:
        sweep()
        sweep()
        assert (run_now(bad).status, run_now(good).status) == ("WAITING", "QUEUED")
        assert engine.hints.count(good) >= 1
        (failure,) = SweepFailure.objects.all()
        assert (failure.run_id, failure.step, failure.times) == (bad, "expire", 2)
        assert "IntegrityError" in failure.error
    finally:
        sql("ALTER TABLE approvals_wait DROP CONSTRAINT bug")
    sweep()
    assert run_now(bad).status == "QUEUED"
    assert not SweepFailure.objects.exists()


def test_a_step_whose_units_cant_be_listed_keeps_no_other_step(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = engine.start()
    engine.hints.clear()
    monkeypatch.setattr(sweeping, "waits_past_deadline", lambda: sql("SELECT no_such_column FROM runs_run"))
    with pytest.raises(Exception, match="no_such_column"):
        sweep()
    assert engine.hints == [run_id]


def test_a_sweeper_that_is_killed_leaves_the_rest_to_the_next_sweep(
    engine: Engine, two_expired: tuple[UUID, UUID], at_point: At
) -> None:
    """B54."""
    at_point("during_sweep@expire", kill)
    with pytest.raises(Killed):
        sweep()
    sweep()
    assert [run_now(run_id).status for run_id in two_expired] == ["QUEUED", "QUEUED"]


@pytest.mark.parametrize(("verdict", "then", "spent", "kind"), [
    ("EXECUTED", "NONE", 8, "SETTLE"),
    ("NOT_EXECUTED", "FAIL", 0, "RELEASE"),
])  # fmt: skip
def test_a_verdict_settles_what_is_held_for_every_unanswered_attempt(
    engine: Engine, verdict: str, then: str, spent: int, kind: str
) -> None:
    SCRIPT.do("a", ToolUnknown("no answer"))
    run_id = engine.run(calls(("again", "a")))
    if run_now(run_id).status == "WAITING":
        engine.approve(run_id)
        drive(run_id)
    call = call_named(run_id, "a")
    assert (call.status, call.attempts, run_now(run_id).hold_reason) == ("UNCERTAIN", 8, "UNCERTAIN_CALL")
    engine.reconcile(call, verdict, then)
    budget = run_now(run_id).budgets.get(unit="tool_calls")
    assert (budget.held_unknown, budget.reserved, budget.spent) == (0, 0, spent)
    entries = BudgetEntry.objects.filter(receipt_id=call.id).order_by("attempt_no", "at")
    assert [entry.kind for entry in entries] == ["RESERVE", "HOLD_UNKNOWN", kind] * 8
