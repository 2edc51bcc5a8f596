"""Runs, threads and tenants do not see, block or change each other."""

from contextlib import suppress
from dataclasses import replace
from secrets import token_hex

import pytest
from django.db import transaction

from accounts.codec import BodyChanged
from accounts.errors import NotFound
from accounts.selectors import actor_named, plain_body, sealed_body
from approvals.selectors import access_wait
from checkpoints.models import Checkpoint
from checkpoints.selectors import access_checkpoint, load_head
from checkpoints.services import prepare
from checkpoints.statements import Candidate
from checkpoints.states import NotSaved, Trigger
from receipts.models import Effect, ToolCall
from receipts.selectors import access_call, calls_in_lineage, lineage_calls, run_keys, sealed_turns
from runs.leases import lease_acquire, leases_end
from runs.models import Artifact, Message, Thread
from runs.selectors import access_run, artifact_bytes, run_by_admission
from runs.services import artifact_store
from runs.states import WakeupCause
from runs.wakeups import wakeup_pending, wakeup_write, wakeups_cancel
from tests.contract.refusals import REFUSALS, refused
from tests.contract.store import Store, stored
from tests.engine.engine import lease_of, sql
from tests.engine.races import Aside, uncommitted

# ── runs ──


def test_a_save_of_one_run_moves_no_other_head(store: Store) -> None:
    one, other = store.worker(), store.worker()
    one.save()
    assert load_head(other.run) == other.position
    assert load_head(one.run).revision == 2


def test_each_run_counts_its_revisions_from_one(store: Store) -> None:
    one, other = store.worker(), store.worker()
    one.save()
    one.save()
    other.save()
    assert [load_head(worker.run).revision for worker in (one, other)] == [3, 2]


def test_a_note_of_one_run_can_not_be_saved_as_another_ones(store: Store) -> None:
    one, other = store.worker(), store.worker()
    stolen = one.prepared(one.next(run=other.run.id))
    assert isinstance(one.send(stolen), NotSaved)
    assert load_head(other.run).revision == load_head(one.run).revision == 1


def test_the_lease_of_one_run_proves_nothing_about_another(store: Store) -> None:
    one, other = store.worker(), store.worker(owner="w2")
    call = one.new_call()
    one.turn_with(call)
    one.holding = replace(other.holding, run_id=one.run.id)
    assert not one.record_task(call, {"v": 1}).held
    assert stored(call).status == "DISPATCHED"


def test_two_runs_are_written_at_the_same_time(store: Store) -> None:
    """One run's open transaction keeps nobody else waiting."""
    one, other = store.worker(), store.worker()
    with uncommitted():
        one.save()
        Aside(other.save).result()
    assert load_head(other.run).revision == 2


def test_the_calls_and_turns_of_one_run_are_not_anothers(store: Store) -> None:
    one, other = store.worker(), store.worker()
    one.turn_with(one.new_call())
    other.turn_with()
    assert sealed_turns(tenant_id=store.tenant.id, run_id=other.run.id)[0].proposals == []
    assert not run_keys(run_id=other.run.id).live
    assert other.run.tool_calls.count() == 0


def test_the_same_call_in_two_runs_has_two_keys_and_one_intent(store: Store) -> None:
    one, other = store.worker(), store.worker()
    a, b = one.new_call(), other.new_call()
    assert a.idempotency_key != b.idempotency_key
    assert a.intent_key == b.intent_key
    assert one.turn_with(a).done and other.turn_with(b).done


def test_a_result_of_another_run_can_not_be_referred_to(store: Store) -> None:
    one, other = store.worker(), store.worker()
    call = one.new_call()
    one.turn_with(call)
    one.record(call, {"v": 1})
    draft = other.next(results=(one.ref(call, {"v": 1}),))
    outcome = prepare(Candidate(draft, Trigger.CURSOR, after=other.position.snapshot))
    assert isinstance(outcome, NotSaved)
    assert (outcome.kind, outcome.path) == ("MISSING_REF", "$.results[0]")


def test_a_stop_reaches_one_run_only(store: Store) -> None:
    one, other = store.worker(), store.worker()
    sql("UPDATE runs_lease SET stop_requested = true WHERE run_id = %s", one.run.id)
    assert (one.ask().stopping, other.ask().stopping) == (True, False)


