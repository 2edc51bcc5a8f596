"""The same write twice is one fact: whoever repeats it is told so, or finds what is there."""

from functools import partial
from typing import Any

import pytest
from django.db import transaction

from accounts.codec import BodyChanged
from checkpoints.models import Checkpoint, SaveAttempt, TaskWrite
from checkpoints.selectors import load_head
from checkpoints.services import refused_save_record
from checkpoints.states import NotSaved
from receipts.models import Claim, ModelCall, Result, ToolCall
from receipts.selectors import lineage_claims, run_keys
from receipts.services import (
    VerdictGiven,
    attempt_find,
    attempt_lost,
    call_lock,
    claim_release,
    claim_take,
    verdict_store,
)
from receipts.states import FollowUp, Verdict
from runs.models import Artifact, BudgetEntry, Run, Wakeup
from runs.selectors import run_by_admission
from runs.services import (
    artifact_store,
    budget_hold_unknown,
    budget_release,
    budget_reserve,
    budget_settle,
    stop_accept,
)
from runs.states import WakeupCause
from runs.wakeups import wakeup_write, wakeups_consume
from runtime import statements as steps
from runtime.statements import write
from tests.contract.refusals import REFUSALS, refused
from tests.contract.store import Store, Worker, stored
from tests.engine.engine import sql, sql_past_triggers
from tests.engine.races import Aside, together, uncommitted

# ── admission ──


def test_an_admission_key_admits_one_run(store: Store) -> None:
    run = store.admit(key="once")
    assert "run_admission_once" in refused(lambda: store.admit(key="once", thread="another"))
    found = run_by_admission(tenant_id=store.tenant.id, admission_key="once")
    assert found is not None
    assert found.id == run.id


def test_of_admissions_at_once_with_one_key_one_is_made(store: Store) -> None:
    def admit() -> str:
        try:
            return str(store.admit(key="at-once").id)
        except REFUSALS as error:
            return type(error).__name__

    made = [outcome for outcome in together(*(admit for _ in range(6))) if outcome != "IntegrityError"]
    assert len(made) == 1
    assert Run.objects.filter(admission_key="at-once").count() == 1


def test_an_admission_that_is_refused_leaves_nothing_of_itself(store: Store) -> None:
    store.admit(key="first")
    before = [
        sql(f"SELECT count(*) FROM {table}") for table in ("runs_run", "runs_budget", "checkpoints_head", "runs_lease")
    ]
    refused(lambda: store.admit(key="first", thread="t2", inputs={"a": ("a", b"x")}))
    after = [
        sql(f"SELECT count(*) FROM {table}") for table in ("runs_run", "runs_budget", "checkpoints_head", "runs_lease")
    ]
    assert after == before


def test_the_same_bytes_are_stored_once(store: Store) -> None:
    given = [artifact_store(tenant_id=store.tenant.id, data=b"twice", media_type="text/plain") for _ in range(2)]
    assert given[0] == given[1]
    assert Artifact.objects.filter(tenant=store.tenant, sha256=given[0]).count() == 1


def test_the_same_bytes_at_the_same_instant_are_stored_once(store: Store) -> None:
    act = partial(artifact_store, tenant_id=store.tenant.id, data=b"at once", media_type="text/plain")
    (sha256,) = set(together(*(act for _ in range(6))))
    assert Artifact.objects.filter(tenant=store.tenant, sha256=sha256).count() == 1


def test_bytes_that_were_changed_in_the_store_are_not_taken_for_the_same(store: Store) -> None:
    sha256 = artifact_store(tenant_id=store.tenant.id, data=b"changed", media_type="text/plain")
    sql_past_triggers("UPDATE runs_artifact SET body = overlay(body placing '\\x00' from 15) WHERE sha256 = %s", sha256)
    with pytest.raises(BodyChanged):
        artifact_store(tenant_id=store.tenant.id, data=b"changed", media_type="text/plain")


