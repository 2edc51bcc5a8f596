"""The database refuses a statement, and the connection stands: the lease is given back, what is known is kept, nothing is
sent twice; and where it goes on like that the run is held, with the error in words.
"""

from collections.abc import Callable, Iterator
from uuid import UUID

import pytest
from django.db.utils import Error as DatabaseError
from django.db.utils import IntegrityError

from checkpoints.models import SaveAttempt
from receipts.models import Attempt, Effect, ModelCall, Result
from runs.errors import store_said
from runs.models import Refusal, RunTransition
from runtime.loop import drive
from tests.engine.engine import At, Engine, attempts_of, call_named, head_of, lease_of, run_now, sql
from tests.engine.stops import assert_stopped, causes
from tests.scenarios.invariants import broken_invariants
from tests.scripted import SCRIPT, calls

SECRET = "what was to be stored"
Refuse = Callable[..., None]


@pytest.fixture
def refuse(engine: Engine) -> Iterator[Refuse]:
    """Have the database refuse the next writes of a kind to a table, this often, with this SQLSTATE."""
    tables: list[str] = []

    def refuse(table: str, state: str = "53100", times: int = 1, when: str = "INSERT") -> None:
        tables.append(table)
        sql(f"CREATE SEQUENCE refused_{table}")
        sql(
            f"CREATE FUNCTION refuse_{table}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            f"IF nextval('refused_{table}') <= {times} THEN "
            f"RAISE EXCEPTION '{SECRET}' USING ERRCODE = '{state}', CONSTRAINT = 'a_rule', DETAIL = '{SECRET}'; END IF; "
            "RETURN NEW; END $$"
        )
        sql(f"CREATE TRIGGER refuse BEFORE {when} ON {table} FOR EACH ROW EXECUTE FUNCTION refuse_{table}()")

    yield refuse
    for table in tables:
        sql(f"DROP TRIGGER refuse ON {table}")
        sql(f"DROP FUNCTION refuse_{table}()")
        sql(f"DROP SEQUENCE refused_{table}")


def store_errors(run_id: UUID) -> list[str]:
    rows = RunTransition.objects.filter(run_id=run_id, cause="STORE_ERROR").order_by("id")
    return [row.detail for row in rows]


def due(run_id: UUID) -> None:
    sql("UPDATE runs_run SET due_at = clock_timestamp() WHERE id = %s AND status = 'QUEUED'", run_id)


def drive_often(run_id: UUID, times: int) -> None:
    for _ in range(times):
        due(run_id)
        drive(run_id)


STATES = {
    "53100": "the database's disk is full",
    "57014": "a statement took too long and was cancelled",
    "40001": "a transaction was in the way of another one",
    "23514": "a rule of the database forbids what was to be written",
    "22P02": "a value is none that the database can hold",
    "25006": "the database takes no writes",
    "XX002": "the database failed inside, or found a page that is damaged",
    "P0001": "the database refused a statement",
}


@pytest.mark.parametrize("state", STATES)
def test_the_lease_is_given_back_with_the_error_in_words_and_never_with_what_was_to_be_stored(
    engine: Engine, refuse: Refuse, state: str
) -> None:
    SCRIPT.tell(calls(("look", "a")))
    run_id = engine.start()
    refuse("receipts_modelcall", state)
    drive(run_id)
    assert (run_now(run_id).status, lease_of(run_id).owner, run_now(run_id).takeovers) == ("QUEUED", None, 0)
    assert run_now(run_id).due_at is not None
    assert store_errors(run_id) == [f"{STATES[state]} ({state}: a_rule)"]
    drive_often(run_id, 1)
    assert run_now(run_id).status == "COMPLETED"
    assert broken_invariants() == {}


def test_a_run_that_meets_it_again_and_again_is_held_until_a_person_tries_again(engine: Engine, refuse: Refuse) -> None:
    SCRIPT.tell(calls(("look", "a")))
    run_id = engine.start("brief")
    refuse("receipts_modelcall", times=4)
    drive_often(run_id, 3)
    run = run_now(run_id)
    assert (run.status, run.hold_reason, lease_of(run_id).owner) == ("HELD", "STORE_ERROR", None)
    assert run.hold_detail.startswith("3 times without getting on, the last time: the database's disk is full")
    assert causes(run_id).count("STORE_ERROR") == 3 and run.max_takeovers == 2
    engine.resume(run_id)
    drive_often(run_id, 1)
    assert run_now(run_id).status == "QUEUED"  # once more, and it counts from the resume
    drive_often(run_id, 1)
    assert run_now(run_id).status == "COMPLETED"


def test_errors_of_a_run_that_gets_on_are_not_counted_together(engine: Engine, refuse: Refuse) -> None:
    SCRIPT.tell(*[calls(("look", str(n))) for n in range(2)])
    run_id = engine.start("brief")
    refuse("receipts_result", times=2)
    refuse("receipts_modelcall", times=2)
    drive_often(run_id, 5)
    assert (run_now(run_id).status, causes(run_id).count("HELD")) == ("COMPLETED", 0)


@pytest.mark.parametrize("tool", ["look", "note", "once"])
def test_an_answer_that_is_refused_once_is_stored_when_that_goes_again(
    engine: Engine, refuse: Refuse, tool: str
) -> None:
    """The answer is known, so nobody has to look and nothing is sent again."""
    SCRIPT.tell(calls((tool, "a")))
    run_id = engine.start()
    refuse("receipts_result")
    drive(run_id)
    if tool == "once":
        engine.approve(run_id)
        drive(run_id)
    call = call_named(run_id, "a")
    assert (call.status, Result.objects.get(tool_call=call).attempt_no) == ("SUCCEEDED", 1)
    drive_often(run_id, 1)
    assert (run_now(run_id).status, call.attempts) == ("COMPLETED", 1)
    assert Effect.objects.filter(tool_call=call).count() == int(tool != "look")
    assert broken_invariants() == {}


