"""Caps: reserved to the last unit by one of many, settled by usage, raised by a person, and never forgotten by a worker."""

import threading
from dataclasses import replace
from decimal import Decimal
from functools import partial
from uuid import UUID, uuid4

import pytest
from django.db import transaction
from django.test import override_settings

from accounts.errors import Refused
from accounts.models import AuditEvent
from console.environment import ModelPrice
from runs.errors import CapMoved
from runs.models import Budget, BudgetEntry, Refusal, Run, Wakeup
from runs.services import Shortage, budget_release, budget_reserve, budget_settle, run_lock
from runtime import ending
from runtime.contracts import ModelRetryable, ModelTurn, ModelUnknown, Price
from runtime.loop import budget as parking
from runtime.loop import drive
from runtime.loop.budget import TURN_TOKENS
from runtime.registry import agents
from runtime.services import CapRaised, Started, StartRequest, budget_raise, run_start
from runtime.tasks import sweep
from tests.engine.engine import Engine, run_now, sql
from tests.engine.races import together
from tests.engine.stops import causes
from tests.scenarios.invariants import broken_invariants
from tests.scripted import SCRIPT, calls


def cap(run_id: UUID, unit: str, value: int | None) -> None:
    sql("UPDATE runs_budget SET cap = %s WHERE run_id = %s AND unit = %s", value, run_id, unit)


def raised(
    engine: Engine, run_id: UUID, unit: str, value: int, by: str = "otto", reason: str = "it needs more"
) -> object:
    return budget_raise(actor=engine.person(by), run_id=run_id, unit=unit, cap=value, reason=reason)


def used(run_id: UUID, unit: str) -> tuple[int, int, int]:
    budget = Budget.objects.get(run_id=run_id, unit=unit)
    return budget.reserved, budget.held_unknown, budget.spent


def entries(receipt: UUID) -> list[tuple[str, str, int]]:
    rows = BudgetEntry.objects.filter(receipt_id=receipt).order_by("at", "kind")
    return sorted(
        ((unit, row.kind, amount) for row in rows for unit, amount in row.amounts.items()), key=lambda moved: moved[0]
    )


# ── raising ──


def test_a_raised_cap_queues_a_run_that_is_held_for_it_and_it_goes_on(engine: Engine) -> None:
    SCRIPT.tell(calls(("look", "a")))
    run_id = engine.start()
    cap(run_id, "model_calls", 1)
    drive(run_id)
    assert (run_now(run_id).hold_reason, run_now(run_id).status) == ("BUDGET", "HELD")
    engine.hints.clear()
    outcome = raised(engine, run_id, "model_calls", 5)
    assert outcome == CapRaised(run_id, "model_calls", 5, "QUEUED")
    assert engine.hints == [run_id]
    event = AuditEvent.objects.get(action="run.budget")
    assert (event.detail["unit"], event.detail["from"], event.detail["to"]) == ("model_calls", 1, 5)
    assert event.why.reason == "it needs more"
    drive(run_id)
    assert run_now(run_id).status == "COMPLETED"
    assert causes(run_id).count("CAP_RAISED") == 1
    assert not Wakeup.objects.filter(status="PENDING").exists()
    assert not broken_invariants()


