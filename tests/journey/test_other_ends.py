"""The other ends of a run in the browser: stopped at its approval, stopped while a call hangs, rejected and released."""

from collections.abc import Callable
from uuid import UUID

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.journey.inspection import inspect
from tests.journey.visitor import Visitor, expect_live, status
from tests.scenarios.records import Records
from tests.scenarios.world import APPROVER, World

pytestmark = [pytest.mark.browser, pytest.mark.process]


def test_a_stop_at_the_approval_refuses_a_page_that_is_out_of_date(
    world: World, operator: Visitor, visit: Callable[..., Visitor]
) -> None:
    run_id, wait = world.run_to_wait()
    live = operator.tab(f"waits/{wait.id}/")
    stale = still_page(operator, visit, f"waits/{wait.id}/")
    open_forecast(operator, run_id)
    inspect(operator.page)
    press_stop(operator)

    stages = operator.page.locator(".stages")
    expect(stages).to_contain_text("Accepted")
    expect(stages).to_contain_text("No worker held the run.")
    expect(stages).to_contain_text("The run is closed as CANCELLED.")
    expect(status(operator.page)).to_have_text("CANCELLED")
    inspect(operator.page)

    expect(status(live)).to_have_text("CANCELLED")
    expect(live.get_by_role("button", name="Approve this call")).to_have_attribute("aria-disabled", "true")
    send_approval(stale, "Typed before it was stopped.")
    expect(stale.get_by_role("alert")).to_contain_text("Nothing was decided. The run was stopped")
    expect(stale.get_by_label("Your reason")).to_have_value("Typed before it was stopped.")
    assert [one.status for one in Records(run_id).waits] == ["CANCELLED"]


def still_page(operator: Visitor, visit: Callable[..., Visitor], path: str) -> Page:
    """A tab of the same person that hears of nothing: its scripts are off."""
    state = operator.context.storage_state()
    still: Visitor = visit(APPROVER, java_script_enabled=False, storage_state=state)
    still.page.goto(still.url + path)
    return still.page


def send_approval(page: Page, reason: str) -> None:
    """Give a reason and press the button."""
    page.get_by_label("Your reason").fill(reason)
    page.get_by_role("button", name="Approve this call").click()


def open_forecast(operator: Visitor, run_id: UUID) -> None:
    """From the run's page to what a stop would mean."""
    operator.open(f"runs/{run_id}/")
    operator.page.get_by_role("link", name="Stop this run").click()
    expect_live(operator.page)


def press_stop(operator: Visitor) -> None:
    asked = operator.page.get_by_role("region", name="Stop this run?")
    asked.get_by_label("Reason, required").fill("Not needed any more.")
    operator.page.get_by_role("button", name="Stop this run").click()


def test_a_stop_while_a_call_hangs_shows_its_three_stages_live(world: World, operator: Visitor) -> None:
    run_id, wait = world.run_to_wait()
    world.tell_outside(mode="hang", times=1)
    world.approve(wait)
    world.wait_held("wiki")
    stages = operator.page.locator(".stages > li")
    open_forecast(operator, run_id)
    for worker in world.workers:
        worker.freeze()
    press_stop(operator)
    expect(heads(stages, "is-ahead")).to_have_text(["Adopted", "Settled"])
    operator.page.evaluate("window.kept = true")
    for worker in world.workers:
        worker.thaw()
    expect(heads(stages, "is-ahead")).to_have_text(["Settled"])
    expect(operator.page.locator("#stop-live")).to_contain_text("may still land")

    world.tell_outside(mode="ok")
    expect(heads(stages, "is-ahead")).to_have_count(0)
    expect(operator.page.locator("#stop-live")).to_contain_text("The run is closed as CANCELLED.")
    assert operator.page.evaluate("window.kept"), "the stop's page was loaded anew"
    records = Records(run_id)
    assert records.reports == [(1, "console", "PUBLISHED"), (2, "wiki", "PUBLISHED")]
    assert world.executions(records.call("publish_report")) == 1


def heads(stages: Locator, state: str) -> Locator:
    """The names of the stages in a state."""
    return stages.and_(stages.page.locator(f".{state}")).locator("h2")


def test_a_rejected_publication_holds_the_run_until_its_promise_is_released(world: World, operator: Visitor) -> None:
    run_id, wait = world.run_to_wait()
    page = operator.page
    operator.open(f"waits/{wait.id}/#reject")
    page.get_by_label("What should change").fill("The draft is enough.")
    page.get_by_role("button", name="Reject this call").click()
    expect(page.locator("#wait-live")).to_contain_text("The call ended as REJECTED, with no attempt")

    operator.open("inbox/?kind=held")
    page.locator(f"#row-run-{run_id} a").click()
    expect(page.locator("#inbox-item")).to_contain_text("OBLIGATION_OPEN")
    inspect(page)
    page.get_by_role("link", name="Open the run").click()
    expect(status(page)).to_have_text("HELD")
    page.get_by_role("link", name="Release the promise…").click()
    inspect(page)
    page.get_by_label("Your reason").fill("Nobody waits for it on the wiki.")
    page.get_by_role("button", name="Release this promise").click()

    expect(status(page)).to_have_text("COMPLETED")
    expect(page.locator("main")).to_contain_text("Nobody waits for it on the wiki.")
    assert world.executions(Records(run_id).call("publish_report")) == 0
