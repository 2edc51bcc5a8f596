"""The judge of the prepared cases: undone while nothing is done, right or wrong by what is in the database, and what it took."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from uuid import UUID

import pytest
from django.db import transaction

from approvals.services import Declined, Seen, question_answer
from approvals.services.answer import FormGiven
from receipts.models import Contradiction, ToolCall
from receipts.states import Closing, FollowUp, Verdict
from runtime.services import VerdictRequest, call_reconcile, contradiction_settle, run_stop
from tests.cases import requests
from tests.cases.case import Outcome
from tests.cases.catalogue import CASES
from tests.cases.house import OPERATOR, House, accepted
from tests.cases.judging import ids_of, judge, table
from tests.cases.requests import Asked, Took, took

NUMBERS = {case.title: number for number, case in CASES.items()}
HAULAGE, TYRES = NUMBERS["Haulage, August"], NUMBERS["Rowan Tyres, RT-77"]
SPRUCE, ROOK = NUMBERS["Spruce Power, SP-88"], NUMBERS["Rook Cleaning, RC-3"]
LEDGER, ARCHIVE = NUMBERS["Ledger clean-up, book 1170"], NUMBERS["Archive, cleaning"]
CASES_WANTED = {HAULAGE, TYRES, SPRUCE, ROOK, LEDGER, ARCHIVE}


@contextmanager
def undone_afterwards() -> Iterator[None]:
    """What is done meanwhile is taken back."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def outcomes(house: House) -> dict[int, Outcome]:
    return {one.number: one.found.outcome for one in judge(CASES, house.made)}


def decide(number: int, verdict: str) -> Callable[[House], None]:
    def act(house: House) -> None:
        house.decide(house.wait(house.made[number][0]), verdict, by=OPERATOR)

    return act


def say(verdict: Verdict, follow_up: FollowUp = FollowUp.NONE) -> Callable[[House], None]:
    def act(house: House) -> None:
        call = ToolCall.objects.get(run_id=house.made[SPRUCE][0])
        said = VerdictRequest(verdict, "I looked in the book.", follow_up=follow_up)
        accepted(call_reconcile(actor=house.person(OPERATOR), call_id=call.id, said=said))

    return act


def close(closing: Closing) -> Callable[[House], None]:
    def act(house: House) -> None:
        flag = Contradiction.objects.get()
        accepted(
            contradiction_settle(
                actor=house.person(OPERATOR), contradiction_id=flag.id, closing=closing, reason="I looked."
            )
        )

    return act


def stop(which: int) -> Callable[[House], None]:
    def act(house: House) -> None:
        accepted(run_stop(actor=house.person(OPERATOR), run_id=house.made[LEDGER][which], reason="It must not."))

    return act


def answer(**fields: object) -> Callable[[House], None]:
    def act(house: House) -> None:
        wait = house.wait(house.made[ARCHIVE][0])
        seen = Seen(wait.checkpoint_revision, wait.checkpoint_digest, wait.args_digest)
        given = FormGiven(fields) if fields else Declined("I do not know.")
        accepted(question_answer(actor=house.person(OPERATOR), wait_id=wait.id, seen=seen, given=given))

    return act


RIGHTLY = [
    (HAULAGE, decide(HAULAGE, "APPROVE")),
    (TYRES, decide(TYRES, "REJECT")),
    (SPRUCE, say(Verdict.EXECUTED)),
    (ROOK, close(Closing.DO_NOT_SEND)),
    (LEDGER, stop(0)),
    (ARCHIVE, answer(months=24, delete_originals=False)),
]
WRONGLY = [
    (HAULAGE, decide(HAULAGE, "REJECT")),
    (TYRES, decide(TYRES, "APPROVE")),
    (SPRUCE, say(Verdict.NOT_EXECUTED, FollowUp.RETRY)),
    (ROOK, close(Closing.SEND_AGAIN)),
    (LEDGER, stop(1)),
    (ARCHIVE, answer(months=24, delete_originals=True)),
    (ARCHIVE, answer()),
]


def test_nothing_is_done_while_nobody_has_decided(prepared: House) -> None:
    assert set(outcomes(prepared).values()) == {Outcome.UNDONE}


@pytest.mark.parametrize(("number", "act"), RIGHTLY)
def test_what_was_to_be_done_is_right(prepared: House, number: int, act: Callable[[House], None]) -> None:
    with undone_afterwards():
        act(prepared)
        found = outcomes(prepared)
    assert found.pop(number) == Outcome.RIGHT
    assert set(found.values()) == {Outcome.UNDONE}


@pytest.mark.parametrize(("number", "act"), WRONGLY)
def test_anything_else_is_wrong(prepared: House, number: int, act: Callable[[House], None]) -> None:
    with undone_afterwards():
        act(prepared)
        found = outcomes(prepared)
    assert found.pop(number) == Outcome.WRONG
    assert set(found.values()) == {Outcome.UNDONE}


def test_the_decision_of_somebody_else_settles_nothing(prepared: House) -> None:
    with undone_afterwards():
        prepared.decide(prepared.wait(prepared.made[HAULAGE][0]), "APPROVE")
        assert outcomes(prepared)[HAULAGE] == Outcome.UNDONE


def test_seconds_count_from_the_first_page_of_a_case(prepared: House) -> None:
    with undone_afterwards():
        decide(HAULAGE, "APPROVE")(prepared)
        wait = prepared.wait(prepared.made[HAULAGE][0])
        at = wait.decision.at.timestamp()
        lines = [[at - 9, OPERATOR, "GET", "/inbox/ ", ""], [at - 7, OPERATOR, "GET", f"/waits/{wait.id}/ ", ""]]
        requests.note_file().write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        [haulage] = [one for one in judge(CASES, prepared.made) if one.number == HAULAGE]
        requests.note_file().unlink()
    assert (haulage.requests, round(haulage.seconds or 0)) == (2, 7)
    assert "1 right, 0 wrong, 0 undone" in table([haulage])


def test_the_way_to_a_case_counts_for_it_and_what_a_page_asks_by_itself_does_not() -> None:
    first, second = UUID(int=1), UUID(int=2)
    asked = [
        Asked(1.0, OPERATOR, "GET", "/inbox/", ""),
        Asked(2.0, OPERATOR, "GET", f"/inbox/?item=wait-{first}", "inbox-item"),
        Asked(4.0, OPERATOR, "POST", f"/waits/{first}/", ""),
        Asked(5.0, OPERATOR, "GET", f"/waits/{second}/", ""),
        Asked(9.0, OPERATOR, "GET", "/inbox/", ""),
    ]
    assert took(asked, {1: [first], 2: [second]}) == {1: Took(3, 2.0), 2: Took(1, 5.0)}
    assert [one.by_hand for one in asked] == [True] * 5
    assert not Asked(1.0, OPERATOR, "GET", "/inbox/", "inbox-list").by_hand


def test_every_thing_of_a_case_is_found_in_an_address(prepared: House) -> None:
    [run_id] = prepared.made[ROOK]
    call, flag = ToolCall.objects.get(run_id=run_id), Contradiction.objects.get()
    assert {run_id, call.id, flag.id, prepared.wait(run_id).id} == set(ids_of([run_id]))


def test_there_are_forty_cases_and_at_least_ten_are_traps() -> None:
    assert sorted(CASES) == list(range(1, 41))
    assert sum(bool(case.trap) for case in CASES.values()) >= 10
    assert len({case.title for case in CASES.values()}) == 40