def test_a_cap_that_is_raised_while_the_worker_parks_the_run_is_not_lost(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ruling 27: the wakeup is written under the run's lock, whatever the status."""
    run_id = engine.start()
    cap(run_id, "model_calls", 0)
    park = ending.park

    def raise_first(*args: object, **options: object) -> None:
        assert isinstance(raised(engine, run_id, "model_calls", 5), CapRaised)
        park(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(parking, "park", raise_first)
    drive(run_id)
    assert run_now(run_id).status == "QUEUED"
    drive(run_id)
    assert run_now(run_id).status == "COMPLETED"


def test_a_raised_cap_does_not_move_a_run_that_waits_for_a_person(engine: Engine) -> None:
    run_id = engine.run(calls(("once", "a")))
    assert isinstance(raised(engine, run_id, "tool_calls", 60), CapRaised)
    sweep()
    assert run_now(run_id).status == "WAITING"
    engine.approve(run_id)
    drive(run_id)
    assert run_now(run_id).status == "COMPLETED"


def test_of_two_who_raise_one_cap_at_once_the_second_is_told_of_the_first(engine: Engine) -> None:
    run_id = engine.start()

    def raising(by: str, value: int) -> object:
        return budget_raise(
            actor=engine.person(by), run_id=run_id, unit="tokens", cap=value, reason="r", seen=1_000_000
        )

    outcomes = together(partial(raising, "otto", 2_000_000), partial(raising, "otto", 3_000_000))
    (won,) = (one for one in outcomes if isinstance(one, CapRaised))
    (lost,) = (one for one in outcomes if isinstance(one, CapMoved))
    assert f"The cap on tokens is {won.cap} by now, raised by otto-north at " in lost.sentence
    assert Budget.objects.get(run_id=run_id, unit="tokens").cap == won.cap


def test_a_cap_that_never_stood_was_seen_by_nobody(engine: Engine) -> None:
    outcome = budget_raise(
        actor=engine.person("otto"), run_id=engine.start(), unit="tokens", cap=2_000_000, reason="r", seen=7
    )
    assert isinstance(outcome, Refused) and outcome.code == "INVALID" and outcome.facts["field"] == "seen"


@pytest.mark.parametrize(("unit", "value", "by", "reason", "code"), [
    ("tokens", 10, "otto", "more", "CAP_NOT_HIGHER"),
    ("tokens", 1_000_000, "otto", "more", "CAP_NOT_HIGHER"),
    ("usd_micros", 10, "otto", "more", "NO_CAP"),
    ("wall_ms", 10, "otto", "more", "NO_CAP"),
    ("pounds", 10, "otto", "more", "INVALID"),
    ("tokens", 0, "otto", "more", "INVALID"),
    ("tokens", 2**53, "otto", "more", "INVALID"),
    ("tokens", 2_000_000, "otto", " ", "INVALID"),
    ("tokens", 2_000_000, "vera", "more", "NOT_ALLOWED"),
    ("tokens", 2_000_000, "ann", "more", "NOT_ALLOWED"),
])  # fmt: skip
def test_what_raises_no_cap_is_refused_and_audited(
    engine: Engine, unit: str, value: int, by: str, reason: str, code: str
) -> None:
    run_id = engine.start()
    outcome = raised(engine, run_id, unit, value, by, reason)
    assert isinstance(outcome, Refused) and outcome.code == code
    assert engine.audited()[-1] == ("run.budget.refused", f"person:{by}", code)
    assert Budget.objects.get(run_id=run_id, unit="tokens").cap == 1_000_000
    assert not Wakeup.objects.exists()


def test_the_cap_of_an_ended_run_is_not_raised(engine: Engine) -> None:
    run_id = engine.run()
    outcome = raised(engine, run_id, "tokens", 2_000_000)
    assert isinstance(outcome, Refused) and outcome.code == "RUN_ENDED"


# ── reserving and settling ──


def reserve(run_id: UUID, amount: int) -> list[Shortage]:
    with transaction.atomic():
        return budget_reserve(run_id=run_id, receipt_id=uuid4(), amounts={"tokens": amount, "model_calls": 1})


def test_of_many_that_reserve_near_the_cap_only_so_many_get_it_as_there_is_room_for(engine: Engine) -> None:
    """X08."""
    run_id = engine.start()
    cap(run_id, "tokens", 1000)
    outcomes = together(*[lambda: reserve(run_id, 300) for _ in range(6)])
    assert sorted(len(short) for short in outcomes) == [0, 0, 0, 1, 1, 1]
    assert {found for short in outcomes for found in short} == {Shortage("tokens", 300, 100, 1000)}
    assert used(run_id, "tokens") == (900, 0, 0)
    assert used(run_id, "model_calls") == (3, 0, 0)  # all units or none


def test_without_the_lock_they_would_reserve_beyond_the_cap(engine: Engine) -> None:
    """What the lock is for."""
    run_id = engine.start()
    cap(run_id, "tokens", 1000)

    barrier = threading.Barrier(2)

    def careless() -> None:
        budget = Budget.objects.get(run_id=run_id, unit="tokens")
        barrier.wait()
        if budget.room >= 600:
            sql("UPDATE runs_budget SET reserved = reserved + 600 WHERE run_id = %s AND unit = 'tokens'", run_id)

    together(careless, careless)
    assert used(run_id, "tokens")[0] == 1200


def test_usage_beyond_the_reservation_leaves_an_overrun_and_refuses_the_next_reservation(engine: Engine) -> None:
    run_id, receipt = engine.start(), uuid4()
    cap(run_id, "tokens", 1000)
    with transaction.atomic():
        run_lock(run_id)
        assert budget_reserve(run_id=run_id, receipt_id=receipt, amounts={"tokens": 800, "model_calls": 1}) == []
        budget_settle(run_id=run_id, receipt_id=receipt, attempt_no=1, used={"tokens": 1100, "model_calls": 1})
    assert used(run_id, "tokens") == (0, 0, 1100)
    assert set(entries(receipt)) == {
        ("model_calls", "RESERVE", 1),
        ("model_calls", "SETTLE", 1),
        ("tokens", "RESERVE", 800),
        ("tokens", "SETTLE", 1100),
        ("tokens", "OVERRUN", 300),
    }
    assert reserve(run_id, 1) == [Shortage("tokens", 1, -100, 1000)]


def test_a_unit_without_a_cap_is_recorded_and_never_refused(engine: Engine) -> None:
    run_id = engine.start()
    cap(run_id, "tokens", None)
    assert reserve(run_id, 10**12) == []
    assert used(run_id, "tokens") == (10**12, 0, 0)
    drive(run_id)
    assert run_now(run_id).status == "COMPLETED"


def test_what_was_reserved_is_settled_once(engine: Engine) -> None:
    run_id, receipt = engine.start(), uuid4()
    with transaction.atomic():
        budget_reserve(run_id=run_id, receipt_id=receipt, amounts={"tokens": 10})
        for _ in range(2):
            budget_settle(run_id=run_id, receipt_id=receipt, attempt_no=1, used={"tokens": 7})
            budget_release(run_id=run_id, receipt_id=receipt, attempt_no=1)
    assert used(run_id, "tokens") == (0, 0, 7)
    assert entries(receipt) == [("tokens", "RESERVE", 10), ("tokens", "SETTLE", 7)]


# ── money and time ──


def turn_of(input_tokens: int, output_tokens: int, *proposed: tuple[str, str]) -> ModelTurn:
    return ModelTurn("", calls(*proposed).proposals, input_tokens=input_tokens, output_tokens=output_tokens)


def test_money_is_reserved_at_its_most_and_settled_by_the_reported_usage(engine: Engine) -> None:
    """B-048: by attempt, and a try that was answered with “not now” costs nothing."""
    SCRIPT.tell([ModelRetryable("busy"), turn_of(1000, 201, ("look", "a"))])
    run_id = engine.run(agent="paid")
    turn = run_now(run_id).model_calls.get(turn_no=1)
    rows = BudgetEntry.objects.filter(receipt_id=turn.id, usd_micros__isnull=False).order_by("at")
    assert list(rows.values_list("attempt_no", "kind", "usd_micros")) == [
        (1, "RESERVE", TURN_TOKENS * 10),
        (1, "RELEASE", TURN_TOKENS * 10),
        (2, "RESERVE", TURN_TOKENS * 10),
        (2, "SETTLE", 2500 + 2010),
    ]
    assert used(run_id, "usd_micros") == (0, 0, 4510 + 450)  # and the last turn
    assert (used(run_id, "tool_calls"), Budget.objects.get(run_id=run_id, unit="tool_calls").cap) == ((0, 0, 1), None)
    assert not broken_invariants()


def test_a_spent_cap_on_money_holds_the_run_with_a_refusal_that_names_it(engine: Engine) -> None:
    SCRIPT.tell(turn_of(0, TURN_TOKENS, ("look", "a")), turn_of(0, TURN_TOKENS, ("look", "b")))
    run_id = engine.start("paid")
    cap(run_id, "usd_micros", TURN_TOKENS * 15)
    drive(run_id)
    run = run_now(run_id)
    assert (run.status, run.hold_reason) == ("HELD", "BUDGET")
    assert f"usd_micros: {TURN_TOKENS * 10} needed, {TURN_TOKENS * 5} of {TURN_TOKENS * 15} left" in run.hold_detail
    refusal = Refusal.objects.get(run_id=run_id)
    assert (refusal.kind, refusal.fence) == ("BUDGET", 1)
    assert [(short["unit"], short["room"]) for short in refusal.detail["short"]] == [("usd_micros", TURN_TOKENS * 5)]
    assert isinstance(raised(engine, run_id, "usd_micros", 5_000_000), CapRaised)
    drive(run_id)
    assert run_now(run_id).status == "COMPLETED"


def test_more_tokens_than_were_reserved_are_an_overrun_of_tokens_and_of_money(engine: Engine) -> None:
    SCRIPT.tell(turn_of(0, TURN_TOKENS + 5))
    run_id = engine.run(agent="paid")
    assert BudgetEntry.objects.get(kind="OVERRUN").amounts == {"tokens": 5, "usd_micros": 50}
    assert used(run_id, "usd_micros") == (0, 0, (TURN_TOKENS + 5) * 10)
    assert not broken_invariants()


def test_money_of_a_turn_without_an_answer_stays_held(engine: Engine) -> None:
    """A-128: no response says neither that nothing was asked nor that nothing was used."""
    SCRIPT.tell([ModelUnknown("no answer"), turn_of(10, 10)])
    run_id = engine.run(agent="paid")
    assert used(run_id, "usd_micros") == (0, TURN_TOKENS * 10, 125)


def test_time_on_the_wire_is_reserved_by_the_limit_and_settled_by_the_clock(engine: Engine) -> None:
    SCRIPT.tell(turn_of(1, 1, ("look", "a")))
    run_id = engine.run(agent="paid")
    look = run_now(run_id).tool_calls.get()
    rows = dict(BudgetEntry.objects.filter(receipt_id=look.id).values_list("kind", "wall_ms"))
    assert rows["RESERVE"] == 5000 and 1 <= (rows["SETTLE"] or 0) < 5000
    assert used(run_id, "wall_ms")[0] == 0
    assert used(run_id, "wall_ms")[2] >= 3  # two turns and one call


def test_without_room_for_the_time_a_call_may_take_it_is_not_sent(engine: Engine) -> None:
    SCRIPT.tell(turn_of(1, 1, ("look", "a")))
    run_id = engine.start("paid")
    cap(run_id, "wall_ms", 59_000)
    drive(run_id)
    assert "wall_ms: 60000 needed, 59000 of 59000 left" in run_now(run_id).hold_detail
    assert SCRIPT.requests == []


def test_a_cap_on_money_needs_a_price(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    priceless = replace(agents()["paid"].spec, price=None)
    monkeypatch.setattr(agents()["paid"], "spec", priceless)
    outcome = run_start(actor=engine.person("olga"), wanted=StartRequest("paid", {}))
    assert isinstance(outcome, Refused) and outcome.code == "PRICE_MISSING"
    assert not Run.objects.exists()
    with override_settings(MODEL_PRICES={"scripted": ModelPrice(input=Decimal(1), output=Decimal(2))}):
        assert isinstance(run_start(actor=engine.person("olga"), wanted=StartRequest("paid", {})), Started)


def test_a_price_is_dollars_for_a_million_tokens_and_a_cost_is_rounded_up() -> None:
    price = Price(input=Decimal("0.15"), output=Decimal("0.60"))
    assert (price.cost(1_000_000, 1_000_000), price.cost(1, 0), price.cost(0, 0)) == (750_000, 1, 0)
    assert price.most(10) == 6
