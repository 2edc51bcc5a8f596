"""What a long run may rely on: it goes on where it was, does nothing twice, and takes nothing while it waits."""

import json
from collections import Counter
from random import Random
from typing import Any

import pytest

from checkpoints.models import Checkpoint, Head
from receipts.models import Effect, ModelCall, ReportVersion, ToolCall
from runs.models import Lease, Run
from runtime.contracts import ModelRequest, ModelTurn
from runtime.loop import drive
from tests.engine.engine import At, Engine, Killed, expire_lease, kill, run_now, sql, sql_past_triggers
from tests.scenarios.invariants import broken_invariants
from tests.scripted import SCRIPT, calls, done, went_well


def test_a_crash_at_step_17_of_20_starts_nothing_again(engine: Engine, at_point: At) -> None:
    """D-003: what was done before is neither asked nor sent again, with effects among it."""
    tools = {5: "note", 10: "once", 15: "note"}
    steps = [(tools.get(number, "look"), f"s{number}") for number in range(1, 21)]

    def fall(_: Any) -> Any:
        at_point("after_result_commit", kill)
        return went_well("s17")

    SCRIPT.tell(*(calls(step) for step in steps), done())
    SCRIPT.do("s17", fall)
    run_id = engine.start()
    drive(run_id)
    engine.approve(run_id)
    with pytest.raises(Killed):
        drive(run_id)
    asked_before = len(SCRIPT.requests)
    expire_lease(run_id)
    drive(run_id)

    assert (run_now(run_id).status, run_now(run_id).takeovers) == ("COMPLETED", 1)
    assert [request.turn_no for request in SCRIPT.requests] == list(range(1, 22)), "each turn was asked once"
    assert asked_before == 17
    assert [(sent.tool, sent.label) for sent in SCRIPT.sent] == steps, "each step was sent once"
    # The request of turn 18 was committed with the result and not sent: it alone has a second attempt (ruling 2).
    assert list(ModelCall.objects.exclude(attempts=1).values_list("turn_no", "attempts")) == [(18, 2)]
    assert Effect.objects.count() == len(tools)


@pytest.mark.parametrize("seed", range(6))
def test_steps_in_another_order_after_a_restart_have_their_effects_once(
    engine: Engine, at_point: At, seed: int
) -> None:
    """C-022: the model proposes all of them again, shuffled and twice; results are found by key and never by place."""
    chance = Random(seed)
    labels = [f"n{number}" for number in range(5)]
    first, again = (
        chance.sample(labels, k=chance.randint(1, 4)),
        chance.sample(labels, k=5) + chance.sample(labels, k=2),
    )

    def propose(request: ModelRequest) -> ModelTurn:
        if request.turn_no <= len(first):
            return calls(("note", first[request.turn_no - 1]))
        return calls(*(("note", label) for label in again)) if request.turn_no == len(first) + 1 else done()

    for turn_no in range(1, len(first) + 3):
        SCRIPT.turns[turn_no] = [propose]
    run_id = engine.start()
    at_point(chance.choice(("after_result_commit", "inside_result_tx", "after_turn_sealed")), kill)
    with pytest.raises(Killed):
        drive(run_id)
    expire_lease(run_id)
    drive(run_id)

    assert run_now(run_id).status == "COMPLETED"
    assert Counter(ReportVersion.objects.values_list("title", flat=True)) == dict.fromkeys(labels, 1)
    assert (Effect.objects.count(), ToolCall.objects.count()) == (5, 5)
    answers = {m["id"]: m["value"] for m in SCRIPT.requests[-1].history if m["role"] == "tool"}
    for ordinal, label in enumerate(again):
        assert answers[f"t{len(first) + 1}-{ordinal}"] == {"label": label}
    assert broken_invariants() == {}


def test_the_head_of_a_run_with_ten_thousand_revisions_is_found_by_its_index(engine: Engine) -> None:
    """D-047."""
    run_id = engine.run(calls(("look", "a")))
    columns = [str(field.column) for field in Checkpoint._meta.fields]
    different = {
        "id": "gen_random_uuid()",
        "save_id": "gen_random_uuid()",
        "revision": "n",
        "parent_digest": "digest",
        "encoding": "'FULL'",
    }
    copied = ", ".join(different.get(column, column) for column in columns)
    sql_past_triggers(
        f"INSERT INTO checkpoints_checkpoint ({', '.join(columns)}) SELECT {copied} FROM checkpoints_checkpoint, "
        "generate_series(1000, 10999) AS n WHERE run_id = %s AND revision = 2",
        run_id,
    )
    sql("ANALYZE checkpoints_checkpoint")
    for rows in (
        Checkpoint.objects.filter(run_id=run_id, revision=10_500),
        Checkpoint.objects.filter(run_id=run_id).order_by("-revision")[:1],
        Head.objects.filter(run_id=run_id),
    ):
        [plan] = json.loads(rows.explain(format="json", analyze=True, buffers=True))
        assert "Index Scan" in json.dumps(plan) and "Sort" not in json.dumps(plan), plan
        assert plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"] < 10, plan


def test_runs_that_wait_hold_no_lease_no_session_and_nobody_up(engine: Engine) -> None:
    """D-039, D-040."""
    sessions = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
    before: set[Any] = set()
    for number in range(25):
        engine.run(calls(("once", f"w{number}")))
        before.add(sql(sessions)[0][0])
    waiting = Run.objects.filter(status="WAITING")
    assert (waiting.count(), Lease.objects.filter(run__in=waiting).exclude(owner=None).count()) == (25, 0)
    assert max(before) <= 2, "the worker has one, and its heartbeat one while it beats"
    run_id = engine.run(calls(("look", "now")))
    assert run_now(run_id).status == "COMPLETED"
    assert waiting.count() == 25
