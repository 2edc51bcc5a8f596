"""Going on in a new run: an ended run is continued once, and any revision of a run can be forked."""

from uuid import UUID

import pytest

from accounts.errors import Invalid, NotAllowed, NotFound
from checkpoints.envelope import Snapshot
from checkpoints.models import Checkpoint, Commitment, Obligation
from checkpoints.selectors import load_snapshot
from receipts.models import ToolCall
from runs.errors import AlreadyContinued, KeyReused, NothingToContinue, ThreadBusy
from runs.models import Run
from runtime.contracts import ToolUnknown
from runtime.loop import drive
from runtime.services import Started, StartRequest, Terms, commitment_withdraw, run_start
from tests.engine.engine import (
    Engine,
    Killed,
    added,
    counts,
    expire_lease,
    head_of,
    kill,
    open_wait,
    run_now,
    sql,
    sql_past_triggers,
)
from tests.engine.flags import while_sending
from tests.engine.races import together
from tests.scripted import SCRIPT, calls, done, went_well


def stopped(engine: Engine, agent: str = "promising") -> UUID:
    """A run that read two things and was stopped while it waited for its promised call."""
    run_id = engine.run(calls(("look", "a")), calls(("look", "b")), calls(("once", "promised")), agent=agent)
    engine.stop(run_id)
    assert run_now(run_id).status == "CANCELLED"
    return run_id


def made(outcome: object) -> UUID:
    assert isinstance(outcome, Started), outcome
    return outcome.run_id


def first_snapshot(run_id: UUID) -> Snapshot:
    return load_snapshot(Checkpoint.objects.get(run_id=run_id, revision=1))


def promises(run_id: UUID) -> list[tuple[str, str]]:
    rows = Obligation.objects.filter(run_id=run_id).order_by("promised_at")
    return [(row.step_name, row.status) for row in rows]


def rows_of(run_id: UUID) -> list[tuple[object, ...]]:
    """Everything that is stored of a run, as text."""
    tables = sql(
        "SELECT c.table_name FROM information_schema.columns c WHERE c.column_name = 'run_id' AND "
        "c.table_name ~ '^(runs|receipts|checkpoints|approvals)_' ORDER BY 1"
    )
    stored = [sql(f"SELECT t::text FROM {table} t WHERE run_id = %s ORDER BY 1", run_id) for (table,) in tables]
    return [*sql("SELECT t::text FROM runs_run t WHERE id = %s", run_id), *(row for rows in stored for row in rows)]


# ── continue ─────────────────────────────────────────────────────────────────


def test_an_ended_run_is_continued_with_its_promises_results_and_conversation(engine: Engine) -> None:
    source = stopped(engine)
    run_id = made(engine.carry_on(source))
    run, before = run_now(run_id), run_now(source)
    assert (run.status, run.origin, run.continued_from_id, run.lineage_id) == ("QUEUED", "CONTINUED", source, source)
    assert (run.thread_id, run.root_run_id, run.created_by) == (before.thread_id, run_id, "person:otto-north")
    assert run.admission_key != before.admission_key
    assert promises(source) == [("once/promised", "CARRIED")]
    assert promises(run_id) == [("once/promised", "OPEN")]
    begun = first_snapshot(run_id)
    assert [ref.step_name for ref in begun.results] == ["look/a", "look/b"]
    assert (begun.turn_no, begun.contract.goal) == (2, first_snapshot(source).contract.goal)
    assert [(b.unit, b.spent) for b in run.budgets.order_by("unit")] == [
        ("model_calls", 0),
        ("tokens", 0),
        ("tool_calls", 0),
        ("usd_micros", 0),
    ]
    drive(run_id)
    asked = SCRIPT.requests[-1]
    assert [message["role"] for message in asked.history] == [
        "user",
        "assistant",
        "tool",
        "assistant",
        "tool",
        "notice",
    ]
    assert f"continues run {source}, which ended as CANCELLED" in asked.history[-1]["text"]
    assert asked.turn_no == 3
    engine.approve(run_id)
    drive(run_id)
    assert (run_now(run_id).status, promises(run_id)) == ("COMPLETED", [("once/promised", "FULFILLED")])
    assert SCRIPT.labels("look") == ["a", "b"]
    assert (run_now(source).status, before.status) == ("CANCELLED", "CANCELLED")


