"""Leases on live connections: one holder, the database's clock, and a fence that only rises."""

from uuid import UUID

import pytest
from pytest_django import Settings

from runs.leases import lease_acquire, lease_held, lease_lock, lease_lock_any, lease_pass, lease_release, lease_renew
from runs.models import Run, RunTransition
from runs.selectors import runs_to_look_at
from runs.services import run_move
from runs.states import Holding, RunStatus
from tests.engine.engine import Engine, expire_lease, lease_of, run_now, sql
from tests.engine.races import Aside, together, uncommitted, undone


@pytest.fixture
def run_id(engine: Engine) -> UUID:
    """A queued run."""
    return engine.start()


def taken(run_id: UUID, owner: str = "w1") -> Holding:
    holding = lease_acquire(run_id=run_id, owner=owner)
    assert holding is not None
    return holding


def test_of_eight_that_take_a_run_at_once_one_gets_it(run_id: UUID) -> None:
    held = together(*[lambda n=n: lease_acquire(run_id=run_id, owner=f"w{n}") for n in range(8)])
    (winner,) = [holding for holding in held if holding is not None]
    lease = lease_of(run_id)
    assert (lease.owner, lease.fence) == (winner.owner, 1)
    assert list(RunTransition.objects.filter(run_id=run_id).values_list("from_status", "to_status")) == [
        (None, "QUEUED"),
        ("QUEUED", "RUNNING"),
    ]


def test_without_the_condition_on_the_lease_each_would_get_it(run_id: UUID) -> None:
    """What the condition is for: a taker that does not look takes the lease of whoever has just taken it."""
    careless = "UPDATE runs_lease SET fence = fence + 1, owner = %s, expires_at = clock_timestamp() WHERE run_id = %s"
    together(*[lambda n=n: sql(careless, f"w{n}", run_id) for n in range(8)])
    assert lease_of(run_id).fence == 8


def test_of_eight_that_take_over_at_once_one_gets_it(run_id: UUID) -> None:
    taken(run_id, "gone")
    expire_lease(run_id)
    held = together(*[lambda n=n: lease_acquire(run_id=run_id, owner=f"w{n}") for n in range(8)])
    (winner,) = [holding for holding in held if holding is not None]
    assert (winner.fence, winner.takeover) == (2, True)
    assert run_now(run_id).takeovers == 1


def test_a_held_run_is_not_taken(run_id: UUID) -> None:
    taken(run_id)
    assert lease_acquire(run_id=run_id, owner="w2") is None
    assert lease_acquire(run_id=run_id, owner="w1") is None


def test_a_takeover_raises_the_fence_and_says_so(run_id: UUID) -> None:
    first = taken(run_id, "w1")
    expire_lease(run_id)
    second = taken(run_id, "w2")
    assert (first.fence, first.takeover, second.fence, second.takeover) == (1, False, 2, True)
    newest = RunTransition.objects.filter(run_id=run_id).latest("id")
    assert (newest.from_status, newest.to_status, newest.cause) == ("RUNNING", "RUNNING", "TAKEOVER")
    assert (newest.actor, newest.fence) == ("worker:w2", 2)
    assert lease_lock_fails(first)
    assert lease_renew(first) == (False, False)
    assert lease_renew(second) == (True, False)


def lease_lock_fails(holding: Holding) -> bool:
    with undone():
        return lease_lock(holding) is None


def test_the_same_worker_that_takes_its_own_run_over_is_another_holder(run_id: UUID) -> None:
    first = taken(run_id, "w1")
    expire_lease(run_id)
    second = taken(run_id, "w1")
    assert second.fence == 2
    assert lease_lock_fails(first)
    assert not lease_lock_fails(second)


def test_an_expired_lease_is_invalid_even_if_nobody_took_over(run_id: UUID) -> None:
    holding = taken(run_id)
    assert not lease_lock_fails(holding)
    expire_lease(run_id)
    assert lease_lock_fails(holding)
    assert lease_renew(holding) == (False, False)
    assert lease_lock_fails(holding)
    assert lease_of(run_id).owner == "w1"


def test_a_renewed_lease_lasts_its_time_anew_by_the_clock_of_the_database(run_id: UUID, settings: Settings) -> None:
    holding = taken(run_id)
    settings.LEASE_TTL_SECONDS = 5000
    assert lease_renew(holding) == (True, False)
    ((left,),) = sql(
        "SELECT extract(epoch FROM expires_at - clock_timestamp()) FROM runs_lease WHERE run_id = %s", run_id
    )
    assert 4900 < left <= 5000