# ── saves ──


def test_a_save_that_is_sent_twice_saves_once(worker: Worker) -> None:
    prepared = worker.prepared(worker.next())
    worker.send(prepared)
    assert isinstance(worker.send(prepared), NotSaved)
    assert Checkpoint.objects.get(save_id=prepared.save_id).revision == 2
    assert load_head(worker.run).revision == 2


def test_a_save_id_names_one_revision(worker: Worker) -> None:
    prepared = worker.prepared(worker.next())
    worker.send(prepared)
    worker.believe(prepared)
    worker.save()
    assert len(set(Checkpoint.objects.filter(run=worker.run).values_list("save_id", flat=True))) == 3


def test_a_refused_save_is_recorded_once(worker: Worker) -> None:
    worker.send(worker.prepared(worker.next()))
    outcome = worker.send(worker.prepared(worker.next()))
    assert isinstance(outcome, NotSaved)
    record = partial(refused_save_record, outcome, tenant_id=worker.run.tenant_id, run_id=worker.run.id, fence=1)
    record()
    assert refused(record)
    assert SaveAttempt.objects.filter(save_id=outcome.save_id).count() == 1


# ── turns and calls ──


def test_a_turn_is_asked_once_per_number(worker: Worker) -> None:
    worker.ask()
    worker.turn -= 1
    assert "model_turn_once" in refused(worker.ask)
    assert ModelCall.objects.filter(run=worker.run).count() == 1


def test_a_turn_is_sealed_once(worker: Worker) -> None:
    worker.turn_with()
    assert "budget" in refused(worker.seal) or ModelCall.objects.get(run=worker.run).sealed_fence == 1
    assert ModelCall.objects.filter(run=worker.run, status="SEALED").count() == 1


def test_one_live_call_per_key(worker: Worker) -> None:
    call = worker.new_call(send=False)
    worker.turn_with(call)
    worker.save()
    worker.ask()
    again = worker.new_call(send=False)
    assert again.idempotency_key == call.idempotency_key
    assert "one_live_call_per_key" in refused(lambda: worker.seal(again))


@pytest.mark.parametrize("ended", ["FAILED", "CANCELLED", "DENIED", "REJECTED"])
def test_a_call_that_did_not_happen_frees_its_key(worker: Worker, ended: str) -> None:
    call = worker.new_call(send=ended == "FAILED")
    worker.turn_with(call)
    if ended == "FAILED":
        worker.record(call, {"error": "no"}, ok=False)
    else:
        sql("UPDATE receipts_toolcall SET status = 'AWAITING_APPROVAL' WHERE id = %s", call.id)
        sql("UPDATE receipts_toolcall SET status = %s WHERE id = %s", ended, call.id)
    assert call.idempotency_key not in run_keys(run_id=worker.run.id).live
    worker.save()
    worker.ask()
    assert worker.seal(worker.new_call()).done


def test_a_call_is_sent_once_per_attempt(worker: Worker) -> None:
    """A dispatch that comes twice sends once; one that counts on another number sends nothing."""
    call = worker.new_call(send=False)
    worker.turn_with(call)
    assert worker.dispatch(call).started == 1
    worker.tries[call.id] = 0
    assert "runs_budgetentry_pkey" in refused(lambda: worker.dispatch_again(call, sources=("DISPATCHED",)))
    worker.tries[call.id] = 5
    assert worker.dispatch_again(call, sources=("DISPATCHED",)).started is None
    assert stored(call).attempts == 1


def test_of_dispatches_at_once_one_sends(worker: Worker) -> None:
    call = worker.new_call()
    worker.turn_with(call)
    attempt_lost(attempt_find(receipt_id=call.id, attempt_no=1), why="no answer")
    params = worker._dispatch_params((call,), ("UNCERTAIN",))

    def send() -> int | str | None:
        try:
            return write(steps.DISPATCH_AGAIN, params).started
        except REFUSALS as error:
            return type(error).__name__

    started = together(*(send for _ in range(4)))
    assert started.count(1) == 1
    assert stored(call).attempts == 2