def test_a_settled_run_is_continued(engine: Engine) -> None:
    """A-075, A-076: settlement first, then a new run with an admission of its own."""
    SCRIPT.tell(calls(("look", "a")), calls(("once", "promised")))
    SCRIPT.do("a", lambda _: kill())
    source = engine.start("settling")
    with pytest.raises(Killed):
        drive(source)
    expire_lease(source)
    drive(source)
    assert run_now(source).status == "SETTLED"
    run_id = made(engine.carry_on(source, goal="Do it at last."))
    begun = first_snapshot(run_id)
    assert (begun.contract.goal, begun.turn_no, begun.results) == ("Do it at last.", 0, ())
    assert promises(run_id) == [("once/promised", "OPEN")]
    SCRIPT.outcomes.clear()
    drive(run_id)
    assert open_wait(run_id).tool_call.step_name == "once/promised"


def test_a_run_is_continued_once_and_only_after_it_ended_without_completing(engine: Engine) -> None:
    live = engine.run(calls(("once", "a")))
    refused = engine.carry_on(live)
    assert isinstance(refused, NothingToContinue) and "Stop it first" in refused.sentence
    completed = engine.run(calls(("look", "a")), done())
    assert isinstance(engine.carry_on(completed), NothingToContinue)
    source = stopped(engine)
    first = made(engine.carry_on(source, key="mine"))
    again = engine.carry_on(source)
    assert isinstance(again, AlreadyContinued) and again.facts == {"run": first}
    assert engine.carry_on(source, key="mine") == Started(first, new=False)
    assert isinstance(engine.carry_on(live, key="mine"), KeyReused)
    assert isinstance(engine.carry_on(source, key="mine", goal="another"), KeyReused)


def test_the_thread_has_one_live_root(engine: Engine) -> None:
    """T32: a thread that has moved on is not entered a second time; a fork is not its root."""
    source = stopped(engine)
    thread = run_now(source).thread
    first = made(engine.carry_on(source))
    engine.stop(first)
    second = made(engine.carry_on(first))
    assert Run.objects.filter(thread=thread, status="QUEUED").count() == 1
    forks = [made(engine.fork(second, 1)) for _ in range(2)]
    assert Run.objects.filter(id__in=forks, thread=thread, status="QUEUED").count() == 2
    engine.stop(second)
    newer = run_now(engine.start("promising"))
    assert newer.thread_id != thread.id


def test_a_busy_thread_is_not_entered(engine: Engine) -> None:
    source = stopped(engine)
    wanted = StartRequest("promising", {}, thread=run_now(source).thread.key)
    live = made(run_start(actor=engine.person("otto"), wanted=wanted))
    refused = engine.carry_on(source)
    assert isinstance(refused, ThreadBusy) and refused.facts["run"] == live


def test_two_people_who_continue_at_once_make_one_run(engine: Engine) -> None:
    source = stopped(engine)
    outcomes = together(*[lambda: engine.carry_on(source)] * 2)
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["AlreadyContinued", "Started"]
    assert Run.objects.filter(continued_from=source).count() == 1


def test_who_may_not_start_or_gives_no_reason_continues_and_forks_nothing(engine: Engine) -> None:
    source, before = stopped(engine), counts()
    for outcome in (engine.carry_on(source, by="vera"), engine.fork(source, 1, by="vera")):
        assert isinstance(outcome, NotAllowed)
    for outcome in (engine.carry_on(source, reason=" "), engine.fork(source, 1, reason="")):
        assert isinstance(outcome, Invalid)
    assert added(before) == {"accounts_auditevent": 4}
    with pytest.raises(NotFound):
        engine.fork(source, 99)


