"""Outcomes that nobody knows, by effect class: repeated, looked up, or held for a person; never guessed (T04)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from pytest_django import Settings

from receipts.models import Effect, Publication, Reconciliation, ReportVersion, Result, ToolCall
from receipts.selectors import result_bytes
from runs.models import Budget
from runtime.contracts import ToolOutcome, ToolRetryable, ToolUnknown
from runtime.loop import drive
from runtime.services import Upload
from runtime.tasks import sweep
from tests.engine.engine import (
    At,
    Engine,
    Killed,
    attempts_of,
    call_named,
    expire_lease,
    kill,
    open_wait,
    pass_time_limit,
    run_now,
    sql,
)
from tests.scripted import SCRIPT, calls, went_well
from tests.unit.agent_runs import A, B
from tests.unit.outside_world import OutsideWorld, outside_world

UNKNOWN = ToolUnknown("no answer")
LIMIT = 3 + 5  # attempts before a person is asked: the retries of a worker, and one for each takeover


def approved(engine: Engine, *answers: Any) -> UUID:
    """A run driven through every approval that it asks for."""
    run_id = engine.run(*answers)
    while run_now(run_id).status == "WAITING":
        engine.decide(open_wait(run_id))
        drive(run_id)
    return run_id


def budget(run_id: UUID) -> tuple[int, int, int]:
    row = Budget.objects.get(run_id=run_id, unit="tool_calls")
    return row.reserved, row.held_unknown, row.spent


# ── by effect class ──────────────────────────────────────────────────────────


@pytest.mark.parametrize(("tool", "by"), [("look", "policy:read-only"), ("again", "policy:idempotent")])
def test_what_may_be_repeated_is_repeated_under_the_same_id_and_key(engine: Engine, tool: str, by: str) -> None:
    SCRIPT.do("a", UNKNOWN, UNKNOWN, went_well("a"))
    run_id = approved(engine, calls((tool, "a")))
    call = call_named(run_id, "a")
    assert [(number, outcome) for number, outcome, _ in attempts_of(call)] == [
        (1, "NO_RESPONSE"),
        (2, "NO_RESPONSE"),
        (3, "OK"),
    ]
    assert [authorised for _, _, authorised in attempts_of(call)][1:] == [by, by]
    assert (len({sent.key for sent in SCRIPT.sent}), ToolCall.objects.count()) == (1, 1)
    assert (run_now(run_id).status, budget(run_id)) == ("COMPLETED", (0, 2, 1))
    assert (Result.objects.get(tool_call=call).attempt_no, Effect.objects.count()) == (3, int(tool == "again"))


def test_a_reading_that_never_answers_is_given_up(engine: Engine) -> None:
    SCRIPT.do("a", *[UNKNOWN] * LIMIT, lambda _: kill())
    run_id = engine.run(calls(("look", "a")))
    call = call_named(run_id, "a")
    assert (call.status, call.attempts, run_now(run_id).status) == ("FAILED", LIMIT, "COMPLETED")
    assert call.error == f"no answer in {LIMIT} attempts"
    assert budget(run_id) == (0, LIMIT, 0)


def test_an_idempotent_call_that_never_answers_is_held_for_a_person(engine: Engine) -> None:
    SCRIPT.do("a", *[UNKNOWN] * LIMIT, lambda _: kill())
    run_id = approved(engine, calls(("again", "a")))
    call = call_named(run_id, "a")
    assert (call.status, call.attempts) == ("UNCERTAIN", LIMIT)
    assert (run_now(run_id).status, run_now(run_id).hold_reason) == ("HELD", "UNCERTAIN_CALL")
    engine.reconcile(call, "EXECUTED")
    drive(run_id)
    assert run_now(run_id).status == "COMPLETED"


def test_a_call_that_can_be_looked_up_is_not_sent_again_if_it_was_executed(engine: Engine) -> None:
    SCRIPT.do("a", UNKNOWN)
    SCRIPT.find("a", ToolOutcome({"found": True}, external_ref="post-7"))
    run_id = approved(engine, calls(("asked", "a")))
    call = call_named(run_id, "a")
    assert (call.status, call.attempts, call.external_ref) == ("SUCCEEDED", 1, "post-7")
    result = Result.objects.get(tool_call=call)
    assert (result.source, result.ok, result_bytes(result)) == ("PROBE", True, b'{"found":true}')
    verdict = Reconciliation.objects.get(tool_call=call)
    assert (verdict.method, verdict.verdict, verdict.actor) == ("PROBE", "EXECUTED", "probe")
    assert Effect.objects.get(tool_call=call).external_ref == "post-7"
    assert (run_now(run_id).status, budget(run_id)) == ("COMPLETED", (0, 0, 1))


def test_a_call_that_can_be_looked_up_is_sent_again_if_it_was_not_executed(engine: Engine) -> None:
    SCRIPT.do("a", UNKNOWN, went_well("a"))
    SCRIPT.find("a", False)
    run_id = approved(engine, calls(("asked", "a")))
    call = call_named(run_id, "a")
    assert attempts_of(call) == [(1, "NO_RESPONSE", "person:ann-north"), (2, "OK", "probe")]
    assert (run_now(run_id).status, budget(run_id)) == ("COMPLETED", (0, 0, 1))


def test_a_call_that_can_not_be_looked_up_after_all_is_held_for_a_person(engine: Engine) -> None:
    SCRIPT.do("a", UNKNOWN)
    run_id = approved(engine, calls(("asked", "a")))
    assert (run_now(run_id).hold_reason, SCRIPT.labels("asked")) == ("UNCERTAIN_CALL", ["a"])
    sweep()
    drive(run_id)
    assert len(SCRIPT.probed) == 1


@pytest.mark.parametrize("found", [KeyError("a bug of the probe"), ToolOutcome({"ratio": float("nan")})])
def test_a_probe_that_breaks_off_says_nothing(engine: Engine, found: Any) -> None:
    SCRIPT.do("a", UNKNOWN)
    SCRIPT.find("a", found)
    run_id = approved(engine, calls(("asked", "a")))
    assert (run_now(run_id).hold_reason, SCRIPT.labels("asked")) == ("UNCERTAIN_CALL", ["a"])


@pytest.mark.parametrize("tool", ["asked", "note"])
def test_a_call_that_is_never_found_executed_is_not_sent_for_ever(engine: Engine, tool: str) -> None:
    SCRIPT.do("a", *[UNKNOWN] * LIMIT, lambda _: kill())
    SCRIPT.find("a", False)
    run_id = approved(engine, calls((tool, "a")))
    call = call_named(run_id, "a")
    assert (call.status, call.attempts, run_now(run_id).status) == ("FAILED", 3, "COMPLETED")
    assert (Result.objects.get(tool_call=call).source, Effect.objects.count()) == ("PROBE", 0)
    assert budget(run_id) == (0, 0, 0)


def test_a_call_that_may_not_be_repeated_is_held_at_its_first_lost_answer(engine: Engine) -> None:
    SCRIPT.do("a", UNKNOWN)
    run_id = approved(engine, calls(("once", "a")))
    assert (run_now(run_id).hold_reason, SCRIPT.labels("once")) == ("UNCERTAIN_CALL", ["a"])


def test_a_later_retry_is_not_said_to_be_the_word_of_whoever_spoke_of_the_first(engine: Engine) -> None:
    SCRIPT.do("a", UNKNOWN, ToolRetryable("busy"), went_well("a"))
    run_id = approved(engine, calls(("once", "a")))
    engine.reconcile(call_named(run_id, "a"), "NOT_EXECUTED", "RETRY", by="rolf")
    drive(run_id)
    assert attempts_of(call_named(run_id, "a")) == [
        (1, "NO_RESPONSE", "person:ann-north"),
        (2, "ERROR_RETRYABLE", "person:rolf-north"),
        (3, "OK", "policy:retry"),
    ]


# ── what a tool does wrong ───────────────────────────────────────────────────


@pytest.mark.parametrize(
    "outcome",
    [
        KeyError("a bug of the tool"),
        ToolOutcome({"ratio": float("nan")}),
        ToolOutcome({"size": 2**60}),
        ToolOutcome({"text": "a\0b"}),
        ToolOutcome({"text": "\ud800"}),
        ToolOutcome({"what": {1, 2}}),
        ToolOutcome({"at": b"bytes"}),
    ],
)
def test_a_tool_that_breaks_off_or_answers_what_can_not_be_stored_has_not_failed(engine: Engine, outcome: Any) -> None:
    """It may have happened: a call with an effect is held, and the reason names the place."""
    SCRIPT.do("a", outcome)
    run_id = approved(engine, calls(("once", "a")))
    call = call_named(run_id, "a")
    assert (call.status, run_now(run_id).hold_reason) == ("UNCERTAIN", "UNCERTAIN_CALL")
    said = call.tries.get().error
    assert "KeyError" in said if isinstance(outcome, KeyError) else "can't be stored: $." in said


# ── a worker that is lost on the way ─────────────────────────────────────────


@pytest.mark.parametrize("point", ["after_attempt_commit", "after_response", "after_tool", "inside_result_tx"])
@pytest.mark.parametrize(
    ("tool", "attempts", "status"),
    [("look", 2, "SUCCEEDED"), ("again", 2, "SUCCEEDED"), ("note", 2, "SUCCEEDED"), ("once", 1, "UNCERTAIN")],
)
def test_the_next_worker_goes_by_effect_class(
    engine: Engine, at_point: At, tool: str, attempts: int, status: str, point: str
) -> None:
    run_id = engine.run(calls((tool, "a"))) if tool in ("again", "once") else engine.start()
    if tool in ("again", "once"):
        engine.approve(run_id)
    SCRIPT.tell(calls((tool, "a")))
    at_point(point, kill)
    with pytest.raises(Killed):
        drive(run_id)
    expire_lease(run_id)
    drive(run_id)
    call = call_named(run_id, "a")
    assert (call.status, call.attempts, run_now(run_id).takeovers) == (status, attempts, 1)
    assert attempts_of(call)[0][1] == "NO_RESPONSE"
    assert run_now(run_id).status == ("HELD" if tool == "once" else "COMPLETED")
    assert ReportVersion.objects.count() == int(tool == "note")


@pytest.mark.parametrize(("found", "sent"), [(went_well("a"), 1), (False, 2), (None, 1)])
def test_the_next_worker_looks_before_it_sends(
    engine: Engine, at_point: At, found: ToolOutcome | bool | None, sent: int
) -> None:
    SCRIPT.find("a", found)
    run_id = engine.run(calls(("asked", "a")))
    engine.approve(run_id)
    at_point("after_tool", kill)
    with pytest.raises(Killed):
        drive(run_id)
    expire_lease(run_id)
    drive(run_id)
    assert (len(SCRIPT.sent), len(SCRIPT.probed)) == (sent, 1)
    assert run_now(run_id).status == ("HELD" if found is None else "COMPLETED")


# ── a real wiki ──────────────────────────────────────────────────────────────

FILES = {"a": Upload("larch.csv", A), "b": Upload("maple.csv", B)}
POST = {"channel": "wiki", "report_version": 2, "title": "LARCH and MAPLE", "summary": "They share a holding."}


@pytest.fixture
def wiki(engine: Engine, settings: Settings, tmp_path: Path) -> Iterator[OutsideWorld]:
    with outside_world(tmp_path) as world:
        settings.OUTSIDE_URL = world.url
        yield world


def published(engine: Engine, tool: str) -> ToolCall:
    """A publication on the real wiki, approved."""
    draft = {"version": 1, "title": POST["title"], "summary": POST["summary"]}
    SCRIPT.tell(
        calls(("read_disclosure", {"input": "a"}), ("read_disclosure", {"input": "b"})),
        calls(("compute_overlap", {})),
        calls(("send_answer_part", draft)),
        calls((tool, POST)),
    )
    run_id = engine.start(inputs=FILES)
    drive(run_id)
    engine.decide(open_wait(run_id))
    drive(run_id)
    return ToolCall.objects.get(tool=tool)


def test_a_wiki_that_executes_a_key_once_is_asked_again(engine: Engine, wiki: OutsideWorld) -> None:
    wiki.control(mode="drop", times=1, deduplicate=True)
    call = published(engine, "publish_report_idempotent")
    assert (call.status, [outcome for _, outcome, _ in attempts_of(call)]) == ("SUCCEEDED", ["NO_RESPONSE", "OK"])
    assert (len(wiki.counts()["received"]["wiki"]), wiki.executions(call.idempotency_key)) == (2, 1)
    assert Publication.objects.get(tool_call=call).status == "PUBLISHED"


@pytest.mark.parametrize(("execute", "attempts"), [("before", 1), ("never", 2)])
def test_a_wiki_that_can_be_asked_for_a_key_is_asked(
    engine: Engine, wiki: OutsideWorld, execute: str, attempts: int
) -> None:
    wiki.control(mode="drop", times=1, execute=execute, lookup=True)
    call = published(engine, "publish_report_queryable")
    if execute == "never":
        assert (call.status, call.attempts) == ("UNCERTAIN", 1), "it may still be carried out"
        pass_time_limit(call)
        drive(call.run_id)
        call.refresh_from_db()
    assert (call.status, call.attempts, wiki.executions(call.idempotency_key)) == ("SUCCEEDED", attempts, 1)
    assert Publication.objects.get(tool_call=call).status == "PUBLISHED"
    assert run_now(call.run_id).status == "COMPLETED"


def test_a_wiki_that_offers_no_look_up_leaves_it_to_a_person(engine: Engine, wiki: OutsideWorld) -> None:
    wiki.control(mode="drop", times=1)
    call = published(engine, "publish_report_queryable")
    assert (call.status, run_now(call.run_id).hold_reason) == ("UNCERTAIN", "UNCERTAIN_CALL")
    assert wiki.executions(call.idempotency_key) == 1


@pytest.mark.parametrize("execute", ["before", "never"])
def test_a_wiki_that_may_do_it_twice_is_never_asked_twice_without_a_person(
    engine: Engine, wiki: OutsideWorld, execute: str
) -> None:
    wiki.control(mode="drop", times=1, execute=execute)
    call = published(engine, "publish_report")
    for _ in range(3):
        sweep()
        drive(call.run_id)
    executed = wiki.executions(call.idempotency_key)
    assert (call.status, executed) == ("UNCERTAIN", int(execute == "before"))
    engine.reconcile(call, *(("EXECUTED",) if executed else ("NOT_EXECUTED", "RETRY")))
    drive(call.run_id)
    call.refresh_from_db()
    assert (call.status, wiki.executions(call.idempotency_key)) == ("SUCCEEDED", 1)
    assert (run_now(call.run_id).status, Publication.objects.get(tool_call=call).status) == ("COMPLETED", "PUBLISHED")
    assert sql("SELECT count(*) FROM receipts_result WHERE tool_call_id = %s", call.id) == [(1,)]
