"""Every effect class by every outcome by every finding of a probe; and the effect journal (T04, D-030 to D-034)."""

from typing import Any
from uuid import UUID

import pytest
from django.db import DatabaseError

from receipts.models import Attempt, Effect, Reconciliation, ReportVersion, Result, ToolCall
from runs.selectors import database_now
from runtime.contracts import ToolFailed, ToolRetryable, ToolUnknown
from runtime.loop import drive
from tests.engine.engine import (
    At,
    Engine,
    Killed,
    call_named,
    expire_lease,
    kill,
    pass_retry,
    pass_time_limit,
    run_now,
    sql,
)
from tests.engine.lost import tool_budget
from tests.scripted import SCRIPT, calls, went_well

OUTCOMES: dict[str, Any] = {
    "ok": went_well("a"),
    "failed": ToolFailed("403: no"),
    "not now": ToolRetryable("503: busy"),
    "unknown": ToolUnknown("no answer"),
}
FOUND: dict[str, Any] = {"found": went_well("a"), "not found": False, "can't tell": None}
CLASSES = {"look": "READ_ONLY", "again": "IDEMPOTENT", "asked": "QUERYABLE", "once": "NON_IDEMPOTENT"}

# (call, attempts, run, source of the result, probes)
ANSWERED = {
    "ok": ("SUCCEEDED", 1, "COMPLETED", "LIVE", 0),
    "failed": ("FAILED", 1, "COMPLETED", "LIVE", 0),
    "not now": ("SUCCEEDED", 2, "COMPLETED", "LIVE", 0),
}
REPEATED = ("SUCCEEDED", 2, "COMPLETED", "LIVE", 0)
HELD = ("UNCERTAIN", 1, "HELD", None, 0)
UNANSWERED = {
    ("look", "found"): REPEATED,
    ("look", "not found"): REPEATED,
    ("look", "can't tell"): REPEATED,
    ("again", "found"): REPEATED,
    ("again", "not found"): REPEATED,
    ("again", "can't tell"): REPEATED,
    ("asked", "found"): ("SUCCEEDED", 1, "COMPLETED", "PROBE", 1),
    ("asked", "not found"): ("SUCCEEDED", 2, "COMPLETED", "LIVE", 1),
    ("asked", "can't tell"): ("UNCERTAIN", 1, "HELD", None, 1),
    ("once", "found"): HELD,
    ("once", "not found"): HELD,
    ("once", "can't tell"): HELD,
}


@pytest.mark.parametrize("found", FOUND)
@pytest.mark.parametrize("outcome", OUTCOMES)
@pytest.mark.parametrize("tool", CLASSES)
def test_each_class_by_each_outcome_by_each_finding(engine: Engine, tool: str, outcome: str, found: str) -> None:
    SCRIPT.do("a", OUTCOMES[outcome], went_well("a"))
    SCRIPT.find("a", FOUND[found])
    run_id = engine.run(calls((tool, "a")))
    if tool != "look":
        engine.approve(run_id)
        drive(run_id)
    call = call_named(run_id, "a")
    assert call.effect_class == CLASSES[tool]
    expected = ANSWERED.get(outcome) or UNANSWERED[tool, found]
    result = Result.objects.filter(tool_call=call).first()
    source = result.source if result else None
    assert (call.status, call.attempts, run_now(run_id).status, source, len(SCRIPT.probed)) == expected
    assert len(SCRIPT.sent) == call.attempts
    assert {sent.key for sent in SCRIPT.sent} == {call.idempotency_key}
    assert Effect.objects.count() == int(call.status == "SUCCEEDED" and tool != "look")
    reserved, held, spent = tool_budget(run_id)
    assert reserved == 0
    # What a later try has settled of an earlier one in doubt stays held: nobody knows whether it was spent.
    unsettled = Attempt.objects.filter(tool_call=call, outcome="NO_RESPONSE").count()
    assert held == (0 if Reconciliation.objects.filter(tool_call=call).exists() else unsettled)
    assert spent == {"ok": 1, "failed": 1, "not now": spent, "unknown": spent}[outcome]


def test_nothing_found_proves_nothing_while_the_request_may_still_be_carried_out(engine: Engine) -> None:
    """The other side is slow: a look before the time limit of the request finds nothing, one after it finds what it did."""
    SCRIPT.do("a", ToolUnknown("the connection broke"), went_well("a"))
    SCRIPT.find("a", False, went_well("a"))
    run_id = engine.run(calls(("asked-slowly", "a")))
    engine.approve(run_id)
    drive(run_id)
    run, call = run_now(run_id), call_named(run_id, "a")
    assert (run.status, call.status, call.attempts, len(SCRIPT.probed)) == ("QUEUED", "UNCERTAIN", 1, 1)
    assert run.due_at is not None
    assert 50 < (run.due_at - database_now()).total_seconds() <= 60
    assert not Reconciliation.objects.exists()
    pass_retry(run_id)
    drive(run_id)
    assert (call_named(run_id, "a").status, run_now(run_id).status, len(SCRIPT.sent)) == ("SUCCEEDED", "COMPLETED", 1)


