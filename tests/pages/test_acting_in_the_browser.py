"""The forms that decide, in a real browser: their gates, what another person does meanwhile, and no script at all."""

import pytest
from django.conf import settings
from playwright.sync_api import Browser, Page, Route, expect

from accounts.models import AuditEvent, User
from approvals.models import Vote, Wait
from tests.engine.engine import demand
from tests.pages.driven import Outside, lost, person, waiting
from tests.pages.looks.conftest import session_of
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
def site(told_site: Stack) -> str:
    """The address of a web server on told runs. Each test decides runs of its own."""
    return told_site.url


def signed_in(browser: Browser, site: str, *, name: str = "ann.moreau", script: bool = True) -> Page:
    """A page of somebody who has signed in; without script it was by the form."""
    context = browser.new_context(java_script_enabled=script)
    if script:
        signed = {"name": settings.SESSION_COOKIE_NAME, "value": session_of(name), "url": site}
        context.add_cookies([signed])  # type: ignore[list-item]
        return context.new_page()
    user = User.objects.get(username=name)
    user.set_password(PASSWORD)
    user.save()
    page = context.new_page()
    page.goto(f"{site}sign-in/")
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    return page


def test_approve_is_off_until_a_reason_is_given_and_reject_never_is(browser: Browser, site: str) -> None:
    page = signed_in(browser, site)
    page.goto(f"{site}waits/{waiting(person('ann.moreau')).wait.id}/")
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
    run = waiting(person("ann.moreau"))
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
    run = waiting(person("ann.moreau"))
    wait = demand(run.wait, quorum=2, dwell_seconds=1)
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
    wait = waiting(person("ann.moreau")).wait
    page = signed_in(browser, site)
    page.goto(f"{site}inbox/?kind=approvals&item=wait-{wait.id}")
    bar = page.locator("#picked")
    expect(bar).to_be_hidden()
    page.keyboard.press("x")
    expect(bar).to_be_visible()
    page.get_by_role("button", name="Go through them…").click()
    expect(page.locator("h1")).to_have_text("1 picked")
    page.locator("#why-r").fill("Not this week.")
    page.get_by_role("button", name="Reject 1").click()
    expect(page.locator("main .notice h2")).to_have_text("1 stored, 0 refused.")
    assert Wait.objects.get(id=wait.id).status == "REJECTED"
    page.context.close()


def test_a_verdict_is_off_until_it_is_complete(browser: Browser, site: str, outside_process: Outside) -> None:
    run = lost(person("ann.moreau"), outside_process, executed=False)
    page = signed_in(browser, site)
    page.goto(f"{site}calls/{run.publishing.id}/")
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
    page.goto(f"{site}waits/{waiting(person('ann.moreau')).wait.id}/")
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
    run = waiting(person("ann.moreau"))
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
