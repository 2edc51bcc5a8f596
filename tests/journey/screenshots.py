"""`make screenshots`: the pictures of the documentation, taken from a real run of the tour's files. Not a test."""

from uuid import UUID

import pytest
from playwright.sync_api import Page, expect

from console.environment import BASE_DIR
from runtime.services import Started, StartRequest, Upload, run_start
from tests.journey.visitor import Visitor
from tests.scenarios.records import Records
from tests.scenarios.world import World

pytestmark = [pytest.mark.browser, pytest.mark.process]

FOLDER = BASE_DIR / "docs" / "screenshots"
SAMPLES = BASE_DIR / "runtime" / "agents" / "samples"
LIMIT = 250_000  # bytes of one picture
PAIRS = {"first": ("larch", "maple"), "second": ("larch", "pine"), "third": ("maple", "pine")}


def test_pictures(world: World, operator: Visitor) -> None:
    FOLDER.mkdir(exist_ok=True)
    published, unknown, stopped = (start(world, *PAIRS[name]) for name in ("first", "second", "third"))
    waits = {run_id: world.open_wait(run_id) for run_id in (published, unknown, stopped)}
    picture(operator.open(f"waits/{waits[published].id}/"), "decision")

    world.tell_outside(mode="drop", times=1)
    world.approve(waits[unknown])
    world.wait_status(unknown, "HELD")
    picture(operator.open("inbox/"), "inbox")
    call = Records(unknown).call("publish_report")
    picture(operator.open(f"calls/{call.id}/"), "call")

    world.approve(waits[published])
    world.wait_status(published, "COMPLETED")
    picture(operator.open(f"runs/{published}/"), "run")
    report = Records(published).report(2).report_id
    picture(operator.open(f"reports/{report}/"), "report")

    world.tell_outside(mode="hang", times=1)
    world.approve(waits[stopped])
    world.wait_held("wiki")
    world.stop(stopped)
    page = operator.open(f"runs/{stopped}/stop/")
    expect(page.locator(".stages .is-half")).to_be_visible()
    picture(page, "stop")


def start(world: World, *names: str) -> UUID:
    """A run on two of the files that ship."""
    paths = [SAMPLES / f"{name}-2026-06-30.csv" for name in names]
    inputs = {key: Upload(path.name, path.read_bytes()) for key, path in zip(("a", "b"), paths, strict=True)}
    started = run_start(actor=world.person(), wanted=StartRequest("fund_comparison", inputs))
    assert isinstance(started, Started), started
    return started.run_id


def picture(page: Page, name: str) -> None:
    """Store what the window shows, once everything in it is drawn."""
    page.wait_for_load_state("networkidle")
    taken = page.screenshot(path=FOLDER / f"{name}.png", animations="disabled")
    assert len(taken) <= LIMIT, f"{name}.png has {len(taken)} bytes"
