"""The whole way by keyboard alone: sign in, go through the inbox, decide, reject, stop, and say what is known."""

import re
import string
from collections.abc import Iterator

import pytest
from django.conf import settings
from playwright.sync_api import Browser, Locator, Page, Route, expect

from accounts.models import User
from approvals.models import Decision, Wait
from receipts.models import Reconciliation
from runs.models import ControlRequest
from tests.pages.driven import Outside, lost, person, told, waiting
from tests.pages.looks.conftest import session_of
from tests.stack import Stack

pytestmark = [pytest.mark.browser, pytest.mark.process]
NAME, PASSWORD = "ann.moreau", "a-long-password"
APPROVING = re.compile(r"/waits/[^/]+/.*#approve$")


@pytest.fixture
def site(told_site: Stack) -> str:
    """The address of a web server on told runs. Each test decides runs of its own."""
    return told_site.url


@pytest.fixture
def nobody(browser: Browser) -> Iterator[Page]:
    """A page of somebody who has not signed in."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    yield context.new_page()
    context.close()


@pytest.fixture
def page(nobody: Page, site: str) -> Page:
    """A page of somebody who has signed in."""
    signed = {"name": settings.SESSION_COOKIE_NAME, "value": session_of(NAME), "url": site}
    nobody.context.add_cookies([signed])  # type: ignore[list-item]
    nobody.goto(site)
    expect(nobody.locator("[data-live-state]")).to_have_attribute("data-live-state", "live")  # its keys work by then
    return nobody


def test_one_signs_in_without_a_mouse(nobody: Page, site: str) -> None:
    user = User.objects.get(username=NAME)
    user.set_password(PASSWORD)
    user.save()
    nobody.goto(site)
    expect(nobody.get_by_label("Name")).to_be_focused()
    nobody.keyboard.type(NAME)
    nobody.keyboard.press("Tab")
    nobody.keyboard.type(PASSWORD)
    nobody.keyboard.press("Enter")
    expect(nobody.locator("h1")).to_have_text("Overview")
    expect(nobody.locator("[data-live-state]")).to_have_attribute("data-live-state", "live")


def focused(page: Page) -> Locator:
    return page.locator(":focus")


def keys(page: Page, *pressed: str) -> None:
    for key in pressed:
        page.keyboard.press(key)


def tab_to(page: Page, wanted: Locator) -> None:
    """Tab on until it has the focus; it must come within one round of the page."""
    for _ in range(80):
        if wanted.evaluate("element => element === document.activeElement"):
            return
        page.keyboard.press("Tab")
    pytest.fail("the focus never came there")


def test_a_call_is_approved_and_another_one_rejected_from_the_inbox(page: Page) -> None:
    one, other = waiting(person(NAME)), waiting(person(NAME))
    keys(page, "g", "i")
    page.wait_for_url("**/inbox/**")
    expect(page.locator("h1")).to_be_focused()
    go_to(page, f"#row-wait-{one.wait.id}")
    keys(page, "a")
    page.wait_for_url(APPROVING)
    keys(page, "a")
    expect(page.locator("#why-a")).to_be_focused()
    page.keyboard.type("Both files were checked: jkxs?")
    keys(page, "Control+Enter")
    expect(page.locator("#wait-live .notice h2")).to_contain_text(f"{NAME} approved this call")

    keys(page, "Escape", "g", "i")
    page.wait_for_url("**/inbox/**")
    go_to(page, f"#row-wait-{other.wait.id}")
    keys(page, "Enter")
    page.wait_for_url("**/waits/**")
    keys(page, "r")
    page.keyboard.type("Not this pair.")
    tab_to(page, page.get_by_role("button", name="Reject this call"))
    keys(page, "Enter")
    expect(page.locator("#wait-live .notice h2")).to_contain_text(f"{NAME} rejected this call")
    stored = Decision.objects.filter(wait__in=(one.wait, other.wait)).order_by("verdict")
    assert list(stored.values_list("wait", "verdict")) == [(one.wait.id, "APPROVE"), (other.wait.id, "REJECT")]


def go_to(page: Page, row: str) -> None:
    """Walk down the list with j until a row is the current one."""
    for _ in range(page.locator("[data-row]").count() + 1):
        if (
            page.locator(row).get_attribute("aria-current") == "true"
            and page.locator(f"{row} [data-row-link]:focus").count()
        ):
            break
        keys(page, "j")
    else:
        keys(page, *["k"] * page.locator("[data-row]").count())
    expect(page.locator(row)).to_have_attribute("aria-current", "true")
    expect(page.locator(f"#inbox-item a[href*='/waits/{row.rpartition('wait-')[2]}/']").first).to_be_visible()


def test_a_run_is_stopped_and_a_plain_enter_in_the_reason_stops_nothing(page: Page, site: str) -> None:
    run = waiting(person(NAME))
    page.goto(f"{site}runs/{run.id}/")
    expect(page.locator("h1")).to_be_focused()
    keys(page, "s")
    page.wait_for_url("**/stop/")
    tab_to(page, page.locator("#why-s"))
    page.keyboard.type("The wrong pair.")
    keys(page, "Enter")
    assert not ControlRequest.objects.filter(run_id=run.id).exists()
    expect(page.locator("#why-s")).to_be_focused()
    keys(page, "Control+Enter")
    expect(page.locator("h1")).to_contain_text("Stop")
    expect(page.locator("main .stages, main .notice").first).to_be_visible()
    assert ControlRequest.objects.filter(run_id=run.id, reason="The wrong pair.").exists()


def test_a_verdict_is_given_without_a_mouse(page: Page, site: str, outside_process: Outside) -> None:
    call = lost(person(NAME), outside_process).publishing
    page.goto(f"{site}calls/{call.id}/")
    keys(page, "v")
    tab_to(page, page.get_by_label("It happened", exact=True))
    keys(page, "Space")
    tab_to(page, page.get_by_label("Evidence, required"))
    page.keyboard.type("The wiki shows version 2.")
    tab_to(page, page.get_by_role("button", name="Record the verdict"))
    keys(page, "Enter")
    expect(page.locator("#known")).to_contain_text(f"{NAME} says: it happened")
    assert Reconciliation.objects.filter(tool_call=call, verdict="EXECUTED", method="HUMAN").exists()


def test_no_single_key_decides_anything(page: Page, site: str) -> None:
    """Whatever key is pressed on a page, with or without Enter behind it, nothing is sent."""
    run, posts = told("waiting"), list[str]()
    page.context.on("request", lambda request: posts.append(request.url) if request.method == "POST" else None)
    deciding = (f"waits/{run.wait.id}/", f"runs/{run.id}/stop/", f"calls/{told('lost').publishing.id}/")
    for path in ("inbox/", f"runs/{run.id}/", *deciding):
        fresh = page.context.new_page()  # a way that a key led may still be on its way when the next path is opened
        fresh.goto(site + path)
        fresh.route("**/*", stay)
        for key in string.ascii_lowercase + string.digits + "[]?/":
            fresh.evaluate("document.activeElement.blur()")
            keys(fresh, key, "Enter", "Escape", "Escape")
        assert fresh.url.partition("#")[0].startswith(site + path)
    assert posts == []
    assert Wait.objects.get(id=run.wait.id).status == "OPEN"


def stay(route: Route) -> None:
    """Let a page ask for its parts and lead nowhere."""
    if route.request.is_navigation_request():
        route.fulfill(status=204)
    else:
        route.continue_()


def test_right_after_the_list_moved_the_keys_that_lead_to_a_decision_do_nothing(page: Page, site: str) -> None:
    page.goto(f"{site}inbox/?kind=approvals")
    expect(page.locator("#inbox-item a[data-key='a']")).to_be_visible()
    page.evaluate("""() => {
        document.dispatchEvent(new CustomEvent("list:moved"));
        document.dispatchEvent(new KeyboardEvent("keydown", { key: "a", bubbles: true }));
    }""")
    expect(page.locator("[data-moved-note]")).to_be_visible()
    expect(page.locator("[data-moved-note]")).to_be_hidden()
    assert page.url.startswith(f"{site}inbox/")
    keys(page, "a")
    page.wait_for_url(APPROVING)


def hints(page: Page, words: str) -> Locator:
    return page.locator("body > .hints li", has_text=words)


def test_in_a_narrow_room_keys_open_the_menu_that_holds_the_search_and_the_ways(page: Page, site: str) -> None:
    """Below 60 rem, and so at 200 % of a laptop, where the search and the ways stand in a menu that is closed."""
    page.set_viewport_size({"width": 720, "height": 800})
    page.goto(f"{site}policies/")
    expect(hints(page, "search")).to_be_visible()
    keys(page, "/")
    expect(focused(page)).to_have_attribute("name", "q")
    page.keyboard.type("publish")
    keys(page, "Enter")
    page.wait_for_url("**/search/?q=publish")
    keys(page, "g", "r")
    page.wait_for_url("**/runs/")
    keys(page, "/", "Escape", "Escape")
    expect(page.locator(".menu--all > summary")).to_be_focused()


def test_the_line_at_the_foot_follows_the_room_that_the_page_has(page: Page, site: str) -> None:
    page.goto(f"{site}inbox/?kind=approvals")
    expect(hints(page, "approve")).to_be_visible()
    page.set_viewport_size({"width": 720, "height": 800})
    expect(page.locator("#inbox-item")).to_be_hidden()
    expect(hints(page, "approve")).to_be_hidden()
    expect(hints(page, "open")).to_be_visible()
    page.set_viewport_size({"width": 1280, "height": 800})
    expect(hints(page, "approve")).to_be_visible()


def test_the_question_mark_says_of_a_key_what_the_line_at_the_foot_says(page: Page, site: str) -> None:
    box = page.locator("#help")
    keys(page, "?")
    expect(box).to_contain_text(re.compile(r"Approvals \d+ next"))
    for path, told_there, untold in (
        (f"waits/{told('waiting').wait.id}/", "to the approve form", "Your reason"),
        ("runs/", "filter", "send the form"),  # the form that keeps a view is folded away
    ):
        page.goto(site + path)
        expect(hints(page, "search")).to_be_visible()
        keys(page, "?")
        expect(box).to_contain_text(told_there)
        expect(box).not_to_contain_text(untold)


def test_the_list_of_the_inbox_scrolls_down_and_not_sideways(page: Page, site: str) -> None:
    page.goto(f"{site}inbox/")
    expect(page.locator(".row.is-current")).to_be_visible()
    assert page.locator(".inbox__rows").evaluate("(it) => it.scrollWidth - it.clientWidth") == 0


def test_where_a_form_of_one_line_is_sent_by_ctrl_and_enter_it_says_so(page: Page, site: str) -> None:
    run = waiting(person(NAME)).run
    page.goto(f"{site}runs/{run.id}/stop/")
    expect(hints(page, "send the form")).to_be_visible()
    keys(page, "?")
    expect(page.locator("#help")).to_contain_text("send the form that has the focus")
    keys(page, "Escape")
    page.get_by_label("Reason, required").focus()
    page.keyboard.type("Enough.")
    keys(page, "Control+Enter")
    expect(page.locator("h1")).to_contain_text("Stopped:")
    assert ControlRequest.objects.get(run=run).reason == "Enough."


def test_keys_are_off_while_a_field_has_the_focus(page: Page, site: str) -> None:
    page.goto(f"{site}runs/{told('waiting').id}/goal/")
    page.locator("#reason").focus()
    page.keyboard.type("gi s / ? jk")
    assert page.input_value("#reason") == "gi s / ? jk"
    assert page.url.endswith("/goal/")


def test_a_page_opens_at_its_title_and_one_step_back_skips_to_its_content(page: Page, site: str) -> None:
    page.goto(f"{site}runs/")
    expect(page.locator("h1")).to_be_focused()
    for _ in range(60):
        keys(page, "Shift+Tab")
        if page.get_by_role("link", name="Skip to content").evaluate("it => it === document.activeElement"):
            break
    box = page.get_by_role("link", name="Skip to content").bounding_box()
    assert box is not None and box["y"] >= 0
    keys(page, "Enter", "Tab")
    assert page.evaluate("document.querySelector('main').contains(document.activeElement)")


def test_whatever_has_the_focus_shows_it(page: Page, site: str) -> None:
    page.goto(f"{site}waits/{told('waiting').wait.id}/")
    for _ in range(40):
        keys(page, "Tab")
        ring = page.evaluate("""() => {
            const it = document.activeElement, style = getComputedStyle(it);
            const inside = it.closest(".bar__search") && getComputedStyle(it.closest(".bar__search")).outlineStyle;
            return it === document.body || style.outlineStyle !== "none" || inside === "solid" ? "" : it.outerHTML;
        }""")
        assert ring == ""


def test_nothing_moves_where_no_motion_is_asked_for(browser: Browser, page: Page, site: str) -> None:
    page.emulate_media(reduced_motion="reduce")
    page.goto(site)
    expect(page.locator("[data-live-state]")).to_have_attribute("data-live-state", "live")
    moving = "document.getAnimations().filter(one => one.playState === 'running').length"
    assert page.evaluate(moving) == 0
    page.emulate_media(reduced_motion="no-preference")
    assert page.evaluate(moving) == 1, "one slow lamp"