def test_it_is_sent_again_when_nothing_is_found_after_that(engine: Engine) -> None:
    SCRIPT.do("a", ToolUnknown("the connection broke"), went_well("a"))
    SCRIPT.find("a", False)
    run_id = engine.run(calls(("asked-slowly", "a")))
    engine.approve(run_id)
    drive(run_id)
    pass_retry(run_id)
    drive(run_id)
    assert (run_now(run_id).status, len(SCRIPT.sent)) == ("QUEUED", 1), "woken before that, it looks and waits again"
    pass_time_limit(call_named(run_id, "a"))
    drive(run_id)
    assert (run_now(run_id).status, len(SCRIPT.sent)) == ("COMPLETED", 2)


# ── the effect journal ───────────────────────────────────────────────────────


def test_a_local_write_its_journal_row_and_its_result_are_one_commit(engine: Engine, at_point: At) -> None:
    """X05: killed between the business row and the commit, neither is there; the journal answers; it is done once."""
    at_point("inside_result_tx@note", kill)
    SCRIPT.tell(calls(("note", "v1")))
    run_id = engine.start()
    with pytest.raises(Killed):
        drive(run_id)
    assert (ReportVersion.objects.count(), Effect.objects.count(), Result.objects.count()) == (0, 0, 0)
    assert call_named(run_id, "v1").status == "DISPATCHED"
    expire_lease(run_id)
    drive(run_id)
    call = call_named(run_id, "v1")
    assert (call.status, call.attempts, run_now(run_id).status) == ("SUCCEEDED", 2, "COMPLETED")
    verdict = Reconciliation.objects.get(tool_call=call)
    assert (verdict.verdict, verdict.follow_up, verdict.method) == ("NOT_EXECUTED", "RETRY", "PROBE")
    assert verdict.evidence == "the effect journal has no row of it"
    assert (ReportVersion.objects.count(), Effect.objects.count()) == (1, 1)


def test_the_journal_takes_a_key_once(engine: Engine) -> None:
    run_id = engine.run(calls(("note", "v1")))
    effect = Effect.objects.get(run_id=run_id)
    with pytest.raises(DatabaseError, match="idempotency_key"):
        Effect.objects.create(
            tenant_id=effect.tenant_id,
            run_id=effect.run_id,
            tool_call=ToolCall.objects.get(id=effect.tool_call_id),
            idempotency_key=effect.idempotency_key,
            kind="note",
            target="report:told",
            payload_digest=effect.payload_digest,
        )


@pytest.mark.parametrize("tool", ["note", "asked", "again", "once"])
def test_what_the_journal_has_is_never_sent_again(engine: Engine, at_point: At, tool: str) -> None:
    """D-034: the result is gone from a copy of the store, the journal's row is not: nothing is sent, the result is rebuilt."""
    run_id = lost_result(engine, at_point, tool)
    sent_before = len(SCRIPT.sent)
    drive(run_id)
    call = call_named(run_id, "a")
    assert (call.status, call.attempts, run_now(run_id).status) == ("SUCCEEDED", 1, "COMPLETED")
    assert len(SCRIPT.sent) == sent_before and not SCRIPT.probed
    result = Result.objects.get(tool_call=call)
    assert (result.source, result.ok) == ("PROBE", True)
    assert Reconciliation.objects.get(tool_call=call).evidence == "the effect journal has its row"
    assert Effect.objects.filter(tool_call=call).count() == 1


def lost_result(engine: Engine, at_point: At, tool: str) -> UUID:
    """A run whose worker died before its result was committed, in a store where only the journal's row of it survived."""
    SCRIPT.tell(calls((tool, "a")))
    run_id = engine.start()
    if tool != "note":
        drive(run_id)
        engine.approve(run_id)
    at_point(f"after_tool@{tool}", kill)
    with pytest.raises(Killed):
        drive(run_id)
    call = call_named(run_id, "a")
    Effect.objects.create(
        tenant_id=call.tenant_id,
        run_id=run_id,
        tool_call=call,
        idempotency_key=call.idempotency_key,
        kind=tool,
        target="elsewhere",
        external_ref="ref-a",
        payload_digest=call.args_digest,
    )
    expire_lease(run_id)
    return run_id


def test_the_journal_speaks_against_a_person_too(engine: Engine) -> None:
    SCRIPT.do("a", ToolUnknown("no answer"), went_well("a"))
    run_id = engine.run(calls(("once", "a")))
    engine.approve(run_id)
    drive(run_id)
    call = call_named(run_id, "a")
    engine.reconcile(call, "NOT_EXECUTED", "RETRY", by="rolf")
    sql(
        "INSERT INTO receipts_effect (id, tenant_id, run_id, tool_call_id, idempotency_key, kind, target, payload_digest) "
        "SELECT gen_random_uuid(), tenant_id, run_id, id, idempotency_key, tool, 'elsewhere', args_digest "
        "FROM receipts_toolcall WHERE id = %s",
        call.id,
    )
    drive(run_id)
    assert (run_now(run_id).hold_reason, SCRIPT.labels("once")) == ("UNCERTAIN_CALL", ["a"])
    [flag] = call_named(run_id, "a").contradictions.all()
    assert (flag.source, flag.says, flag.evidence) == ("PROBE", "EXECUTED", "the effect journal has its row")