# ── fork ─────────────────────────────────────────────────────────────────────


def test_a_fork_begins_at_its_revision_and_leaves_its_source_as_it_is(engine: Engine) -> None:
    """X03, D-017: the source is not changed by a row; what it had read by then is not read again."""
    source = engine.run(calls(("look", "a")), calls(("look", "b")), done())
    revision = Checkpoint.objects.filter(run_id=source, phase="TOOL_RESULT_RECORDED").earliest("revision").revision
    stored = rows_of(source)
    run_id = made(engine.fork(source, revision, goal="Only a."))
    run = run_now(run_id)
    assert (run.origin, run.forked_from_id, run.forked_from_revision) == ("FORKED", source, revision)
    assert (run.lineage_id, run.status) == (source, "QUEUED")
    assert [ref.step_name for ref in first_snapshot(run_id).results] == ["look/a"]
    SCRIPT.turns[2] = [done()]
    drive(run_id)
    assert run_now(run_id).status == "COMPLETED"
    assert [m["role"] for m in SCRIPT.requests[-1].history] == ["user", "assistant", "tool", "notice"]
    assert SCRIPT.requests[-1].goal == "Only a."
    assert SCRIPT.labels("look") == ["a", "b"]
    assert rows_of(source) == stored


@pytest.mark.parametrize("revision", range(1, 9))
def test_a_fork_of_any_revision_asks_for_an_unanswered_turn_again(engine: Engine, revision: int) -> None:
    """Whatever phase a revision is in, its fork runs to its end, with a conversation in which nothing is unanswered."""
    source = engine.run(calls(("look", "a")), calls(("look", "b")), calls(("note", "c")), done())
    assert head_of(source).revision >= 8
    run_id = made(engine.fork(source, revision))
    drive(run_id)
    run = run_now(run_id)
    assert run.status == "COMPLETED", run.hold_detail
    for request in SCRIPT.requests:
        proposed = [call["id"] for m in request.history if m["role"] == "assistant" for call in m["calls"]]
        assert [m["id"] for m in request.history if m["role"] == "tool"] == proposed


def test_a_read_that_the_source_has_done_is_answered_from_its_result(engine: Engine) -> None:
    source = engine.run(calls(("look", "a")), done())
    run_id = made(engine.fork(source, head_of(source).revision - 2))
    SCRIPT.turns[2] = [calls(("look", "a"))]
    drive(run_id)
    assert SCRIPT.labels("look") == ["a"]
    assert not ToolCall.objects.filter(run_id=run_id).exists()
    assert SCRIPT.requests[-1].history[-1]["value"] == {"label": "a"}


def test_a_fork_of_a_fork_hears_the_whole_line(engine: Engine) -> None:
    source = engine.run(calls(("look", "a")), calls(("look", "b")), done())
    first = made(engine.fork(source, 3))
    SCRIPT.turns[2] = [calls(("look", "c"))]
    drive(first)
    second = made(engine.fork(first, head_of(first).revision - 2))
    drive(second)
    answers = [m["value"]["label"] for m in SCRIPT.requests[-1].history if m["role"] == "tool"]
    assert answers == ["a", "c"]
    assert run_now(second).lineage_id == source


def test_a_missing_result_of_the_lineage_refuses_the_fork_its_start(engine: Engine) -> None:
    """Guard 8: references resolve in the lineage, and nowhere else."""
    source = engine.run(calls(("look", "a")), done())
    run_id = made(engine.fork(source, head_of(source).revision))
    other = engine.run(calls(("look", "z")), done())
    sql_past_triggers("UPDATE receipts_toolcall SET run_id = %s WHERE run_id = %s", other, source)
    drive(run_id)
    run = run_now(run_id)
    assert (run.status, run.hold_reason) == ("HELD", "RESUME_REFUSED")
    assert run.refusals.get().kind == "MISSING_REF"


