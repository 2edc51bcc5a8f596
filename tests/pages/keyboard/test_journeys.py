"""What is looked at, and how one gets there, by keyboard alone."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from accounts.models import User
from checkpoints.models import Head
from receipts.models import ReportVersion
from tests.pages.driven import ALDER, told
from tests.pages.keyboard.conftest import CAM
from tests.pages.keyboard.driver import Keyboard, follows, gives, keys, opens, picks, presses, ticks, types
from tests.pages.keyboard.house import House

pytestmark = [pytest.mark.browser, pytest.mark.process, pytest.mark.matrix]
PASSWORD = "a-long-password"
FOCUSED = ":focus"


@pytest.fixture
def nobody(house: House, browser: Browser) -> Iterator[Keyboard]:
    """Somebody who has not signed in."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    yield Keyboard(context.new_page(), house.site)
    context.close()


def done(by: Keyboard, *steps: object) -> None:
    for step in steps:
        step(by)  # type: ignore[operator]


def test_signing_in_choosing_a_tenant_a_theme_and_signing_out(nobody: Keyboard) -> None:
    user = User.objects.get(username=CAM)
    user.set_password(PASSWORD)
    user.save()
    by, page = nobody, nobody.page
    by.open("/runs/?status=HELD")
    expect(page.get_by_label("Name")).to_be_focused()
    page.keyboard.type(CAM)
    by.press("Tab")
    page.keyboard.type("wrong")
    by.press("Enter")
    expect(page.get_by_label("Password")).to_be_focused()
    page.keyboard.type(PASSWORD)
    by.press("Enter")
    expect(page.locator("h1")).to_have_text("Where do you act?")
    by.reach(page.get_by_role("button", name="funds"))
    by.press("Enter")
    page.wait_for_url("**/runs/?status=HELD")
    menu = page.locator(".menu--person > summary")
    for theme in ("Dark", "Light"):
        by.reach(menu)
        by.press("Enter")
        by.reach(by.named("button", theme, ".menu--person"))
        by.press("Space")
        expect(page.locator("html")).to_have_attribute("data-theme", theme.lower())
        by.press("Escape")
        expect(menu).to_be_focused()
    by.press("Enter")
    done(by, follows("Act in another tenant", ".menu--person"))
    expect(page.locator("h1")).to_have_text("Where do you act?")
    by.reach(page.get_by_role("button", name="elsewhere"))
    by.press("Enter")
    expect(page.locator("h1")).not_to_have_text("Where do you act?")
    by.reach(menu)
    by.press("Enter")
    done(by, presses("Sign out", ".menu--person"))
    page.wait_for_url("**/sign-in/**")
    by.open("/runs/")
    page.wait_for_url("**/sign-in/**")


def test_filters_columns_and_order_are_set_and_left_out_again(by: Keyboard) -> None:
    by.open("/runs/")
    done(
        by,
        keys("f"),
        types("Title or id", "lost"),
        picks("Order", "oldest"),
        ticks("How it ended"),
        presses("Show these"),
    )
    by.page.wait_for_url(re.compile(r"q=lost.*sort=oldest"))
    expect(by.page.locator("main table th", has_text="How it ended")).to_be_visible()
    expect(by.page.locator("tbody [data-row]")).to_have_count(2)
    by.reach(by.page.locator(".token").first)
    by.press("Enter")
    by.page.wait_for_url(lambda url: "q=lost" not in url)


def test_a_list_is_taken_along(by: Keyboard) -> None:
    by.open("/runs/?q=lost")
    by.reach(by.named("link", "CSV"))
    with by.page.expect_download() as taken:
        by.press("Enter")
    assert taken.value.suggested_filename.endswith(".csv")


def test_the_search_is_reached_from_any_page_and_its_rows_are_opened(by: Keyboard) -> None:
    by.open("/policies/")
    by.press("/")
    by.page.keyboard.type("published")
    by.press("Enter")
    by.page.wait_for_url("**/search/?q=published")
    by.press("j", "k")
    expect(by.page.locator(FOCUSED)).to_have_attribute("data-row-link", "")
    by.press("Enter")
    by.page.wait_for_url(re.compile(r"/(runs|reports)/[0-9a-f-]{36}/"))


def test_a_sign_explains_itself_and_gives_the_focus_back(by: Keyboard) -> None:
    by.open(f"/runs/{told('waiting').id}/")
    sign = by.page.locator("main [data-help]").first
    by.reach(sign)
    by.press("Enter")
    expect(by.page.locator("#help")).to_be_visible()
    expect(by.page.locator("#help")).to_be_focused()
    by.press("Escape")
    expect(by.page.locator("#help")).to_be_hidden()
    expect(sign).to_be_focused()
    by.press("?")
    expect(by.page.locator("#help")).to_contain_text("Keys of this page")
    by.press("Escape")
    expect(by.page.locator("#help")).to_be_hidden()


def test_two_versions_of_a_report_are_compared(by: Keyboard) -> None:
    version = ReportVersion.objects.filter(run_id=told("published").id).latest("version_no")
    by.open(f"/reports/{version.report_id}/?version={version.version_no}")
    done(by, picks("against", "v1"), presses("Compare"))
    expect(by.page.locator("#diff")).to_be_visible()
    done(by, follows("Source, line by line"))
    by.page.wait_for_url(re.compile(r"as=source"))
    by.reach(by.page.locator("main a[href$='.md']").first)
    with by.page.expect_download() as taken:
        by.press("Enter")
    assert taken.value.suggested_filename.endswith(".md")


