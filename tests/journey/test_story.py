"""The main story in the browser: two disclosures become a published report, while a worker dies; then an answer is lost."""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import pytest
from playwright.sync_api import Page, expect

from approvals.models import Wait
from console.environment import BASE_DIR
from receipts.models import ToolCall
from runs.models import Lease
from runtime.services import Started, StartRequest, Upload, run_start
from tests.journey.inspection import inspect
from tests.journey.visitor import Visitor, expect_live, inbox_count, status
from tests.scenarios.records import Records
from tests.scenarios.world import ALDER, BIRCH, World

pytestmark = [pytest.mark.browser, pytest.mark.process]

FUNDS = BASE_DIR.parent / "shared" / "data" / "funds"
SAMPLES = BASE_DIR / "runtime" / "agents" / "samples"


@dataclass(frozen=True)
class Pair:
    """Two disclosures and what is known about them."""

    a: Path
    b: Path
    overlap: str
    shared: str


REAL = Pair(FUNDS / "ARKK-2021-09-08.csv", FUNDS / "ARKW-2021-09-08.csv", "65.08 %", "22")
SMALL = Pair(SAMPLES / "larch-2026-06-30.csv", SAMPLES / "maple-2026-06-30.csv", "47.20 %", "6")


def test_two_disclosures_become_a_published_report(world: World, operator: Visitor) -> None:
    pair = REAL if REAL.a.exists() else SMALL
    world.tell_outside(mode="hang", **{"for": "reference"})
    run_id = upload(operator, pair)
    watch_a_worker_die(world, operator, run_id)
    wait = Wait.objects.get(run_id=run_id)

    watching = operator.page
    deciding = operator.page = operator.tab("runs/")
    inspect(open_from_inbox(operator, f"wait-{wait.id}", "Open the decision"))
    approve(deciding, wait)
    expect(deciding.locator("#wait-live")).to_contain_text("Answered, and the answer is stored.")

    expect(status(watching)).to_have_text("COMPLETED")
    assert watching.evaluate("window.kept"), "the run's page was loaded anew"
    inspect(watching)
    read_the_report(operator, pair)
    assert world.executions(Records(run_id).call("publish_report")) == 1


def upload(operator: Visitor, pair: Pair) -> UUID:
    """Start a run with two files. Its page opens by itself."""
    page = operator.page
    inspect(page)
    operator.go("Runs")
    page.locator(".head").get_by_role("link", name="New run").click()
    page.get_by_label("Disclosure A").set_input_files(pair.a)
    page.get_by_label("Disclosure B").set_input_files(pair.b)
    inspect(page)
    page.get_by_role("button", name="Start the run").click()
    page.wait_for_url(re.compile(r"/runs/[0-9a-f-]{36}/$"))
    return UUID(page.url.rstrip("/").rpartition("/")[2])


def watch_a_worker_die(world: World, operator: Visitor, run_id: UUID) -> None:
    """Its worker is killed while it waits for the sheet; another one takes over. All of it shows without a reload."""
    page, waiting = operator.page, int(inbox_count(operator.page).inner_text())
    expect_live(page)
    page.evaluate("window.kept = true")
    expect(page.locator("main .head__say")).to_contain_text("fetch_reference/sheet was sent")
    expect(page.locator(".plot .bar--tail").first).to_be_visible()
    world.wait_held("reference")
    kill_holder(world, run_id)
    expect(page.locator(".plot use[href$='#i-takeover']")).to_have_count(1)
    expect(page.locator("#events")).to_contain_text("took over from a worker that fell silent")
    world.tell_outside(mode="ok", **{"for": "reference"})
    expect(status(page)).to_have_text("WAITING")
    expect(inbox_count(page)).to_have_text(str(waiting + 1))
    expect(page).to_have_title(re.compile(rf"^\({waiting + 1}\) "))
    fences = {fence for _, fence in Records(run_id).phases}
    assert fences == {0, 1, 2}  # admitted, the worker that died, the one that took over


def kill_holder(world: World, run_id: UUID) -> None:
    """kill -9 of the worker that holds the lease, with its pool."""
    holder = int((Lease.objects.get(run_id=run_id).owner or "").rpartition("-")[2])
    groups = [worker.child.pid for worker in world.workers]
    world.kill_worker(groups.index(os.getpgid(holder)))


