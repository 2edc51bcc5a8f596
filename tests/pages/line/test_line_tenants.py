"""What a page says once its person acts in another tenant than the one that it is of."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from accounts.services import member_set, tenant_create
from tests.pages.conftest import ALL
from tests.pages.driven import Driven
from tests.pages.line.conftest import REASON, decision, expect_back_undecided, expect_state

pytestmark = [pytest.mark.browser, pytest.mark.process]


@pytest.fixture
def harbour(run: Driven) -> Iterator[None]:
    """A second tenant, of which ann.moreau is a member for as long as the test runs."""
    elsewhere = tenant_create(slug="harbour", name="Harbour")
    membership = member_set(tenant=elsewhere, username="ann.moreau", password=None, roles=ALL)
    yield
    membership.delete()


def test_a_page_whose_person_acts_in_another_tenant_by_now_says_so_and_keeps_what_was_typed(
    context: BrowserContext, site: str, run: Driven, harbour: None
) -> None:
    """Two tabs of one person. Nothing of the other tenant is shown in the page, and nothing is sent from it into that tenant."""
    other = context.new_page()
    choose(other, site, "funds")
    page = decision(context, site, run)
    draft = context.new_page()
    draft.goto(f"{site}runs/new/?agent=evidence_search")
    draft.locator("#goal").fill(REASON)
    choose(other, site, "harbour")
    for left in (page, draft):
        expect_state(left, "elsewhere")
        expect(left.locator("[data-off-notice]")).to_contain_text(
            "You act in harbour now, and this page is of another tenant."
        )
    expect(page.locator("#wait-live")).to_contain_text("OPEN")
    page.get_by_role("button", name="Approve this call").click(force=True)
    expect(page.locator("#why-a")).to_have_value(REASON)
    page.get_by_role("link", name="Choose the tenant again").click()
    page.locator("button[value=funds]").click()
    expect_back_undecided(page, site, run)
    expect_state(draft, "live")
    expect(draft.locator("#goal")).to_have_value(REASON)


def test_a_form_that_was_sent_into_another_tenant_is_not_taken_and_its_text_is_one_click_away(
    context: BrowserContext, site: str, harbour: None
) -> None:
    """The tenant was changed in another tab a moment before, so the page does not know it yet."""
    other, page = context.new_page(), context.new_page()
    choose(other, site, "funds")
    page.route_web_socket("**/ws/live/", lambda _: None)
    page.goto(f"{site}delegations/")
    page.locator("#reason").fill(REASON)
    choose(other, site, "harbour")
    page.evaluate("window.signalboxLine.actsIn = () => {}")
    page.evaluate("const form = document.querySelector('main form'); form.noValidate = true; form.requestSubmit()")
    expect(page.get_by_role("main")).to_contain_text(
        "Nothing was done. The page was of funds, and you act in harbour now."
    )
    expect(page.get_by_role("main")).to_contain_text("What you typed is kept.")
    page.get_by_role("button", name="Act in funds again").click()
    expect(page).to_have_url(f"{site}delegations/")
    expect(page.locator("#reason")).to_have_value(REASON)


def choose(page: Page, site: str, tenant: str) -> None:
    page.goto(f"{site}tenant/")
    page.locator(f"button[value={tenant}]").click()
    expect(page).to_have_url(site)
