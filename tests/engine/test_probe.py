"""A look that a person asks for under the key of a call of unknown outcome: evidence, and never a verdict."""

from functools import partial
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.utils import Error as DatabaseError

from accounts.errors import NotAllowed, NotFound
from accounts.models import AuditEvent
from receipts.errors import AttemptsMoved, NothingToProbe, NotUncertain, ProbeUnderWay
from receipts.models import Contradiction, Effect, Probe, Reconciliation, Result, ToolCall
from receipts.states import Found
from runtime.contracts import ToolContext, ToolOutcome, ToolUnknown
from runtime.loop import drive
from runtime.services import Probed, call_probe, can_probe
from tests.engine.engine import Engine, call_named, people, run_now, sql
from tests.engine.races import Aside, Gate, together
from tests.scripted import SCRIPT, calls, went_well

PROBING = "rita"


def unknown(engine: Engine, tool: str = "asked") -> ToolCall:
    """A call whose outcome nobody knows, on a run that is held by it."""
    SCRIPT.do("a", ToolUnknown("no answer"))
    SCRIPT.tell(calls((tool, "a")))
    run_id = engine.start()
    drive(run_id)
    engine.approve(run_id)
    drive(run_id)
    call = call_named(run_id, "a")
    assert (call.status, run_now(run_id).status) == ("UNCERTAIN", "HELD")
    return call


def probe(engine: Engine, call: ToolCall, by: str = PROBING, attempts: int | None = None) -> Any:
    return call_probe(actor=engine.person(by), call_id=call.id, attempts=attempts)


@pytest.mark.parametrize(
    ("found", "says", "ref"),
    [(went_well("a"), Found.THERE, "ref-a"), (False, Found.NOT_THERE, None), (None, Found.UNTOLD, None)],
)
def test_what_is_found_is_stored_and_nothing_else_is_changed(engine: Engine, found: Any, says: Found, ref: str) -> None:
    call = unknown(engine)
    SCRIPT.find("a", None, found)
    before = (run_now(call.run_id).status, call.attempts, len(SCRIPT.sent))
    outcome = probe(engine, call)
    assert isinstance(outcome, Probed) and outcome.found == says
    row = Probe.objects.get()
    assert (row.found, row.external_ref, row.attempt_no, row.early) == (says, ref, 1, False)
    assert row.asked_by == "person:rita-north" and row.answered_at is not None and row.asked_at < row.answered_at
    call.refresh_from_db()
    assert (call.status, call.blocking) == ("UNCERTAIN", True)
    assert (run_now(call.run_id).status, call.attempts, len(SCRIPT.sent)) == before
    assert not Reconciliation.objects.exists() and not Result.objects.filter(tool_call=call).exists()
    assert not Effect.objects.exists() and not Contradiction.objects.exists()
    assert AuditEvent.objects.filter(action="call.probe", object_id=str(call.id)).count() == 1


def test_it_is_stored_before_anybody_is_asked_and_outside_of_a_transaction(engine: Engine) -> None:
    call = unknown(engine)
    seen: list[Any] = []

    def look(context: ToolContext) -> ToolOutcome:
        seen.append((connection.in_atomic_block, Aside(lambda: Probe.objects.get(answered_at=None).asked_by).result()))
        return went_well("a")

    SCRIPT.find("a", None, look)
    probe(engine, call)
    assert seen == [(False, "person:rita-north")]


def test_what_is_not_there_yet_may_still_come(engine: Engine) -> None:
    SCRIPT.do("a", ToolUnknown("no answer"))
    SCRIPT.tell(calls(("asked-slowly", "a")))
    run_id = engine.start()
    drive(run_id)
    engine.approve(run_id)
    SCRIPT.find("a", None, False)
    drive(run_id)
    call = call_named(run_id, "a")
    outcome = probe(engine, call)
    assert isinstance(outcome, Probed) and (outcome.found, outcome.early) == (Found.NOT_THERE, True)


def test_a_tool_that_can_not_be_asked_is_not_asked(engine: Engine) -> None:
    call = unknown(engine, "once")
    assert not can_probe(call)
    assert isinstance(probe(engine, call), NothingToProbe)
    assert not Probe.objects.exists() and not SCRIPT.probed


def test_only_a_reconciler_asks_about_what_is_unknown_and_as_they_saw_it(engine: Engine) -> None:
    call = unknown(engine)
    assert isinstance(probe(engine, call, by="otto"), NotAllowed)
    assert isinstance(probe(engine, call, attempts=2), AttemptsMoved)
    with pytest.raises(NotFound):
        call_probe(actor=Engine(people("south")).person("rita"), call_id=call.id)
    engine.reconcile(call, "EXECUTED")
    assert isinstance(probe(engine, call), NotUncertain)
    assert not Probe.objects.exists()


def test_one_look_at_a_time(engine: Engine) -> None:
    call, gate = unknown(engine), Gate()
    SCRIPT.find("a", None, gate.before(lambda _: went_well("a")))
    first = Aside(lambda: probe(engine, call))
    gate.wait_reached()
    refused = together(*[partial(probe, engine, call, "rolf")] * 3)
    assert [type(one) for one in refused] == [ProbeUnderWay] * 3 and "rita-north" in refused[0].sentence
    gate.open()
    assert first.result().found == Found.THERE
    assert Probe.objects.count() == 1
    assert isinstance(probe(engine, call, "rolf"), Probed)


def test_a_look_whose_asker_was_lost_is_closed_by_the_next_one(engine: Engine) -> None:
    call = unknown(engine)
    lost = Probe.objects.create(tenant_id=call.tenant_id, tool_call=call, attempt_no=1, asked_by="person:x")
    assert isinstance(probe(engine, call), ProbeUnderWay)
    sql("ALTER TABLE receipts_probe DISABLE TRIGGER ALL")
    sql("UPDATE receipts_probe SET asked_at = clock_timestamp() - interval '1 hour' WHERE id = %s", lost.id)
    sql("ALTER TABLE receipts_probe ENABLE TRIGGER ALL")
    assert isinstance(probe(engine, call), Probed)
    lost.refresh_from_db()
    assert (lost.found, lost.how) == ("UNTOLD", "whoever asked was lost before the answer")


def test_a_verdict_that_was_given_while_somebody_was_asked_is_flagged_where_the_probe_says_otherwise(
    engine: Engine,
) -> None:
    call, gate = unknown(engine), Gate()
    SCRIPT.find("a", None, gate.before(lambda _: went_well("a")))
    look = Aside(lambda: probe(engine, call))
    gate.wait_reached()
    engine.reconcile(call, "NOT_EXECUTED", then="FAIL")
    gate.open()
    look.result()
    flag = Contradiction.objects.get()
    assert (flag.source, flag.accepted, flag.says) == ("PROBE", "NOT_EXECUTED", "EXECUTED")
    assert Reconciliation.objects.get().verdict == "NOT_EXECUTED"


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE receipts_probe SET found = 'NOT_THERE', external_ref = NULL",
        "UPDATE receipts_probe SET asked_by = 'person:other'",
        "DELETE FROM receipts_probe",
    ],
)
def test_the_database_keeps_what_was_found(engine: Engine, change: str) -> None:
    call = unknown(engine)
    SCRIPT.find("a", None, went_well("a"))
    probe(engine, call)
    with pytest.raises(DatabaseError), transaction.atomic():
        sql(change)
    assert Probe.objects.get().found == "THERE"