def open_from_inbox(operator: Visitor, item: str, button: str) -> Page:
    """Find an item in the inbox, look at it, and open its page."""
    operator.go("Inbox")
    operator.page.locator(f"#row-{item} a").click()
    operator.page.get_by_role("link", name=button).click()
    expect_live(operator.page)
    return operator.page


def approve(page: Page, wait: Wait) -> None:
    """Read what is bound, tick what is to be ticked, give a reason, approve."""
    form, button = page.locator("#approve-form"), page.get_by_role("button", name="Approve this call")
    bound = page.locator(".aside")
    for value in (f"{wait.checkpoint_revision}, the head", wait.checkpoint_digest[:12], wait.args_digest[:12]):
        expect(bound).to_contain_text(value)
    expect(button).to_have_attribute("aria-disabled", "true")
    form.get_by_label("Your reason").fill("The numbers match the draft.")
    for box in form.get_by_role("checkbox").all():
        expect(button).to_have_attribute("aria-disabled", "true")
        box.check()
    expect(button).not_to_have_attribute("aria-disabled", "true")
    button.click()


def read_the_report(operator: Visitor, pair: Pair) -> None:
    """Both versions say what is right, and a number leads to the call that gave it."""
    operator.go("Reports")
    page = operator.page
    page.locator("[data-row-link]").first.click()
    article = page.get_by_role("article", name="The report")
    for version in ("v1", "v2"):
        page.get_by_role("link", name=version, exact=True).click()
        expect(page.locator("main .head .chip")).to_have_text(version.upper())
        expect(article).to_contain_text(f"Weight overlap: {pair.overlap} over {pair.shared} shared tickers.")
    inspect(page)
    article.get_by_role("link", name=pair.overlap, exact=True).first.click()
    expect(page.locator("h1")).to_have_text("compute_overlap/a-b")
    expect(page.locator("#call-live")).to_contain_text(pair.overlap.removesuffix(" %"))
    inspect(page)


def test_a_lost_answer_is_settled_by_a_person(world: World, operator: Visitor) -> None:
    run_id = start_with_a_hidden_character(world)
    wait = world.open_wait(run_id)
    world.tell_outside(mode="drop", times=1)
    operator.open(f"waits/{wait.id}/")
    expect(operator.page.locator("#approve-form")).to_contain_text("U+200B")
    approve(operator.page, wait)
    world.wait_status(run_id, "HELD")
    call = Records(run_id).call("publish_report")

    inspect(open_from_inbox(operator, f"call-{call.id}", "Open the call"))
    say_it_happened(operator.page, call)

    expect(operator.page.locator("#call-live .facts")).to_contain_text("COMPLETED")
    expect(operator.page.locator("#call-live")).to_contain_text("SUCCEEDED")
    expect(operator.page.locator("#call-live")).to_contain_text("SAID BY A PERSON")
    operator.go("Reports")
    expect(operator.page.locator("[data-row]").first).to_contain_text("said by a person")
    assert world.executions(call) == 1


def start_with_a_hidden_character(world: World) -> UUID:
    """A run on a file in which a company's name holds a zero-width space. Whoever approves has to mark it as seen."""
    hidden = ALDER.replace("GRID CO", "GRID\u200b CO")
    inputs = {"a": Upload("alder.csv", hidden.encode()), "b": Upload("birch.csv", BIRCH.encode())}
    started = run_start(actor=world.person(), wanted=StartRequest("fund_comparison", inputs))
    assert isinstance(started, Started), started
    return started.run_id


def say_it_happened(page: Page, call: ToolCall) -> None:
    """Give the verdict: seen on the wiki, under this reference."""
    button = page.get_by_role("button", name="Record the verdict")
    expect(status(page)).to_have_text("UNCERTAIN")
    expect(button).to_have_attribute("aria-disabled", "true")
    page.get_by_label("It happened").check()
    page.get_by_label("Reference there").fill("post-1")
    page.get_by_label("Evidence, required").fill(f"The wiki lists one post under {call.idempotency_key[:12]}.")
    button.click()
    expect(page.locator("main")).to_contain_text("Stored: it happened, on your word.")