def test_an_unknown_turn_of_a_stopped_run_is_asked_again(engine: Engine) -> None:
    SCRIPT.tell(calls(("look", "a")), calls(("once", "b")))
    SCRIPT.do("b", ToolUnknown("no answer"))
    source = engine.run(calls(("look", "a")), calls(("once", "b")))
    engine.approve(source)
    drive(source)
    assert run_now(source).hold_reason == "UNCERTAIN_CALL"
    engine.stop(source)
    begun = first_snapshot(made(engine.carry_on(source)))
    assert (begun.turn_no, [ref.step_name for ref in begun.results]) == (1, ["look/a"])


def test_a_run_that_ran_out_of_turns_is_continued_with_as_many_again(engine: Engine) -> None:
    SCRIPT.tell(*[calls(("look", str(turn))) for turn in range(1, 6)])
    source = engine.start("brief")
    drive(source)
    assert (run_now(source).status, run_now(source).end_reason) == ("FAILED", "no end after 3 turns")
    run_id = made(engine.carry_on(source))
    drive(run_id)
    assert run_now(run_id).status == "COMPLETED"
    assert SCRIPT.labels("look") == ["1", "2", "3", "4", "5"]


def test_a_promise_that_was_released_while_its_call_was_on_the_wire_is_released_in_the_fork(engine: Engine) -> None:
    """The revision with the result has it fulfilled, and its row says who had let it go before."""
    source = engine.run(calls(("once", "promised")), done(), agent="promising")

    def let_go() -> None:
        engine.release(source)

    SCRIPT.do("promised", while_sending(let_go, went_well("promised")))
    engine.approve(source)
    drive(source)
    assert (run_now(source).status, promises(source)) == ("COMPLETED", [("once/promised", "RELEASED")])
    run_id = made(engine.fork(source, head_of(source).revision - 1))
    (promise,) = Obligation.objects.filter(run_id=run_id)
    assert (promise.status, promise.released_by) == ("RELEASED", "person:rita-north")
    assert [one.status for one in first_snapshot(run_id).contract.obligations] == ["RELEASED"]


def test_a_promise_that_was_kept_by_then_stays_kept_in_the_fork(engine: Engine) -> None:
    source = engine.run(calls(("once", "promised")), done(), agent="promising")
    engine.approve(source)
    drive(source)
    run_id = made(engine.fork(source, head_of(source).revision))
    assert promises(run_id) == [("once/promised", "FULFILLED")]
    kept, original = (Obligation.objects.get(run_id=id) for id in (run_id, source))
    assert (kept.fulfilled_by, kept.closed_at) == (original.fulfilled_by, original.closed_at)
    earlier = made(engine.fork(source, 1))
    assert promises(earlier) == [("once/promised", "OPEN")]


def test_constraints_and_assumptions_are_carried_but_not_what_was_withdrawn(engine: Engine) -> None:
    """C-029: what rests on something withdrawn can only be started anew, without it."""
    terms = Terms(constraints=("Read only on prod.",), assumptions=("The fund is open.",), denied=("note",))
    SCRIPT.tell(calls(("once", "a")), calls(("note", "x")))
    source = made(run_start(actor=engine.person("olga"), wanted=StartRequest("told", {}, terms=terms)))
    drive(source)
    assumption = Commitment.objects.get(run_id=source, kind="ASSUMPTION")
    commitment_withdraw(actor=engine.person("otto"), commitment_id=assumption.id, reason="it closed")
    engine.stop(source)
    run_id = made(engine.carry_on(source))
    carried = Commitment.objects.filter(run_id=run_id).order_by("accepted_at", "id")
    assert [(row.kind, row.statement) for row in carried] == [
        ("CONSTRAINT", "Read only on prod."),
        ("CONSTRAINT", "Do not call note."),
    ]
    assert {row.source_ref for row in carried} == {"person:olga-north"}
    drive(run_id)
    engine.approve(run_id)
    drive(run_id)
    assert ToolCall.objects.get(run_id=run_id, tool="note").status == "DENIED"
    assert run_now(run_id).status == "COMPLETED"
