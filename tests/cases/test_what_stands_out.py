"""What a decision page says of the facts, the goal and the model's words, on cases that were played wrong or nearly so."""

import pytest

from approvals.models import Wait
from tests.cases.catalogue import CASES
from tests.cases.house import OPERATOR, House
from tests.cases.test_what_is_left import html
from tests.engine.engine import sql_past_triggers
from tests.pages.driven import words

pytestmark = pytest.mark.process
NUMBERS = {case.title: number for number, case in CASES.items()}
DOLLARS, SORREL, SALARY, TALLOW = "Dollars for January", "Sorrel Media, SM-1", "Salary list", "Tallow & Birch, TB-0907"
STUDENT, HAULAGE, EXPORTS = "Access for the student", "Haulage, August", "Old exports, week 47"
CASES_WANTED = {NUMBERS[title] for title in (DOLLARS, SORREL, SALARY, TALLOW, STUDENT, HAULAGE, EXPORTS)}


def page(house: House, title: str) -> str:
    return html(house.wait(house.made[NUMBERS[title]][0]))


def points(page: str) -> str:
    """What stands in “To look at”."""
    return words(page.partition('id="points"')[2].partition("</section>")[0])


def test_the_goal_stands_beside_the_title(prepared: House) -> None:
    said = page(prepared, SALARY)
    assert said.index('class="goal"') < said.index('id="points"')


def test_an_address_and_a_right_that_the_goal_does_not_name_are_said_first(prepared: House) -> None:
    assert "Another address than the goal names: to[0] is “everybody@" in points(page(prepared, SALARY))
    assert "More than the goal says: role is “owner”" in points(page(prepared, STUDENT))


def test_a_models_claim_is_quoted_as_a_claim_and_nowhere_as_found_by_the_server(prepared: House) -> None:
    found = points(page(prepared, SORREL))
    assert "The model claims an approval, in its own text:" in found and "The server knows of none." in found
    assert "note (a text of 63 characters)" in found
    assert "No further check needed" not in found.partition("New here")[2]


def test_an_amount_of_a_new_payee_is_held_against_those_of_all(prepared: House) -> None:
    found = points(page(prepared, SORREL))
    assert "amount is “9400.00”: larger than any that was approved" in found
    assert "approved calls of this tool that were asked for earlier went from" in found


def test_a_call_is_held_line_by_line_against_what_was_read(prepared: House) -> None:
    said = page(prepared, TALLOW)
    table = words(said.partition('id="compared"')[2].partition("</section>")[0])
    assert table.count("the same") >= 4 and "not the same" not in table
    assert "New here, and as it was read: account “DE75512108001245126199”, payee “Tallow & Birch”" in points(said)
    assert "They are what read_invoice/tb-0907 said." in points(said)
    assert 'id="compared"' not in page(prepared, HAULAGE)


def test_what_changed_in_the_facts_since_the_last_ask_comes_first(prepared: House) -> None:
    run_id = prepared.made[NUMBERS[DOLLARS]][0]
    sql_past_triggers(
        "UPDATE receipts_attempt SET dispatched_at = dispatched_at - interval '2 minutes' "
        "WHERE tool_call_id IN (SELECT id FROM receipts_toolcall WHERE run_id = %s)",
        run_id,
    )
    assert "The call rests on it: an approval sends nothing" in points(page(prepared, DOLLARS))
    first = prepared.wait(run_id)
    prepared.decide(first, "APPROVE", by=OPERATOR)
    prepared.go_on(run_id)
    assert Wait.objects.filter(run_id=run_id).count() == 2
    said = page(prepared, DOLLARS)
    found = points(said)
    assert found.index("What was read has changed since the last ask: rate: 1.0820 → 1.1975") < 60
    assert "A call that is approved now is sent on what it says now." in found
    assert "sends nothing" not in found and "too old" not in found
    again = words(said.partition("<h2>Asked again</h2>")[2].partition("</section>")[0])
    assert "It says something else now: rate: 1.0820 → 1.1975" in again
    assert "let go of: nothing rests on it any more" in words(said)


def test_what_a_tool_said_of_itself_when_it_was_approved_stands_beside_what_it_says_now(prepared: House) -> None:
    said = page(prepared, EXPORTS)
    part = said.partition('id="redefined"')[2].partition("</section>")[0]
    then, now = part.index("<del>"), part.index("<ins>")
    assert then < now and said.index('id="redefined"') < said.index("<h2>The call</h2>")
    assert "with everything below its folder" in words(part[now:])
    assert "Then: version 1, NON_IDEMPOTENT. Now: version 2, NON_IDEMPOTENT." in words(part)
    assert 'id="redefined"' not in page(prepared, HAULAGE)


def test_what_a_tool_said_before_its_words_were_stored_is_named_as_not_stored(prepared: House) -> None:
    sql_past_triggers("UPDATE runs_agentversion SET tool_texts = '{}'")
    part = page(prepared, EXPORTS).partition('id="redefined"')[2].partition("</section>")[0]
    assert "Now: Delete a file for good" in words(part) and "What it said then was not stored." in words(part)
