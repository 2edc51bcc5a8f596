"""What stands of a run after an interruption: every single thing under exactly one of three headings (A-003)."""

from collections import Counter
from collections.abc import Iterator
from uuid import UUID

import pytest

from accounts.errors import NotFound
from checkpoints.models import SaveAttempt
from checkpoints.states import Trigger
from console import settings_test
from receipts.models import ModelCall, Publication, ToolCall
from receipts.states import CallStatus, ModelCallStatus, PublicationStatus
from runs.models import RunInput
from runs.states import NextAct
from runtime import standing
from runtime.contracts import ToolContext, ToolFailed, ToolOutcome, ToolUnknown
from runtime.loop import drive
from runtime.services import Upload
from runtime.standing import Recovery, Standing, Thing, run_recovery
from tests.engine.engine import At, Engine, Killed, call_named, expire_lease, kill, people, sql_past_triggers
from tests.engine.proxy import Proxy, commit, proxied, through
from tests.scripted import SCRIPT, calls


def read(engine: Engine, run_id: UUID) -> Recovery:
    return run_recovery(actor=engine.person("vera"), run_id=run_id)


def headings(recovery: Recovery) -> dict[str, Standing]:
    return {line.name: line.standing for line in recovery.lines}


def adds_up(recovery: Recovery, run_id: UUID) -> bool:
    """Whether every row of the ledger is there once."""
    things = Counter(line.thing for line in recovery.lines)
    calls_shown = things[Thing.CALL] + things[Thing.OBSERVATION]
    return (
        sum(len(recovery.under(one)) for one in Standing) == len(recovery.lines)
        and calls_shown == ToolCall.objects.filter(run_id=run_id).count()
        and things[Thing.TURN] == ModelCall.objects.filter(run_id=run_id).count()
        and things[Thing.INPUT] == RunInput.objects.filter(run_id=run_id).count()
        and things[Thing.PUBLICATION] == Publication.objects.filter(report_version__run_id=run_id).count()
    )


def test_every_state_of_every_receipt_has_a_heading() -> None:
    assert set(standing._CALLS) == set(CallStatus)
    assert set(standing._TURNS) == set(ModelCallStatus)
    assert set(standing._PUBLICATIONS) == set(PublicationStatus)


def test_each_thing_of_a_run_that_waits_is_under_one_heading(engine: Engine) -> None:
    SCRIPT.do("c", ToolFailed("no such sheet"))
    SCRIPT.tell(calls(("look", "a"), ("note", "b")), calls(("look", "c")), calls(("once", "d")))
    run_id = engine.start(inputs={"sheet": Upload("sheet.csv", b"1,2")})
    drive(run_id)
    found = read(engine, run_id)
    named = headings(found)
    assert {name: str(under) for name, under in named.items() if name != "note v1 on console"} == {
        "sheet": "REUSABLE",
        "turn 1": "REUSABLE",
        "turn 2": "REUSABLE",
        "turn 3": "REUSABLE",
        "look/a": "REUSABLE",
        "note/b": "REUSABLE",
        "look/c": "REAUTHORISE",
        "once/d": "REAUTHORISE",
        **{line.name: "REUSABLE" for line in found.lines if line.thing == Thing.PUBLICATION},
    }
    assert adds_up(found, run_id)
    assert (found.checks.held, found.checks.unconfirmed, found.point.readable) == (False, 0, True)
    assert found.acts[0] == NextAct.DECIDE


def test_an_unanswered_call_is_unknown_until_somebody_knows(engine: Engine) -> None:
    SCRIPT.do("b", ToolUnknown("cut off"))
    run_id = engine.run(calls(("look", "a")), calls(("once", "b")))
    engine.approve(run_id)
    drive(run_id)
    found = read(engine, run_id)
    assert [line.name for line in found.under(Standing.UNKNOWN)] == ["once/b"]
    assert (found.checks.unconfirmed, found.checks.held) == (1, False)
    assert adds_up(found, run_id)
    engine.reconcile(call_named(run_id, "b"), "EXECUTED")
    assert read(engine, run_id).under(Standing.UNKNOWN) == []


def test_a_worker_that_died_leaves_its_call_unknown_and_its_loss_as_evidence(engine: Engine, at_point: At) -> None:
    """A-073: who holds it, what is committed, what is unconfirmed; then the taker settles it."""
    SCRIPT.tell(calls(("look", "a")), calls(("look", "b")))
    run_id = engine.start()
    SCRIPT.do("b", lambda _: kill())
    with pytest.raises(Killed):
        drive(run_id)
    found = read(engine, run_id)
    assert (found.checks.held, found.checks.fence) == (True, 1)
    assert [line.name for line in found.under(Standing.UNKNOWN)] == ["look/b"]
    expire_lease(run_id)
    assert not read(engine, run_id).checks.held
    SCRIPT.outcomes.pop("b")
    drive(run_id)
    found = read(engine, run_id)
    assert (found.under(Standing.UNKNOWN), found.checks.unconfirmed) == ([], 1)
    assert [lost["sending"] for lost in found.lost] == ["look/b"]
    assert adds_up(found, run_id)


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    with proxied(settings_test.SOCKET_DIR) as proxy:
        yield proxy


def test_while_a_save_is_unknown_nobody_says_where_the_head_is(engine: Engine, at_point: At, proxy: Proxy) -> None:
    """A-039: neither that the new one exists nor that the old one is unchanged."""
    SCRIPT.tell(calls(("note", "a")), calls(("look", "b")))
    run_id = engine.start()
    at_point("inside_result_tx", lambda: proxy.cut(commit, "answer"))
    seen: list[Recovery] = []

    def read_and_die(context: ToolContext) -> ToolOutcome:
        seen.append(read(engine, context.run_id))
        kill()

    SCRIPT.do("b", read_and_die)
    with pytest.raises(Killed):
        through(proxy, lambda: drive(run_id))
    assert seen[0].point.readable
    (save,) = SaveAttempt.objects.filter(run_id=run_id)
    sql_past_triggers(
        "UPDATE checkpoints_saveattempt SET status = 'UNKNOWN', resolved_at = NULL, resolved_fence = NULL"
    )
    found = read(engine, run_id)
    assert (found.point.readable, found.point.revision) == (False, None)
    assert [(one.trigger, one.save_id) for one in found.saves] == [(Trigger.AFTER_EFFECT, save.save_id)]


def test_a_head_that_was_changed_is_no_point_to_go_on_from(engine: Engine) -> None:
    run_id = engine.run(calls(("once", "a")))
    sql_past_triggers("UPDATE checkpoints_head SET digest = repeat('a', 64)")
    found = read(engine, run_id)
    assert (found.point.readable, found.point.revision) == (False, None)
    assert "DIGEST_MISMATCH" in found.point.found
    assert headings(found)["once/a"] == Standing.REAUTHORISE


def test_a_run_of_another_tenant_is_not_there(engine: Engine) -> None:
    run_id = engine.run(calls(("look", "a")))
    with pytest.raises(NotFound):
        read(Engine(people("south")), run_id)
