"""The lease: one holder at a time, by the database's clock alone, under a fence that only rises."""

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
from django.db import transaction
from pytest_django import Settings

from accounts.keys import new_id
from runs.leases import (
    lease_acquire,
    lease_held,
    lease_lock,
    lease_lock_any,
    lease_pass,
    lease_refence,
    lease_release,
    lease_renew,
    leases_end,
)
from runs.models import Run
from runs.selectors import database_now, runs_to_look_at
from runs.services import run_lock, run_move
from runs.states import Holding, RunStatus
from tests.contract.refusals import refused
from tests.contract.store import Store, Worker
from tests.engine.engine import expire_lease, lease_of, sql
from tests.engine.races import Aside, together, uncommitted, undone
from tests.waiting import wait_until


def proved(holding: Holding) -> bool:
    with transaction.atomic():
        return lease_lock(holding) is not None


def seconds_left(worker: Worker) -> float:
    """By the database's clock."""
    expires_at = lease_of(worker.run.id).expires_at
    assert expires_at is not None
    return (expires_at - database_now()).total_seconds()


def give_back(worker: Worker, to: RunStatus = RunStatus.QUEUED) -> None:
    with worker.held() as run:
        run_move(run, to, cause="DRAIN", actor="worker:w1", fence=worker.holding.fence)


def test_the_first_holder_has_fence_1(worker: Worker) -> None:
    assert (worker.holding.fence, worker.holding.takeover) == (1, False)
    assert proved(worker.holding)


def test_each_taking_raises_the_fence_by_one(store: Store) -> None:
    run = store.admit()
    for fence in range(1, 5):
        worker = store.worker(run)
        assert worker.holding.fence == fence
        give_back(worker)


def test_a_held_run_is_given_to_nobody(store: Store, worker: Worker) -> None:
    assert [lease_acquire(run_id=worker.run.id, owner=owner) for owner in ("w1", "w2")] == [None, None]
    assert lease_of(worker.run.id).fence == 1


def test_of_many_takers_one_is_given_the_run(store: Store) -> None:
    run = store.admit()
    held = together(*(partial(lease_acquire, run_id=run.id, owner=f"w{n}") for n in range(10)))
    assert len([holding for holding in held if holding]) == 1
    assert lease_of(run.id).fence == 1


def test_a_run_that_is_not_there_is_not_taken(store: Store) -> None:
    assert lease_acquire(run_id=new_id(), owner="w1") is None


@pytest.mark.parametrize("ending", ["COMPLETED", "CANCELLED", "FAILED", "SETTLED"])
def test_an_ended_run_is_not_taken(worker: Worker, ending: str) -> None:
    steps = ["STOPPING", ending] if ending == "CANCELLED" else [ending]
    for status in steps:
        ended = ", ended_at = clock_timestamp()" if status == ending else ""
        sql(f"UPDATE runs_run SET status = %s{ended} WHERE id = %s", status, worker.run.id)
    expire_lease(worker.run.id)
    assert lease_acquire(run_id=worker.run.id, owner="w2") is None


@pytest.mark.parametrize("status", ["WAITING", "HELD"])
def test_a_parked_run_is_not_taken(worker: Worker, status: str) -> None:
    reason = "BUDGET" if status == "HELD" else None
    with transaction.atomic():
        lease_release(worker.run.id)
        sql("UPDATE runs_run SET status = %s, hold_reason = %s WHERE id = %s", status, reason, worker.run.id)
    assert lease_acquire(run_id=worker.run.id, owner="w2") is None


def test_a_run_that_stops_can_be_taken_over_to_be_closed(store: Store, worker: Worker) -> None:
    sql("UPDATE runs_run SET status = 'STOPPING' WHERE id = %s", worker.run.id)
    expire_lease(worker.run.id)
    taken = lease_acquire(run_id=worker.run.id, owner="w2")
    assert taken is not None
    assert (taken.takeover, Run.objects.get(id=worker.run.id).status) == (True, "STOPPING")


def test_a_takeover_is_counted_and_dated(store: Store, worker: Worker) -> None:
    expire_lease(worker.run.id)
    assert store.worker(worker.run, "w2").holding.takeover
    run = Run.objects.get(id=worker.run.id)
    newest = run.transitions.latest("id")
    assert (run.takeovers, newest.cause, newest.actor, newest.fence) == (1, "TAKEOVER", "worker:w2", 2)


def test_a_run_that_was_given_back_is_not_taken_over(store: Store, worker: Worker) -> None:
    give_back(worker)
    again = store.worker(worker.run, "w2")
    assert (again.holding.takeover, Run.objects.get(id=worker.run.id).takeovers) == (False, 0)


