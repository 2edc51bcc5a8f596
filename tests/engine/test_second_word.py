"""Two people have to say the same of an unknown outcome, where their tenant wants that: the first word settles nothing."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from django.db import transaction
from django.db.utils import Error as DatabaseError

from accounts.models import AuditEvent
from accounts.services import tenant_rules_set
from approvals.policies import read
from receipts.errors import RetryNeedsApprover
from receipts.models import Effect, FirstWord, Reconciliation, Result, ToolCall
from runtime.contracts import ToolUnknown
from runtime.loop import drive
from runtime.services import Reconciled
from tests.engine.engine import Engine, run_now, sql
from tests.engine.governed import govern, rule
from tests.engine.races import together
from tests.engine.test_probe import unknown
from tests.scripted import SCRIPT, calls, done


@pytest.fixture
def call(engine: Engine) -> Iterator[ToolCall]:
    """An unknown call of a tenant that wants two people."""
    assert tenant_rules_set(slug=engine.tenant.slug, two_for_verdicts=True)
    yield unknown(engine, "once")
    tenant_rules_set(slug=engine.tenant.slug, two_for_verdicts=False)


def say(engine: Engine, call: ToolCall, verdict: str, then: str = "NONE", by: str = "rita", ref: str = "") -> Any:
    return engine.reconcile(call, verdict, then, by=by, external_ref=ref)


def words() -> list[tuple[str, str, str | None]]:
    return list(FirstWord.objects.order_by("at").values_list("actor", "verdict", "closing"))


def test_the_first_word_settles_nothing_and_the_same_word_of_another_one_does(engine: Engine, call: ToolCall) -> None:
    first = say(engine, call, "EXECUTED", ref="post-7")
    assert isinstance(first, Reconciled) and not first.settled and first.status == "UNCERTAIN"
    assert not Reconciliation.objects.exists() and not Result.objects.filter(tool_call=call).exists()
    assert not Effect.objects.exists() and run_now(call.run_id).status == "HELD"
    assert AuditEvent.objects.filter(action="call.first_word", object_id=str(call.id)).count() == 1
    second = say(engine, call, "EXECUTED", by="rolf", ref="post-7")
    assert isinstance(second, Reconciled) and second.settled and second.status == "SUCCEEDED"
    row = Reconciliation.objects.get()
    assert (row.actor, row.method, row.first_word.actor) == ("person:rolf-north", "HUMAN", "person:rita-north")
    assert words() == [("person:rita-north", "EXECUTED", "CONFIRMED")]
    drive(call.run_id)
    assert run_now(call.run_id).status == "COMPLETED"


def test_nobody_is_their_own_second_person(engine: Engine, call: ToolCall) -> None:
    for _ in range(3):
        assert not say(engine, call, "EXECUTED").settled
    assert [closing for _, _, closing in words()] == ["REPLACED", "REPLACED", None]
    assert not Reconciliation.objects.exists()


def test_who_says_otherwise_settles_nothing_either(engine: Engine, call: ToolCall) -> None:
    say(engine, call, "EXECUTED")
    assert not say(engine, call, "NOT_EXECUTED", "FAIL", by="rolf").settled
    assert words() == [
        ("person:rita-north", "EXECUTED", "DISAGREED"),
        ("person:rolf-north", "NOT_EXECUTED", None),
    ]
    assert say(engine, call, "NOT_EXECUTED", "FAIL").settled
    call.refresh_from_db()
    assert call.status == "FAILED"


def test_what_follows_is_part_of_what_they_agree_on(engine: Engine, call: ToolCall) -> None:
    say(engine, call, "NOT_EXECUTED", "RETRY", by="rolf")
    assert not say(engine, call, "NOT_EXECUTED", "FAIL", by="olga").settled
    assert isinstance(say(engine, call, "NOT_EXECUTED", "RETRY", by="rita"), RetryNeedsApprover)


def test_to_go_on_without_knowing_takes_one(engine: Engine, call: ToolCall) -> None:
    say(engine, call, "EXECUTED")
    assert say(engine, call, "PROCEED_UNKNOWN", by="rolf").settled
    call.refresh_from_db()
    assert (call.status, call.blocking) == ("UNCERTAIN", False)
    assert say(engine, call, "EXECUTED", by="rolf").settled


def test_words_at_one_instant_are_one_first_and_one_second(engine: Engine, call: ToolCall) -> None:
    outcomes = together(partial(say, engine, call, "EXECUTED"), partial(say, engine, call, "EXECUTED", by="rolf"))
    assert sorted(outcome.settled for outcome in outcomes) == [False, True]
    assert Reconciliation.objects.count() == 1 and len(words()) == 1


def test_where_the_tenant_does_not_want_it_one_is_enough(engine: Engine) -> None:
    call = unknown(engine, "once")
    assert say(engine, call, "EXECUTED").settled and not FirstWord.objects.exists()


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE receipts_firstword SET verdict = 'NOT_EXECUTED'",
        "UPDATE receipts_firstword SET closing = 'CONFIRMED'",
        "DELETE FROM receipts_firstword",
    ],
)
def test_the_database_keeps_a_word_as_it_was_said(engine: Engine, call: ToolCall, change: str) -> None:
    say(engine, call, "EXECUTED")
    with pytest.raises(DatabaseError), transaction.atomic():
        sql(change)


# ── by the rule that sent the call ──

TWO = rule("two know of it", "allow", tools=["once"], verdict_people=2)
ONE = rule("it goes", "allow", tools=["once"])


def lost_under(engine: Engine, *rules: str) -> ToolCall:
    """A call that was sent by these rules and never answered."""
    govern(engine, *rules)
    SCRIPT.do("r", ToolUnknown("no answer"))
    run_id = engine.run(calls(("once", "r")), done())
    call = ToolCall.objects.get(run_id=run_id)
    assert call.status == "UNCERTAIN"
    return call


def test_a_rule_asks_for_two_people_of_the_calls_that_are_sent_by_it(engine: Engine) -> None:
    call = lost_under(engine, TWO)
    assert not say(engine, call, "EXECUTED").settled
    assert say(engine, call, "EXECUTED", by="rolf").settled


def test_another_policy_changes_nothing_about_a_call_that_was_sent(engine: Engine) -> None:
    strict = lost_under(engine, TWO)
    govern(engine, ONE)
    assert not say(engine, strict, "EXECUTED").settled
    loose = lost_under(engine, rule("it goes by one", "allow", tools=["once"]))
    govern(engine, TWO)
    assert say(engine, loose, "NOT_EXECUTED", "FAIL").settled


def test_the_setting_of_the_tenant_is_the_least_that_is_asked(engine: Engine) -> None:
    call = lost_under(engine, ONE)
    assert tenant_rules_set(slug=engine.tenant.slug, two_for_verdicts=True)
    try:
        assert not say(engine, call, "EXECUTED").settled
    finally:
        tenant_rules_set(slug=engine.tenant.slug, two_for_verdicts=False)


def test_a_call_that_people_were_asked_about_carries_what_the_rule_said(engine: Engine) -> None:
    govern(engine, rule("asked, and two know of it", "ask", tools=["once"], verdict_people=2))
    SCRIPT.do("r", ToolUnknown("no answer"))
    run_id = engine.run(calls(("once", "r")), done())
    engine.approve(run_id)
    drive(run_id)
    assert not say(engine, ToolCall.objects.get(run_id=run_id), "EXECUTED").settled


def test_a_rule_that_denies_asks_nobody_about_an_outcome() -> None:
    found = read(rule("no", "deny", verdict_people=2))
    assert "a call that is denied has no outcome" in found.faults[0].said
