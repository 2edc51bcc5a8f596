"""Many waits at once: picked by range, by text and by what may be approved together; what is left out says why and stays open."""

from datetime import timedelta

import pytest
from django.utils import timezone
from playwright.sync_api import Browser, expect

from accounts.models import Membership
from approvals.models import Wait
from tests.engine.engine import demand
from tests.pages import story
from tests.pages.conftest import Member
from tests.pages.driven import person, waiting, words
from tests.pages.test_acting_in_the_browser import signed_in
from tests.pages.test_votes import batch_form
from tests.stack import Stack


def several(fit: int, alone: int) -> tuple[list[Wait], list[Wait]]:
    """Waits of real runs: some that the policy lets be approved together, and some that it does not."""
    waits = [waiting(person("ann.moreau")).wait for _ in range(fit + alone)]
    return [demand(wait, risk="LOW", batchable=True) for wait in waits[:fit]], waits[fit:]


def part(html: str, beginning: str, end: str) -> str:
    return html[html.index(beginning) : html.index(end)]


def test_one_that_can_not_be_approved_with_others_is_left_out_by_its_reason_and_stops_no_other(ann: Member) -> None:
    fit, alone = several(2, 1)
    html = ann.get("/inbox/batch/?" + "&".join(f"wait={wait.id}" for wait in (*fit, *alone)))
    form = part(html, 'id="approve"', 'id="reject"')
    assert all(f'name="wait" value="{wait.id}"' in form for wait in fit)
    assert f'name="wait" value="{alone[0].id}"' not in form and f'href="#wait-{alone[0].id}"' in form
    assert f'name="beside" value="{alone[0].id}"' in form, "what comes of it is shown beside the others"
    assert "The policy wants it gone through by itself." in words(form) and "Approve these 2" in words(form)
    assert f'name="wait" value="{alone[0].id}"' in html[html.index('id="reject"') :] and "Reject all 3" in words(html)


def test_where_none_can_be_approved_with_others_no_reason_is_asked_for(ann: Member) -> None:
    _, alone = several(0, 2)
    html = ann.get("/inbox/batch/?" + "&".join(f"wait={wait.id}" for wait in alone))
    form = part(html, 'id="approve"', 'id="reject"')
    assert "Each of them has to be gone through by itself." in words(form) and "<textarea" not in form
    assert "<textarea" in html[html.index('id="reject"') :]


def test_after_deciding_the_page_says_what_came_of_it_and_offers_to_decide_nothing_twice(ann: Member) -> None:
    fit, alone = several(2, 1)
    sent = batch_form(fit, "APPROVE", "All were scanned tonight.") | {"beside": [str(alone[0].id)]}
    html = ann.post("/inbox/batch/", **sent).html
    outcome = html[html.index('id="outcome"') :]
    assert "2 decisions stored" in words(outcome) and "1 still open" in words(outcome)
    assert f'name="wait" value="{alone[0].id}"' in outcome and "Go through it" in words(outcome)
    assert "Not decided with the others: The policy wants it gone through by itself." in words(html)
    assert "Approve 0" not in html and "Reject 0" not in html and "<textarea" not in html
    assert "All were scanned tonight." not in outcome
    assert [Wait.objects.get(id=wait.id).status for wait in (*fit, *alone)] == ["APPROVED", "APPROVED", "OPEN"]


def test_rows_of_one_run_say_how_many_they_are_and_the_work_stands_beside_its_tool(mo: Member) -> None:
    now = timezone.now()
    told, _ = story.waiting(mo.tenant, now - timedelta(minutes=5), "Closing of November")
    story.waiting(mo.tenant, now - timedelta(minutes=4), "Another one")
    assert "of this run" not in mo.get("/inbox/")
    call = told.call(46, "publish_report/second", "NON_IDEMPOTENT", "AWAITING_APPROVAL", [])
    told.wait(46.2, call, 2)
    html = mo.get("/inbox/")
    assert words(html).count("Closing of November 2 of this run") == 2
    assert html.count('class="row__work"') == 3


def test_the_preview_leads_to_stopping_its_run_unless_that_has_ended(mo: Member) -> None:
    told, wait = story.waiting(mo.tenant, timezone.now() - timedelta(minutes=5))
    preview = mo.get(f"/inbox/?item=wait-{wait.id}", panel="inbox-item")
    assert f'href="/runs/{told.run.id}/stop/" data-key="s"' in preview


# ── in a browser ─────────────────────────────────────────────────────────────


@pytest.fixture
def site(common_site: Stack, own: Membership) -> str:
    """The address of a web server with four waits that may be approved together, and one that may not."""
    now = timezone.now()
    for number in range(1, 6):
        _, wait = story.waiting(own.tenant, now - timedelta(minutes=9 - number), f"Night filing {number}")
        if number < 5:
            demand(wait, risk="LOW", batchable=True)
    return common_site.url


@pytest.mark.browser
@pytest.mark.process
def test_rows_are_picked_by_range_by_text_and_together_and_never_out_of_sight(
    browser: Browser, site: str, own: Membership
) -> None:
    page = signed_in(browser, site, name=own.user.username)
    page.set_viewport_size({"width": 1440, "height": 900})
    page.goto(f"{site}inbox/")
    checks = page.locator(".inbox__list .check")
    expect(checks).to_have_count(5)
    count = page.locator("[data-picked]")
    together = page.get_by_role("button", name="that may be approved together")
    expect(together).to_have_text("Pick 4 that may be approved together")

    checks.nth(1).click()
    checks.nth(3).click(modifiers=["Shift"])
    expect(count).to_have_text(": 3")
    page.get_by_role("button", name="Clear").click()
    expect(page.locator(".inbox__list .check:checked")).to_have_count(0)

    together.click()
    expect(count).to_have_text(": 4")
    expect(together).to_be_hidden()
    page.get_by_label("Show only rows with this text").fill("filing 2")
    expect(page.locator(".inbox__list [data-row]:visible")).to_have_count(1)
    expect(count).to_have_text(": 1")
    expect(page.locator(".inbox__list .group:visible span").last).to_have_text("1 of 5")
    page.get_by_label("Show only rows with this text").fill(" min")  # as their times have it
    expect(page.get_by_text("No row here has this text.")).to_be_visible()
    page.get_by_label("Show only rows with this text").fill("filing 2")
    expect(page.locator(".inbox__list [data-row]:visible")).to_have_count(1)
    page.locator(".inbox__list [data-row]:visible .check").check()
    page.get_by_role("button", name="Go through them…").click()
    expect(page.locator("h1")).to_have_text("1 picked")
    page.context.close()