def test_a_run_that_was_given_back_keeps_its_fence(worker: Worker) -> None:
    give_back(worker)
    lease = lease_of(worker.run.id)
    assert (lease.fence, lease.owner, lease.expires_at, lease.lock_key) == (1, None, None, None)


# ── time ──


def test_a_lease_lasts_its_time_by_the_database(settings: Settings, store: Store) -> None:
    settings.LEASE_TTL_SECONDS = 77
    worker = store.worker()
    assert 60 < seconds_left(worker) <= 77


def test_the_clock_of_a_worker_counts_nowhere(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    """B51: ten minutes ahead or behind, the same worker holds the same lease."""
    for skew in (600.0, -600.0, 86_400.0):
        now = time.time() + skew
        monkeypatch.setattr(time, "time", lambda now=now: now)
        assert lease_renew(worker.holding) == (True, False)
        assert proved(worker.holding)
        assert lease_acquire(run_id=worker.run.id, owner="w2") is None
        monkeypatch.undo()


def test_an_expired_lease_is_invalid_though_nobody_took_it(worker: Worker) -> None:
    expire_lease(worker.run.id)
    assert not proved(worker.holding)
    assert lease_renew(worker.holding) == (False, False)
    assert lease_refence(worker.holding) is None
    assert not lease_held(lease_of(worker.run.id))


def test_a_renewal_keeps_the_fence_and_moves_the_end(settings: Settings, worker: Worker) -> None:
    before = lease_of(worker.run.id)
    settings.LEASE_TTL_SECONDS = 500
    assert lease_renew(worker.holding) == (True, False)
    after = lease_of(worker.run.id)
    assert after.fence == before.fence
    assert seconds_left(worker) > 400
    assert after.acquired_at == before.acquired_at


def test_a_renewal_says_that_a_stop_is_requested(worker: Worker) -> None:
    sql("UPDATE runs_lease SET stop_requested = true WHERE run_id = %s", worker.run.id)
    assert lease_renew(worker.holding) == (True, True)


def test_a_stop_that_is_requested_does_not_end_the_lease(worker: Worker) -> None:
    sql("UPDATE runs_lease SET stop_requested = true WHERE run_id = %s", worker.run.id)
    assert proved(worker.holding)


@pytest.mark.parametrize("field", ["owner", "fence"])
def test_who_names_another_owner_or_fence_holds_nothing(worker: Worker, field: str) -> None:
    holding = worker.holding
    forged = replace(holding, owner="w9") if field == "owner" else replace(holding, fence=holding.fence + 1)
    assert not proved(forged)
    assert lease_renew(forged) == (False, False)
    assert lease_refence(forged) is None


def test_a_lease_is_proved_as_often_as_one_asks(worker: Worker) -> None:
    assert all(proved(worker.holding) for _ in range(3))
    assert lease_of(worker.run.id).fence == 1


# ── takeovers ──


def test_of_many_that_take_over_one_is_given_the_run(store: Store, worker: Worker) -> None:
    expire_lease(worker.run.id)
    held = together(*(partial(lease_acquire, run_id=worker.run.id, owner=f"w{n}") for n in range(10)))
    assert [holding.fence for holding in held if holding] == [2]


def test_the_holder_before_is_out_from_the_commit_of_the_takeover_on(store: Store, worker: Worker) -> None:
    expire_lease(worker.run.id)
    store.worker(worker.run, "w2")
    assert not proved(worker.holding)
    assert lease_renew(worker.holding) == (False, False)


def test_a_renewal_and_a_takeover_never_both_succeed(store: Store) -> None:
    """Around the expiry: whoever commits first decides, and the other is told."""
    for _ in range(8):
        worker = store.worker()
        expire_lease(worker.run.id)
        renewed, taken = together(
            partial(lease_renew, worker.holding), partial(lease_acquire, run_id=worker.run.id, owner="w2")
        )
        assert (renewed, taken is not None) == ((False, False), True)


def test_whoever_holds_the_row_is_not_taken_over_until_the_commit(store: Store, worker: Worker) -> None:
    """Its time may pass while it writes: the lock keeps the next one out, and only its commit lets it in."""
    sql("UPDATE runs_lease SET expires_at = clock_timestamp() + interval '0.2 s' WHERE run_id = %s", worker.run.id)
    with uncommitted():
        assert lease_lock(worker.holding) is not None
        wait_until(lambda: not lease_held(lease_of(worker.run.id)), "the time of the lease is over")
        taker = Aside(partial(lease_acquire, run_id=worker.run.id, owner="w2"))
        taker.wait_blocked()
    assert taker.result().fence == 2


def test_a_takeover_that_is_rolled_back_leaves_the_holder_as_it_was(store: Store, worker: Worker) -> None:
    with undone():
        expire_lease(worker.run.id)
        assert lease_acquire(run_id=worker.run.id, owner="w2") is not None
    assert proved(worker.holding)
    assert lease_of(worker.run.id).fence == 1


def test_the_sweep_sees_a_run_whose_holder_is_gone(store: Store, worker: Worker) -> None:
    assert worker.run.id not in runs_to_look_at(limit=100_000)
    expire_lease(worker.run.id)
    assert worker.run.id in runs_to_look_at(limit=100_000)


# ── the death of a process, and the acts of people ──


def test_the_end_of_a_process_ends_its_leases_at_once(store: Store) -> None:
    run = store.admit()
    holding = lease_acquire(run_id=run.id, owner="w1", lock_key=77)
    assert holding is not None
    assert list(leases_end(lock_key=77)) == [run.id]
    assert not proved(holding)
    assert store.worker(run, "w2").holding.fence == 2


def test_a_lease_that_has_passed_on_is_not_ended_with_its_holder_before(store: Store) -> None:
    run = store.admit()
    lease_acquire(run_id=run.id, owner="w1", lock_key=78)
    expire_lease(run.id)
    second = lease_acquire(run_id=run.id, owner="w2", lock_key=79)
    assert second is not None
    assert list(leases_end(lock_key=78)) == []
    assert proved(second)


def test_an_end_is_told_once(store: Store) -> None:
    run = store.admit()
    lease_acquire(run_id=run.id, owner="w1", lock_key=80)
    assert list(leases_end(lock_key=80)) == [run.id]
    assert list(leases_end(lock_key=80)) == []


def test_a_person_passes_the_fence_and_holds_nothing_afterwards(store: Store) -> None:
    run = store.admit()
    with transaction.atomic():
        lease_lock_any(run.id)
        assert lease_pass(run.id, "person:olga") == 1
    lease = lease_of(run.id)
    assert (lease.owner, lease.fence) == (None, 1)
    assert store.worker(run).holding.fence == 2


def test_a_worker_that_raises_its_own_fence_goes_on_under_the_new_one_only(worker: Worker) -> None:
    """Ruling 29."""
    with transaction.atomic():
        again = lease_refence(worker.holding)
    assert again is not None
    assert (again.fence, again.owner, again.takeover) == (2, "w1", False)
    assert not proved(worker.holding)
    assert proved(again)


# ── what the database holds of it ──


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("fence = fence - 1", "a fence never falls"),
        ("owner = 'w2'", "an acquisition raises the fence by one"),
        ("owner = 'w2', fence = fence + 2", "an acquisition raises the fence by one"),
        ("owner = NULL", "lease_owner_has_expiry"),
        ("expires_at = NULL", "lease_owner_has_expiry"),
    ],
)
def test_the_database_refuses_a_lease_that_breaks_its_rules(worker: Worker, change: str, said: str) -> None:
    assert said in refused(lambda: sql(f"UPDATE runs_lease SET {change} WHERE run_id = %s", worker.run.id))


def test_a_lease_is_never_deleted(worker: Worker) -> None:
    assert "Cannot delete" in refused(lambda: sql("DELETE FROM runs_lease WHERE run_id = %s", worker.run.id))


def test_without_a_condition_on_the_lease_every_taker_would_have_it(store: Store) -> None:
    """What the condition in the locking read is for."""
    run = store.admit()

    def careless(owner: str) -> int:
        taken = sql(
            "UPDATE runs_lease SET fence = fence + 1, owner = %s, expires_at = clock_timestamp() + interval '1 minute' "
            "WHERE run_id = %s RETURNING fence",
            owner,
            run.id,
        )
        return int(taken[0][0])

    acts: list[Callable[[], int]] = [partial(careless, f"w{n}") for n in range(6)]
    assert sorted(together(*acts)) == [1, 2, 3, 4, 5, 6]


def test_a_worker_that_locks_the_run_without_the_lease_is_not_stopped_by_the_lock_alone(worker: Worker) -> None:
    """The lock of the run is no proof: only the lease is."""
    expire_lease(worker.run.id)
    with transaction.atomic():
        assert run_lock(worker.run.id).id == worker.run.id
        assert lease_lock(worker.holding) is None
