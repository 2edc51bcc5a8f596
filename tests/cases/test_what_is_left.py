"""What a decided wait says of its run: what it still waits for, with a link to each, and why an approval was not used."""

from uuid import UUID

import pytest
from django.test import Client

from accounts.models import User
from approvals.models import Wait
from tests.cases.catalogue import CASES
from tests.cases.house import OPERATOR, House
from tests.engine.engine import sql_past_triggers
from tests.pages.driven import words

pytestmark = pytest.mark.process
NUMBERS = {case.title: number for number, case in CASES.items()}
CUSTOMS, LINDEN, DOLLARS = "Customs, load 811", "Linden Glass, LG-4", "Dollars for January"
CASES_WANTED = {NUMBERS[title] for title in (CUSTOMS, LINDEN, DOLLARS)}
CALM = "nothing here needs a click"


def run_of(house: House, title: str) -> UUID:
    return house.made[NUMBERS[title]][0]


def html(wait: Wait) -> str:
    """The page of a wait as the operator gets it."""
    client = Client()
    client.force_login(User.objects.get(username=OPERATOR))
    answer = client.get(f"/waits/{wait.id}/")
    assert answer.status_code == 200
    return answer.content.decode()


def test_a_run_with_two_waits_says_so_on_both_pages_before_and_after_a_decision(prepared: House) -> None:
    run_id = run_of(prepared, CUSTOMS)
    mail = Wait.objects.get(run_id=run_id, tool_call__tool="send_mail")
    filing = Wait.objects.get(run_id=run_id, tool_call__tool="file_document")
    for one, other in ((mail, filing), (filing, mail)):
        page = html(one)
        assert "This run waits for 1 more answer" in words(page)
        assert f'href="/waits/{other.id}/"' in page and other.tool_call.step_name in words(page)
    prepared.decide(mail, "REJECT", by=OPERATOR)
    page = html(mail)
    assert "This run waits for 1 more answer" in words(page) and CALM not in page
    assert f'href="/waits/{filing.id}/"' in page
    assert "more answer" not in words(html(filing))
    prepared.go_on(run_id)
    assert CALM not in html(mail)


def test_what_a_colleague_wrote_in_its_place_is_one_click_away(prepared: House) -> None:
    run_id = run_of(prepared, LINDEN)
    first, again = Wait.objects.filter(run_id=run_id).order_by("opened_at")
    page = html(first)
    assert f'href="/waits/{again.id}/"' in page and CALM not in page
    assert "which b.osei wrote in its place" in words(page)
    assert "REJECTED AND TOLD" in page and 'title="CONSUMED: Decided and used; the run moved on"' in page


def test_an_approval_that_was_not_used_names_the_fact_and_leads_to_the_new_ask(prepared: House) -> None:
    run_id = run_of(prepared, DOLLARS)
    first = prepared.wait(run_id)
    prepared.decide(first, "APPROVE", by=OPERATOR)
    sql_past_triggers(
        "UPDATE receipts_attempt SET dispatched_at = dispatched_at - interval '2 minutes' "
        "WHERE tool_call_id IN (SELECT id FROM receipts_toolcall WHERE run_id = %s)",
        run_id,
    )
    prepared.go_on(run_id)
    again = prepared.wait(run_id)
    assert again.id != first.id
    page = html(first)
    assert "The approval was not used. Nothing was sent." in page
    assert 'class="notice is-caution"' in page and 'class="notice is-stop"' not in page
    assert "Too old by then, whoever decided: read_rate/eur-usd-opening, read" in words(page)
    assert f'href="/waits/{again.id}/"' in page