def test_an_empty_budget_of_one_run_stops_no_other(store: Store) -> None:
    poor, rich = store.worker(caps={"model_calls": 0}), store.worker()
    assert (poor.ask().go, rich.ask().go) == (False, True)


def test_wakeups_of_one_run_are_not_anothers(store: Store) -> None:
    one, other = store.admit(), store.admit()
    with transaction.atomic():
        wakeup_write(tenant_id=store.tenant.id, run_id=one.id, cause=WakeupCause.RESUME, dedupe_key=f"r:{one.id}")
    causes = frozenset(WakeupCause)
    assert not wakeup_pending(run_id=other.id, causes=causes)
    wakeups_cancel(run_id=other.id)
    assert wakeup_pending(run_id=one.id, causes=causes)


def test_the_end_of_one_process_ends_only_its_own_leases(store: Store) -> None:
    mine, its = store.admit(), store.admit()
    lease_acquire(run_id=mine.id, owner="w1", lock_key=41)
    lease_acquire(run_id=its.id, owner="w2", lock_key=42)
    assert list(leases_end(lock_key=41)) == [mine.id]
    assert lease_acquire(run_id=its.id, owner="w3") is None
    assert lease_acquire(run_id=mine.id, owner="w3") is not None


def test_a_call_of_another_run_can_not_be_answered_under_my_fence(store: Store) -> None:
    """The fence is proved for one run; a call that belongs to another is not touched by it."""
    one, other = store.worker(), store.worker()
    call = one.new_call()
    one.turn_with(call)
    other.tries[call.id] = 1
    with suppress(*REFUSALS):
        other.record_task(call, {"v": 1})
    assert stored(call).status == "DISPATCHED"
    assert not hasattr(stored(call), "result")


def test_a_call_of_another_run_can_not_be_sent_under_my_fence(store: Store) -> None:
    one, other = store.worker(), store.worker()
    call = one.new_call(send=False)
    one.turn_with(call)
    with suppress(*REFUSALS):
        other.dispatch_again(call, sources=("PROPOSED",))
    assert (stored(call).status, stored(call).attempts) == ("PROPOSED", 0)


def test_a_turn_of_another_run_can_not_be_sealed_under_my_fence(store: Store) -> None:
    one, other = store.worker(), store.worker()
    one.ask()
    other.turn, other.asked, other.tries = one.turn, one.asked, dict(one.tries)
    with suppress(*REFUSALS):
        other.seal()
    assert one.run.model_calls.get().status == "DISPATCHED"


# ── threads ──


def test_a_thread_carries_its_runs_and_their_messages_in_one_order(store: Store) -> None:
    first = store.admit(thread="t", goal="one")
    sql("UPDATE runs_run SET status = 'CANCELLED', ended_at = clock_timestamp() WHERE id = %s", first.id)
    second = store.admit(thread="t", goal="two")
    assert first.thread_id == second.thread_id
    seqs = Message.objects.filter(thread_id=first.thread_id).order_by("seq").values_list("seq", "run_id")
    assert list(seqs) == [(1, first.id), (2, second.id)]


def test_a_thread_has_one_live_run(store: Store) -> None:
    key = token_hex(8)
    store.admit(thread=key)
    assert "one_live_root_per_thread" in refused(lambda: store.admit(thread=key))


def test_threads_of_two_agents_with_one_key_are_two(store: Store) -> None:
    key = token_hex(8)
    one, other = store.admit(thread=key), store.admit(thread=key, agent="another")
    assert one.thread_id != other.thread_id


def test_messages_of_one_thread_do_not_count_in_another(store: Store) -> None:
    store.admit(thread=token_hex(8))
    run = store.admit(thread=token_hex(8))
    assert Message.objects.get(thread_id=run.thread_id).seq == 1


# ── tenants ──


def test_the_same_keys_in_two_tenants_make_two_runs_in_two_threads(store: Store, foreign: Store) -> None:
    key = token_hex(8)
    one, other = store.admit(key=key, thread=key), foreign.admit(key=key, thread=key)
    assert one.id != other.id
    assert one.thread_id != other.thread_id
    found = run_by_admission(tenant_id=foreign.tenant.id, admission_key=key)
    assert found is not None
    assert found.id == other.id