def test_two_revisions_are_compared_side_by_side_and_inline(by: Keyboard) -> None:
    run = told("published")
    head = Head.objects.get(run_id=run.id).revision
    by.open(f"/runs/{run.id}/checkpoints/{head}/")
    by.reach(by.page.locator("#against"))
    by.write("1")
    done(by, presses("Compare"))
    by.page.wait_for_url(re.compile(r"against=1"))
    expect(by.page.locator("#diff h2")).to_contain_text("1")
    by.press("Escape", "i")
    by.page.wait_for_url(re.compile(r"view=inline"))


def test_the_axis_is_walked_opened_zoomed_and_frozen(by: Keyboard) -> None:
    run = told("waiting")
    by.open(f"/runs/{run.id}/")
    by.reach(by.page.locator("[data-axis]"))
    by.press("ArrowLeft")
    by.page.wait_for_url(re.compile(r"[?&]at="))
    first = by.page.url
    expect(by.page.locator("#detail")).to_contain_text("Selected")
    by.press("h")
    by.page.wait_for_url(lambda url: url != first)
    by.press("l")
    by.page.wait_for_url(first)
    expect(by.page.locator("[data-axis]")).to_be_focused()
    by.press("+")
    by.page.wait_for_url(re.compile(r"size="))
    by.press("f")
    expect(by.page.locator("[data-frozen]")).to_be_attached()
    by.press("f")
    expect(by.page.locator("[data-frozen]")).to_have_count(0)
    by.press("c")
    expect(by.page.locator("#detail")).to_be_visible()


def test_a_replay_is_stepped_through(by: Keyboard) -> None:
    by.open(f"/runs/{told('published').id}/replay/")
    expect(by.page.locator("main")).to_contain_text("Step 1 of")
    by.press("l")
    expect(by.page.locator("main")).to_contain_text("Step 2 of")
    by.press("h")
    expect(by.page.locator("main")).to_contain_text("Step 1 of")
    done(by, follows("All at once"))
    expect(by.page.locator("main")).to_contain_text(re.compile(r"All \d+ steps"))


def test_several_waits_are_picked_in_the_inbox_and_gone_through(by: Keyboard, house: House) -> None:
    waits = [house.waiting().wait for _ in range(2)]
    by.open("/inbox/?kind=approvals")
    done(by, types("Show only rows with this text", "by hand", "main"), keys("Escape"))
    for wait in waits:
        row = by.page.locator(f"#row-wait-{wait.id} .check")
        by.reach(row)
        by.press("Space")
        expect(row).to_be_checked()
    done(by, presses("Go through them…"))
    by.page.wait_for_url("**/inbox/batch/**")
    expect(by.page.locator("h1")).to_have_text("2 picked")


def test_rows_are_picked_by_x_while_they_are_walked(by: Keyboard, house: House) -> None:
    house.waiting()
    by.open("/inbox/?kind=approvals")
    by.press("j", "x")
    expect(by.page.locator("[data-row] .check:checked")).to_have_count(1)


def test_the_family_of_a_run_is_one_stop_and_walked_by_arrows(by: Keyboard) -> None:
    by.open(f"/runs/{told('published').id}/lineage/")
    tree = by.page.locator("[data-tree] [data-node][tabindex='0']")
    by.reach(tree.first)
    by.press("End", "Home", "Enter")
    by.page.wait_for_url(re.compile(r"/runs/[0-9a-f-]{36}/$"))


def test_the_tour_leads_from_stop_to_stop(by: Keyboard) -> None:
    by.open("/tour/")
    stops = by.page.locator(".tour a.btn")
    for at in range(stops.count()):
        by.reach(stops.nth(at))
        by.press("Enter")
        by.page.wait_for_url(lambda url: not url.endswith("/tour/"))
        expect(by.page.locator("h1").first).to_be_visible()
        by.open("/tour/")


def test_what_is_folded_away_is_opened(by: Keyboard) -> None:
    by.open(f"/runs/{told('published').id}/")
    done(by, opens("Signs on the axis"))
    expect(by.page.locator(".legend")).to_be_visible()


def test_a_refusal_that_comes_into_the_page_describes_the_field_that_it_names(by: Keyboard, house: House) -> None:
    """Of a new run, whose page is not loaded anew; and what it described before is let go by the next one."""
    bad = house.folder / "no-table.csv"
    bad.write_text("This is no table.")
    by.open("/runs/new/?agent=fund_comparison")
    done(by, gives("Disclosure A", bad), gives("Disclosure B", bad), presses("Start the run"))
    expect(by.page.locator("#refused")).to_be_visible()
    field = by.page.locator("#file-a")
    expect(field).to_have_attribute("aria-invalid", "true")
    assert "refused" in (field.get_attribute("aria-describedby") or "")
    done(by, types("Tags", "NOT A TAG"), types("Title", "x"))
    good = house.folder / "good.csv"
    good.write_text(ALDER)
    done(by, gives("Disclosure A", good), gives("Disclosure B", good), presses("Start the run"))
    expect(by.page.locator("#tags")).to_have_attribute("aria-invalid", "true")
    expect(field).not_to_have_attribute("aria-invalid", "true")
