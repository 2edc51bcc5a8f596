"""Ending a run by what is known, on a person's word; and that nothing completes while it owes something."""

from uuid import UUID

import pytest
from django.db import IntegrityError

from accounts.errors import Invalid, NotAllowed, NotFound
from checkpoints.models import Obligation
from checkpoints.states import ObligationStatus
from receipts.states import CallStatus
from runs.errors import RunEnded, RunHeldByWorker
from runs.models import RunTransition, Wakeup
from runs.states import NextAct, next_acts
from runtime.contracts import ToolUnknown
from runtime.loop import drive
from runtime.services import Settled, run_end_settled
from tests.engine.engine import Engine, call_named, head_of, lease_of, open_wait, people, phases, run_now, sql
from tests.engine.races import together
from tests.scripted import SCRIPT, calls


def unknown(engine: Engine) -> UUID:
    """A run that is held by a call of unknown outcome, and owes it."""
    SCRIPT.do("promised", ToolUnknown("no answer"))
    run_id = engine.run(calls(("once", "promised")), agent="promising")
    engine.approve(run_id)
    drive(run_id)
    assert run_now(run_id).hold_reason == "UNCERTAIN_CALL"
    return run_id


def test_a_held_run_ends_by_what_is_known(engine: Engine) -> None:
    run_id = unknown(engine)
    before = phases(run_id)
    outcome = engine.settle(run_id)
    settlement = {
        "known_calls": 0,
        "unknown_calls": 1,
        "unknown_turns": 0,
        "reports": [],
        "open_obligations": ["once/promised"],
    }
    assert outcome == Settled(run_id, settlement)
    run = run_now(run_id)
    assert (run.status, run.settlement, run.hold_reason) == ("SETTLED", settlement, None)
    assert run.end_reason == "settled by otto-north: nobody needs it"
    assert (lease_of(run_id).owner, phases(run_id)) == (None, before)
    assert (call_named(run_id, "promised").status, Obligation.objects.get(run=run).status) == ("UNCERTAIN", "OPEN")
    move = RunTransition.objects.filter(run=run).latest("id")
    assert (move.from_status, move.to_status, move.actor) == ("HELD", "SETTLED", "person:otto-north")
    assert ("run.settle", "person:otto", None) in engine.audited()
    drive(run_id)
    assert (run_now(run_id).status, SCRIPT.labels("once")) == ("SETTLED", ["promised"])
    engine.reconcile(call_named(run_id, "promised"), "EXECUTED")
    assert Obligation.objects.get(run=run).status == ObligationStatus.FULFILLED


def test_a_waiting_run_takes_its_wait_and_its_unsent_call_with_it(engine: Engine) -> None:
    run_id = engine.run(calls(("once", "a")))
    wait = open_wait(run_id)
    assert isinstance(engine.settle(run_id), Settled)
    wait.refresh_from_db()
    assert (wait.status, call_named(run_id, "a").status) == ("CANCELLED", CallStatus.CANCELLED)
    assert isinstance(engine.settle(run_id), RunEnded)


def test_a_decided_run_is_settled_with_its_wakeup(engine: Engine) -> None:
    run_id = engine.run(calls(("once", "a")))
    engine.approve(run_id)
    assert isinstance(engine.settle(run_id), Settled)
    assert list(Wakeup.objects.filter(run_id=run_id).values_list("status", flat=True)) == ["CANCELLED"]
    drive(run_id)
    assert (SCRIPT.labels("once"), head_of(run_id).phase) == ([], "AWAITING_APPROVAL")


def test_a_run_under_a_lease_is_not_settled(engine: Engine) -> None:
    run_id = engine.start()
    sql("UPDATE runs_lease SET fence = 1, owner = 'w', expires_at = clock_timestamp() + interval '1 hour'")
    assert isinstance(engine.settle(run_id), RunHeldByWorker)
    sql("UPDATE runs_run SET status = 'RUNNING'")
    assert isinstance(engine.settle(run_id), RunHeldByWorker)


def test_only_an_operator_of_the_tenant_settles_with_a_reason_and_once(engine: Engine) -> None:
    run_id = unknown(engine)
    assert isinstance(engine.settle(run_id, by="ann"), NotAllowed)
    assert isinstance(engine.settle(run_id, reason=" "), Invalid)
    with pytest.raises(NotFound):
        run_end_settled(actor=Engine(people("south")).person("olga"), run_id=run_id, reason="mine")
    outcomes = together(*[lambda: engine.settle(run_id) for _ in range(3)])
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["RunEnded", "RunEnded", "Settled"]


def test_a_settlement_and_a_stop_at_once_end_it_once(engine: Engine) -> None:
    run_id = unknown(engine)
    together(lambda: engine.settle(run_id), lambda: engine.stop(run_id))
    assert run_now(run_id).status in ("SETTLED", "CANCELLED")
    assert RunTransition.objects.filter(run_id=run_id, to_status__in=["SETTLED", "CANCELLED"]).count() == 1


def test_the_database_completes_no_run_that_owes_something(engine: Engine) -> None:
    """T39, whoever writes."""
    run_id = engine.start("promising")
    sql("UPDATE runs_run SET status = 'RUNNING'")
    complete = "UPDATE runs_run SET status = 'COMPLETED', ended_at = clock_timestamp() WHERE id = %s"
    with pytest.raises(IntegrityError, match="open obligation"):
        sql(complete, run_id)
    engine.release(run_id)
    sql(complete, run_id)


@pytest.mark.parametrize(
    ("status", "hold_reason", "acts"),
    [
        ("QUEUED", None, "pause stop settle"),
        ("RUNNING", None, "pause stop abort"),
        ("STOPPING", None, "stop abort"),
        ("WAITING", None, "decide pause stop settle"),
        ("HELD", "UNCERTAIN_CALL", "reconcile stop settle"),
        ("HELD", "OBLIGATION_OPEN", "release stop settle"),
        ("HELD", "BUDGET", "raise-cap resume stop settle"),
        ("HELD", "RESUME_REFUSED", "resume stop settle"),
        ("HELD", "TAKEOVER_LIMIT", "resume stop settle"),
        ("HELD", "PAUSED", "resume stop settle"),
        ("COMPLETED", None, ""),
        ("CANCELLED", None, "continue"),
        ("SETTLED", None, "continue"),
    ],
)
def test_what_can_be_done_next_follows_from_where_the_run_is(status: str, hold_reason: str | None, acts: str) -> None:
    assert next_acts(status, hold_reason) == tuple(NextAct(act) for act in acts.split())