def test_a_result_is_recorded_once(worker: Worker) -> None:
    call = worker.new_call()
    worker.turn_with(call)
    worker.record(call, {"v": 1})
    revision = worker.position.revision
    assert not worker.record_alone(call, {"v": 2}).done
    assert not worker.record_task(call, {"v": 2}).done
    assert not worker.record(call, {"v": 2}).done
    assert (worker.position.revision, stored(call).attempts) == (revision, 1)
    assert Result.objects.get(tool_call_id=call.id).digest == worker.ref(call, {"v": 1}).digest


def test_thirty_results_of_one_step_at_once_are_thirty_facts(worker: Worker) -> None:
    """B42: nobody's write takes another's place."""
    calls = [worker.new_call(f"c{n}") for n in range(30)]
    worker.turn_with(*calls)
    waves = [calls[start : start + 10] for start in range(0, 30, 10)]
    for wave in waves:
        together(*(partial(worker.record_task, call, {"v": call.step_name}) for call in wave))
    assert TaskWrite.objects.filter(run=worker.run).count() == 30
    for call in calls:
        assert stored(call).result.digest == worker.ref(call, {"v": call.step_name}).digest


def test_an_effect_is_written_once_per_key(worker: Worker) -> None:
    call = worker.new_call(effect="IDEMPOTENT")
    worker.turn_with(call)
    worker.record(call, {"v": 1})
    effect = worker.run.effects.get()
    effect.pk = None
    assert refused(effect.save)


# ── claims ──


def claiming_call(store: Store) -> ToolCall:
    """A recorded call with the intent that every other one of these has, in a run of its own."""
    worker = store.worker()
    call = worker.new_call("claim", effect="NON_IDEMPOTENT", send=False)
    worker.turn_with(call)
    return stored(call)


def test_an_intent_is_claimed_once_in_a_lineage(store: Store) -> None:
    mine, its = claiming_call(store), claiming_call(store)
    assert mine.intent_key == its.intent_key
    with transaction.atomic():
        assert claim_take(mine, lineage_id=mine.run.lineage_id) is None
        assert claim_take(mine, lineage_id=mine.run.lineage_id) is None
        assert claim_take(its, lineage_id=mine.run.lineage_id) == mine.id
    assert Claim.objects.filter(intent_key=mine.intent_key, lineage_id=mine.run.lineage_id).count() == 1


def test_a_claim_that_was_given_up_can_be_taken_by_another_call(store: Store) -> None:
    mine, its = claiming_call(store), claiming_call(store)
    with transaction.atomic():
        claim_take(mine, lineage_id=mine.run.lineage_id)
        claim_release(mine)
        assert claim_take(its, lineage_id=mine.run.lineage_id) is None
    found = lineage_claims(tenant_id=mine.tenant_id, lineage_id=mine.run.lineage_id, intents=[mine.intent_key])
    assert found[mine.intent_key].id == its.id


def test_whoever_claims_at_the_same_time_waits_for_the_first_ones_commit(store: Store) -> None:
    mine, its = claiming_call(store), claiming_call(store)

    def take() -> object:
        with transaction.atomic():
            return claim_take(its, lineage_id=mine.run.lineage_id)

    with uncommitted():
        claim_take(mine, lineage_id=mine.run.lineage_id)
        late = Aside(take)
        late.wait_blocked()
    assert late.result() == mine.id


# ── wakeups, stops, verdicts, budget ──


def test_a_wakeup_is_stored_once_per_key(store: Store) -> None:
    run = store.admit()
    for _ in range(3):
        wakeup_write(tenant_id=store.tenant.id, run_id=run.id, cause=WakeupCause.RESUME, dedupe_key=f"r:{run.id}")
    assert Wakeup.objects.filter(run=run).count() == 1