def test_an_answer_that_is_refused_for_good_is_kept_as_evidence_and_a_person_looks(
    engine: Engine, refuse: Refuse
) -> None:
    run_id = engine.run(calls(("once", "a")))
    engine.approve(run_id)
    refuse("receipts_result", "23514", times=2)
    drive(run_id)
    drive_often(run_id, 1)
    call, run = call_named(run_id, "a"), run_now(run_id)
    assert (run.status, run.hold_reason, call.status) == ("HELD", "UNCERTAIN_CALL", "UNCERTAIN")
    late = Refusal.objects.get(run_id=run_id, kind="LATE_RESULT")
    assert (late.subject_id, late.detail["external_ref"], SCRIPT.labels("once")) == (call.id, "ref-a", ["a"])
    engine.reconcile(call, "EXECUTED", external_ref="ref-a")
    drive(run_id)
    assert run_now(run_id).status == "COMPLETED"


def test_the_answers_of_a_whole_wave_are_kept(engine: Engine, refuse: Refuse) -> None:
    SCRIPT.tell(calls(*[("look", label) for label in "abc"]))
    run_id = engine.start()
    refuse("checkpoints_taskwrite")
    drive(run_id)
    assert Result.objects.filter(tool_call__run_id=run_id).count() == 3
    drive_often(run_id, 1)
    assert (run_now(run_id).status, sorted(SCRIPT.labels("look"))) == ("COMPLETED", ["a", "b", "c"])
    assert broken_invariants() == {}


def test_a_turn_that_is_refused_once_is_stored_and_not_asked_again(engine: Engine, refuse: Refuse) -> None:
    SCRIPT.tell(calls(("look", "a"), ("nowhere", "b")))
    run_id = engine.start()
    refuse("receipts_proposal")
    drive(run_id)
    assert (run_now(run_id).status, ModelCall.objects.get().status) == ("QUEUED", "SEALED")
    assert (head_of(run_id).revision, call_named(run_id, "a").status) == (1, "PROPOSED")
    drive_often(run_id, 1)
    assert run_now(run_id).status == "COMPLETED"
    assert [request.turn_no for request in SCRIPT.requests] == [1, 2]
    assert not Attempt.objects.filter(attempt_no__gt=1).exists()
    assert broken_invariants() == {}


def test_a_turn_that_is_refused_for_good_is_asked_again(engine: Engine, refuse: Refuse) -> None:
    SCRIPT.tell(calls(("look", "a")))
    run_id = engine.start()
    refuse("receipts_proposal", times=2)
    drive_often(run_id, 2)
    assert run_now(run_id).status == "COMPLETED"
    assert [request.turn_no for request in SCRIPT.requests] == [1, 1, 2]


def test_a_call_that_was_dispatched_and_not_sent_needs_no_person(engine: Engine, refuse: Refuse, at_point: At) -> None:
    run_id = engine.run(calls(("once", "a")))
    engine.approve(run_id)

    def fail() -> None:
        raise IntegrityError(SECRET)

    at_point("after_wake_consumed", fail)
    drive(run_id)
    assert [outcome for _, outcome, _ in attempts_of(call_named(run_id, "a"))] == ["ERROR_RETRYABLE"]
    drive_often(run_id, 1)
    assert (run_now(run_id).status, SCRIPT.labels("once")) == ("COMPLETED", ["a"])


def test_where_nothing_can_be_written_at_all_the_error_is_raised_and_the_lease_is_left_to_expire(
    engine: Engine, refuse: Refuse, at_point: At
) -> None:
    SCRIPT.tell(calls(("look", "a")))
    run_id = engine.start()
    at_point("after_acquire", lambda: refuse("runs_runtransition", times=9))
    refuse("receipts_modelcall")
    with pytest.raises(DatabaseError):
        drive(run_id)
    assert (run_now(run_id).status, lease_of(run_id).owner is not None) == ("RUNNING", True)


# ── the end of a stopped run ──


@pytest.mark.parametrize("state", ["53100", "57014", "23514", "40001"])
def test_x01_a_stopped_run_is_closed_even_where_its_closing_revision_is_refused(
    engine: Engine, refuse: Refuse, at_point: At, state: str
) -> None:
    SCRIPT.tell(calls(("look", "a")), calls(("look", "b")))
    run_id = engine.start()

    def stop() -> None:
        engine.stop(run_id)

    at_point("after_result_commit", stop)
    at_point("after_stop_adopted", lambda: refuse("checkpoints_checkpoint", state))
    drive(run_id)
    assert_stopped(run_id)
    assert head_of(run_id).phase == "DECISION_RECORDED"
    save = SaveAttempt.objects.get(run_id=run_id)
    assert (save.trigger, save.status, save.kind, save.expected_revision) == (
        *("CLOSING", "NOT_SAVED", "STORE_ERROR"),
        head_of(run_id).revision,
    )
    assert save.why == f"{STATES[state]} ({state}: a_rule)"
    assert Refusal.objects.filter(run_id=run_id, kind="STORE_ERROR", subject_id=save.save_id).count() == 1


def test_an_error_without_a_state_is_named_by_its_class() -> None:
    assert store_said(IntegrityError(SECRET)) == "the database refused a statement (IntegrityError)"