def test_a_renewal_tells_of_a_stop(engine: Engine, run_id: UUID) -> None:
    holding = taken(run_id)
    engine.stop(run_id)
    assert lease_renew(holding) == (True, True)


def test_a_renewal_that_waited_too_long_for_the_row_is_refused(run_id: UUID) -> None:
    """The clock is read after the wait: what expired meanwhile is not revived."""
    holding = taken(run_id)
    with uncommitted():
        lease_lock_any(run_id)
        renewal = Aside(lambda: lease_renew(holding))
        renewal.wait_blocked()
        expire_lease(run_id)
    assert renewal.result() == (False, False)


def test_a_taker_that_waited_for_another_finds_the_lease_taken(run_id: UUID) -> None:
    with uncommitted():
        taken(run_id, "w1")
        second = Aside(lambda: lease_acquire(run_id=run_id, owner="w2"))
        second.wait_blocked()
    assert second.result() is None
    assert lease_of(run_id).owner == "w1"


def test_a_taker_that_waited_for_one_that_was_rolled_back_gets_it(run_id: UUID) -> None:
    with undone():
        taken(run_id, "w1")
        second = Aside(lambda: lease_acquire(run_id=run_id, owner="w2"))
        second.wait_blocked()
    assert second.result().fence == 1
    assert lease_of(run_id).owner == "w2"


def test_whoever_has_locked_the_row_keeps_a_taker_out_until_the_commit(run_id: UUID) -> None:
    """The lock on the row gives exclusion even past the expiry; the clock only decides who may begin."""
    taken(run_id, "w1")
    expire_lease(run_id)
    with uncommitted():
        lease_lock_any(run_id)
        second = Aside(lambda: lease_acquire(run_id=run_id, owner="w2"))
        second.wait_blocked()
    assert second.result().fence == 2


@pytest.mark.parametrize("status", ["WAITING", "HELD"])
def test_a_parked_run_is_not_taken(run_id: UUID, status: str) -> None:
    sql("UPDATE runs_run SET status = 'RUNNING' WHERE id = %s", run_id)
    reason = "BUDGET" if status == "HELD" else None
    sql("UPDATE runs_run SET status = %s, hold_reason = %s WHERE id = %s", status, reason, run_id)
    assert lease_acquire(run_id=run_id, owner="w1") is None
    assert lease_of(run_id).fence == 0


def test_an_ended_run_is_not_taken(engine: Engine, run_id: UUID) -> None:
    engine.stop(run_id)
    assert lease_acquire(run_id=run_id, owner="w1") is None


def test_a_freed_lease_keeps_its_fence(run_id: UUID) -> None:
    holding = taken(run_id)
    run = Run.objects.get(id=run_id)
    run_move(run, RunStatus.QUEUED, cause="DRAIN", actor="worker:w1", fence=holding.fence)
    assert (lease_of(run_id).owner, lease_of(run_id).fence) == (None, 1)
    assert taken(run_id, "w2").fence == 2
    assert lease_lock_fails(holding)


def test_a_person_passes_the_lease_and_fences_the_holder_before(run_id: UUID) -> None:
    holding = taken(run_id)
    lease_release(run_id)
    with uncommitted():
        assert lease_pass(run_id, "person:x") == 2
    assert (lease_of(run_id).owner, lease_of(run_id).fence) == (None, 2)
    assert lease_lock_fails(holding)


def test_whether_a_lease_is_held_is_asked_of_the_database(run_id: UUID) -> None:
    taken(run_id)
    assert lease_held(lease_of(run_id))
    expire_lease(run_id)
    assert not lease_held(lease_of(run_id))


def test_the_sweep_looks_at_what_nobody_holds(engine: Engine, run_id: UUID) -> None:
    held = engine.start()
    lost = engine.start()
    waiting = engine.start()
    for other in (held, lost, waiting):
        taken(other)
    expire_lease(lost)
    run_move(Run.objects.get(id=waiting), RunStatus.WAITING, cause="WAIT_OPENED", actor="worker:w1", fence=1)
    assert set(runs_to_look_at()) == {run_id, lost}
