"""The forms that decide, in a real browser: their gates, what another person does meanwhile, and no script at all."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from accounts.models import AuditEvent, Tenant
from accounts.services import member_set
from approvals.models import Vote
from tests.engine.engine import demand
from tests.pages.conftest import ALL, Member
from tests.pages.driven import Outside, person, told
from tests.services import Services
from tests.stack import Stack

pytestmark = [pytest.mark.browser, pytest.mark.process]
PASSWORD = "a-long-password"
# 20 ms apart, then what Ctrl+Enter does.
TWO_CLICKS_AND_A_KEY = """form => {
    const button = form.querySelector("button");
    button.click();
    setTimeout(() => button.click(), 20);
    setTimeout(() => { form.requestSubmit(button); setTimeout(window.over, 20); }, 40);
}"""


@pytest.fixture
def site(services: Services, told_database: str, outside: Outside, ben: Member, tmp_path: Path) -> Iterator[str]:
    """The address of a web server on the told runs. ann.moreau and ben.diaz can sign in."""
    stack = Stack(services, told_database, tmp_path)
    try:
        stack.start_web()
        tenant = Tenant.objects.get(slug="funds")
        member_set(tenant=tenant, username="ann.moreau", password=PASSWORD, roles=ALL)
        yield stack.url
    finally:
        stack.close()


def signed_in(browser: Browser, site: str, *, script: bool = True, name: str = "ann.moreau") -> Page:
    page = browser.new_context(java_script_enabled=script).new_page()
    page.goto(f"{site}sign-in/")
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    return page


def test_approve_is_off_until_a_reason_is_given_and_reject_never_is(browser: Browser, site: str) -> None:
    page = signed_in(browser, site)
    page.goto(f"{site}waits/{told('waiting').wait.id}/")
    approve = page.get_by_role("button", name="Approve this call")
    expect(approve).to_have_attribute("aria-disabled", "true")
    expect(page.locator("#off-a")).to_have_text("Off until a reason is given.")
    expect(page.get_by_role("button", name="Reject this call")).not_to_have_attribute("aria-disabled", "true")
    page.keyboard.press("a")
    page.keyboard.type("Both files were checked.")
    expect(approve).not_to_have_attribute("aria-disabled", "true")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#wait-live .notice h2")).to_contain_text("ann.moreau approved this call")
    page.context.close()


def test_what_another_person_decides_turns_the_forms_off_and_keeps_what_was_typed(browser: Browser, site: str) -> None:
    run = told("waiting")
    page = signed_in(browser, site)
    page.goto(f"{site}waits/{run.wait.id}/")
    page.locator("#why-a").fill("My long reason.")
    run.decide("REJECT", actor=person("ben.diaz"))
    page.evaluate(f"document.body.dispatchEvent(new CustomEvent('live:run-{run.id}'))")
    expect(page.locator("#wait-live .notice h2")).to_contain_text("ben.diaz rejected this call")
    expect(page.locator("#off-a")).to_have_text("Off: this wait is closed. What came of it")
    expect(page.locator("#off-r")).to_have_text("Off: this wait is closed. What came of it")
    expect(page.locator("#why-a")).to_have_value("My long reason.")
    page.context.close()


def test_two_people_in_two_browsers_approve_one_call(browser: Browser, site: str) -> None:
    """The first sees that another one is needed, the second that theirs is the last; then it is decided for both."""
    run = told("waiting")
    wait = demand(run.wait, quorum=2, dwell_seconds=1)
    tenant = Tenant.objects.get(slug="funds")
    member_set(tenant=tenant, username="ben.diaz", password=PASSWORD, roles=ALL)
    first, second = signed_in(browser, site), signed_in(browser, site, name="ben.diaz")
    for page in (first, second):
        page.goto(f"{site}waits/{wait.id}/")
        expect(page.locator("#wait-facts")).to_contain_text("Quorum: 0 of 2")
    first.get_by_role("button", name="I look at it").click()
    first.locator("#why-a").fill("Numbers match.")
    expect(first.locator("#off-a")).to_be_hidden()
    first.get_by_role("button", name="Approve this call").click()
    expect(first.locator("#wait-facts")).to_contain_text("It waits for another person: 1 of 2.")
    second.evaluate(f"document.body.dispatchEvent(new CustomEvent('live:run-{run.id}'))")
    expect(second.locator("#wait-facts")).to_contain_text("Quorum: 1 of 2")
    expect(second.locator("#wait-facts")).to_contain_text("ann.moreau")
    second.locator("#why-a").fill("I have read it too.")
    second.get_by_role("button", name="Approve this call").click()
    expect(second.locator("#wait-live .notice h2")).to_contain_text("ben.diaz approved this call")
    assert {vote.actor for vote in Vote.objects.filter(wait=wait)} == {"person:ann.moreau", "person:ben.diaz"}
    for page in (first, second):
        page.context.close()


def test_picked_waits_are_gone_through_and_rejected_together(browser: Browser, site: str) -> None:
    page = signed_in(browser, site)
    page.goto(f"{site}inbox/?kind=approvals")
    bar = page.locator("#picked")
    expect(bar).to_be_hidden()
    page.keyboard.press("x")
    expect(bar).to_be_visible()
    page.get_by_role("button", name="Go through them…").click()
    expect(page.locator("h1")).to_have_text("1 picked")
    page.locator("#why-r").fill("Not this week.")
    page.get_by_role("button", name="Reject 1").click()
    expect(page.locator("main .notice h2")).to_have_text("1 stored, 0 refused.")
    page.context.close()


def test_a_verdict_is_off_until_it_is_complete(browser: Browser, site: str) -> None:
    page = signed_in(browser, site)
    page.goto(f"{site}calls/{told('lost, not executed').publishing.id}/")
    why = page.locator("#off-v")
    expect(why).to_have_text("Off until one of the three is chosen and evidence, or the reason, is given.")
    page.get_by_label("It did not happen").check()
    expect(why).to_have_text("Off until what comes then is chosen and evidence, or the reason, is given.")
    page.get_by_label("And then").select_option("FAIL")
    page.get_by_label("Evidence, required").fill("Its list of requests has no such key.")
    expect(why).to_be_hidden()
    page.get_by_role("button", name="Record the verdict").click()
    expect(page.locator("h1")).to_have_text("Publish report v2 on the wiki")
    expect(page.locator("#known")).to_contain_text("ann.moreau says: it did not happen, do not send")
    page.context.close()


def test_without_script_the_server_says_what_is_missing(browser: Browser, site: str) -> None:
    page = signed_in(browser, site, script=False)
    page.goto(f"{site}waits/{told('waiting').wait.id}/")
    page.get_by_role("button", name="Approve this call").click()
    expect(page.locator("#wait-live .notice")).to_contain_text("a decision needs a reason in words")
    page.locator("#why-a").fill("Checked.")
    page.get_by_role("button", name="Approve this call").click()
    expect(page.locator("#wait-live .notice")).to_contain_text("ann.moreau approved this call")
    page.context.close()


def test_b20_b21_two_clicks_and_a_key_at_once_are_one_decision_and_what_comes_next_is_not_decided(
    browser: Browser, site: str
) -> None:
    """The form is sent once: while the first answer is on its way, another click and a key do nothing."""
    run = told("waiting")
    page = signed_in(browser, site)
    sent: list[Route] = []
    over: list[bool] = []
    page.expose_function("over", lambda: over.append(True))
    page.route("**/waits/**", lambda route: sent.append(route) if route.request.method == "POST" else route.continue_())
    page.goto(f"{site}waits/{run.wait.id}/")
    form = page.locator("#approve-form")
    form.get_by_role("textbox").first.fill("Read once.")
    form.evaluate(TWO_CLICKS_AND_A_KEY)
    while not (sent and over):
        page.wait_for_timeout(10)
    sent[-1].continue_()
    notice = page.locator("#wait-live .notice")
    expect(notice).to_contain_text("ann.moreau approved this call")
    expect(notice).not_to_contain_text("not stored")
    assert len(sent) == 1
    said = AuditEvent.objects.filter(object_id=str(run.wait.id)).values_list("action", flat=True)
    assert list(said) == ["wait.decide"]
    page.context.close()