def test_a_wakeup_is_consumed_once(worker: Worker) -> None:
    causes = frozenset({WakeupCause.RESUME})
    wakeup_write(
        tenant_id=worker.run.tenant_id, run_id=worker.run.id, cause=WakeupCause.RESUME, dedupe_key=f"r:{worker.run.id}"
    )
    assert wakeups_consume(run_id=worker.run.id, fence=1, causes=causes) == 1
    assert wakeups_consume(run_id=worker.run.id, fence=1, causes=causes) == 0


def test_a_wakeup_that_was_consumed_is_not_stored_again(worker: Worker) -> None:
    write_it = partial(
        wakeup_write,
        tenant_id=worker.run.tenant_id,
        run_id=worker.run.id,
        cause=WakeupCause.RESUME,
        dedupe_key=f"r:{worker.run.id}",
    )
    write_it()
    wakeups_consume(run_id=worker.run.id, fence=1, causes=frozenset({WakeupCause.RESUME}))
    write_it()
    assert not Wakeup.objects.filter(run=worker.run, status="PENDING").exists()


def test_a_stop_is_accepted_once(worker: Worker) -> None:
    with worker.held() as run:
        first, new = stop_accept(run=run, reason="enough", actor="person:olga")
        again, new_again = stop_accept(run=run, reason="really", actor="person:otto")
    assert (new, new_again, again.id) == (True, False, first.id)


def test_a_final_verdict_is_given_once_per_attempt(worker: Worker) -> None:
    call = worker.new_call(effect="NON_IDEMPOTENT")
    worker.turn_with(call)
    attempt_lost(attempt_find(receipt_id=call.id, attempt_no=1), why="no answer")
    given = VerdictGiven(Verdict.EXECUTED, FollowUp.NONE, "HUMAN", "seen", "ref", "person:ann")
    with transaction.atomic():
        verdict_store(call_lock(call.id), given)
    assert "one_final_verdict_per_attempt" in refused(lambda: verdict_store(stored(call), given))
    assert Result.objects.filter(tool_call_id=call.id).count() == 1


def test_an_attempt_is_settled_once(worker: Worker) -> None:
    call = worker.new_call()
    worker.turn_with(call)
    attempt = attempt_find(receipt_id=call.id, attempt_no=1)
    attempt_lost(attempt, why="first")
    attempt_lost(attempt, why="second")
    attempt.refresh_from_db()
    assert (attempt.outcome, attempt.error) == ("NO_RESPONSE", "first")


@pytest.mark.parametrize("act", ["settle", "release", "hold"])
def test_a_reservation_is_closed_once(worker: Worker, act: str) -> None:
    call = worker.new_call()
    worker.turn_with(call)
    where: dict[str, Any] = {"run_id": worker.run.id, "receipt_id": call.id, "attempt_no": 1}
    acts = {
        "settle": partial(budget_settle, **where, used={"tool_calls": 1}),
        "release": partial(budget_release, **where),
        "hold": partial(budget_hold_unknown, **where),
    }
    for _ in range(3):
        acts[act]()
    row = sql(
        "SELECT reserved, held_unknown, spent FROM runs_budget WHERE run_id = %s AND unit = 'tool_calls'", worker.run.id
    )
    assert row == [{"settle": (0, 0, 1), "release": (0, 0, 0), "hold": (0, 1, 0)}[act]]
    assert BudgetEntry.objects.filter(receipt_id=call.id).count() == 2


def test_a_reservation_takes_all_units_or_none(worker: Worker) -> None:
    with transaction.atomic():
        short = budget_reserve(
            run_id=worker.run.id, receipt_id=worker.run.id, amounts={"tokens": 5, "tool_calls": 10**9}
        )
    assert [one.unit for one in short] == ["tool_calls"]
    assert not BudgetEntry.objects.filter(receipt_id=worker.run.id).exists()