def test_an_admission_of_another_tenant_is_not_found(store: Store, foreign: Store) -> None:
    run = store.admit()
    assert run_by_admission(tenant_id=foreign.tenant.id, admission_key=run.admission_key) is None


def test_the_same_bytes_in_two_tenants_are_stored_twice(store: Store, foreign: Store) -> None:
    data = token_hex(16).encode()
    sha256s = {artifact_store(tenant_id=one.tenant.id, data=data, media_type="text/plain") for one in (store, foreign)}
    (sha256,) = sha256s
    assert Artifact.objects.filter(sha256=sha256).count() == 2


def test_bytes_of_another_tenant_are_not_found_by_their_digest(store: Store, foreign: Store) -> None:
    sha256 = artifact_store(tenant_id=store.tenant.id, data=token_hex(16).encode(), media_type="text/plain")
    with pytest.raises(Artifact.DoesNotExist):
        artifact_bytes(tenant_id=foreign.tenant.id, sha256=sha256)


def test_a_body_can_not_be_opened_with_another_tenants_key(store: Store, foreign: Store) -> None:
    mine, its = store.worker(), foreign.worker()
    body = sealed_body(key_id=mine.key_id, plain=b"secret")
    with pytest.raises(BodyChanged):
        plain_body(key_id=its.key_id, body=body)


def test_a_worker_that_names_another_tenant_writes_nothing_of_it(store: Store, foreign: Store) -> None:
    """The tenant of a row is held by the database against the tenant of its run."""
    worker = store.worker()
    worker.ask()
    call = worker.new_call()
    assert refused(lambda: worker.seal(call, tenant=foreign.tenant.id))
    assert not ToolCall.objects.filter(id=call.id).exists()
    assert not Checkpoint.objects.filter(run=worker.run, revision=2).exists()


def test_an_effect_of_another_tenants_call_can_not_be_written(store: Store, foreign: Store) -> None:
    worker = store.worker()
    call = worker.new_call(effect="IDEMPOTENT")
    worker.turn_with(call)
    assert refused(lambda: worker.record(call, {"v": 1}, tenant=foreign.tenant.id))
    assert not Effect.objects.filter(tool_call_id=call.id).exists()


def test_nobody_reaches_an_object_of_another_tenant(store: Store, foreign: Store) -> None:
    """A foreign id is answered like a missing one, whatever it is an id of."""
    worker = store.worker()
    call = worker.new_call(effect="NON_IDEMPOTENT", send=False)
    worker.turn_with(call)
    wait = worker.open_wait(call)
    stranger, friend = actor_named(username="ann-south", door="page"), actor_named(username="ann-north", door="page")
    assert access_run(actor=friend, id=worker.run.id).id == worker.run.id
    for reach_it in (
        lambda: access_run(actor=stranger, id=worker.run.id),
        lambda: access_checkpoint(actor=stranger, run_id=worker.run.id, revision=1),
        lambda: access_call(actor=stranger, id=call.id),
        lambda: access_wait(actor=stranger, id=wait.id),
    ):
        with pytest.raises(NotFound):
            reach_it()


def test_a_lineage_does_not_reach_into_another_tenant(store: Store, foreign: Store) -> None:
    mine, its = store.worker(), foreign.worker()
    call = its.new_call()
    its.turn_with(call)
    its.record(call, {"v": 1})
    assert lineage_calls(run_id=mine.run.id, ids=[call.id]) == {}
    assert calls_in_lineage(ids=[call.id], lineage_id=mine.run.lineage_id) == {}


def test_a_thread_belongs_to_the_tenant_of_its_agent(store: Store, foreign: Store) -> None:
    run, other = store.admit(), foreign.admit()
    assert refused(lambda: Thread.objects.create(tenant=store.tenant, agent=other.thread.agent, key="x"))
    assert run.thread.tenant_id == store.tenant.id


def test_one_tenants_worker_does_not_wait_for_another_tenants(store: Store, foreign: Store) -> None:
    one, other = store.worker(), foreign.worker()
    with uncommitted():
        one.turn_with(one.new_call())
        Aside(lambda: other.turn_with(other.new_call())).result()
    assert lease_of(other.run.id).fence == 1
