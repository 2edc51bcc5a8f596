"""Whatever stands in a field or in what a model said, a real browser runs none of it, asks nobody for it and refuses nothing in it.

The pages come from this process, inside a transaction that is taken back; the server gives the browser their styles and scripts.
"""

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import SplitResult, urlsplit

import pytest
from django.db import connection, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.test import Client
from playwright.sync_api import BrowserContext, Dialog, Page, Request, Route, expect

from runs.models import Run
from tests.corpus import KEPT, PAYLOADS
from tests.pages.looks.conftest import Furnished, Signed
from tests.pages.looks.places import ANN, Place
from tests.pages.looks.sealed import write_into_sealed
from tests.pages.looks.test_texts import holding
from tests.pages.test_in_the_browser import hint

pytestmark = [pytest.mark.browser, pytest.mark.process]

VIOLATIONS = """window.addEventListener("securitypolicyviolation", (event) => console.error(`violated: ${event.violatedDirective} `
    + `${event.blockedURI} ${event.sourceFile}`));"""


@dataclass
class Heard:
    """What a browser did that a text must never make it do."""

    site: str
    said: list[str] = field(default_factory=list)

    def listen(self, page: Page) -> None:
        page.on("dialog", self._opened)
        page.on("console", lambda line: self.said.append(line.text) if line.type == "error" else None)
        page.on("pageerror", lambda error: self.said.append(f"error {error}"))
        page.on("request", self._asked)
        page.on("popup", lambda other: self.said.append(f"window {other.url}"))
        page.on("download", lambda file: self.said.append(f"file {file.url}"))

    def _opened(self, dialog: Dialog) -> None:
        self.said.append(f"dialog {dialog.message}")
        dialog.dismiss()

    def _asked(self, request: Request) -> None:
        if not request.url.startswith(self.site) and not request.url.startswith("data:image/svg+xml,"):
            self.said.append(f"asked {request.url[:100]}")

    def taken(self) -> list[str]:
        said, self.said = self.said, []
        return said


def page_of(client: Client, asked: SplitResult, headers: dict[str, str], shared: BaseDatabaseWrapper) -> Any:
    """Ask for a page on the connection of the test, inside its transaction."""
    connections["default"] = shared
    return client.get(asked.path, query_string=asked.query, headers=headers)


def served(furnished: Furnished, context: BrowserContext, aside: ThreadPoolExecutor) -> None:
    """Pages and their parts come from this process, by a thread of its own: the browser's loop runs in this one."""
    client, shared = furnished.client(ANN), connections["default"]

    def answer(route: Route) -> None:
        asked = urlsplit(route.request.url)
        if route.request.method != "GET" or asked.path.startswith(("/static/", "/ws/")):
            route.continue_()
            return
        wanted = {name: value for name, value in route.request.headers.items() if name.startswith("hx-")}
        found = aside.submit(page_of, client, asked, wanted, shared).result()
        route.fulfill(status=found.status_code, headers=dict(found.items()), body=found.content)

    context.route("**/*", answer)
    context.route_web_socket("**/ws/live/", lambda _: None)  # it is open and says nothing


def chosen(furnished: Furnished, step: int) -> list[Place]:
    """A page of each route, or of every so-and-so-manieth."""
    return list(
        {one.route: one for one in reversed(furnished.places) if one.who == ANN and one.status == 200}.values()
    )[::step]


@pytest.fixture
def heard(site: str) -> Heard:
    return Heard(site)


@pytest.fixture
def page(furnished: Furnished, signed: Signed, heard: Heard) -> Iterator[Page]:
    context = signed(ANN, viewport={"width": 1440, "height": 900})
    context.add_init_script(VIOLATIONS)
    opened = context.new_page()
    heard.listen(opened)
    connection.inc_thread_sharing()
    with ThreadPoolExecutor(1) as aside:
        served(furnished, context, aside)
        yield opened
        context.close()
    connection.dec_thread_sharing()


@pytest.mark.parametrize("policy", ["", "script-src 'none'"])
def test_a_page_that_would_run_something_is_heard(signed: Signed, site: str, policy: str) -> None:
    page, heard = signed("").new_page(), Heard(site)
    page.add_init_script(VIOLATIONS)
    heard.listen(page)
    body = "<title>x</title><script>alert(1)</script><img src='//elsewhere.example/x'>"
    page.route("**/*", lambda route: route.fulfill(body=body, headers={"Content-Security-Policy": policy}))
    page.goto(site)
    said = " ".join(heard.taken())
    assert ("violated: script-src" if policy else "dialog 1") in said and "asked http://elsewhere.example" in said


@pytest.mark.parametrize(
    ("name", "step"), [("closing", 4), *(pytest.param(one, 1, marks=pytest.mark.matrix) for one in KEPT)]
)
def test_no_text_does_anything_on_any_page(
    furnished: Furnished, site: str, page: Page, heard: Heard, name: str, step: int
) -> None:
    wrong = {}
    with holding(KEPT[name]):
        assert write_into_sealed(KEPT[name]) > 20
        for place in chosen(furnished, step):
            page.goto(site + place.path.removeprefix("/"))
            if did := heard.taken() + moved(page):
                wrong[place.name] = did
    assert not wrong, "\n".join(f"{place}: {did}" for place, did in wrong.items())


# A text that stands in no isolate of its own could turn around what stands beside it.
BARE = """() => [...document.querySelectorAll("body *")].flatMap((one) => [...one.childNodes])
    .filter((one) => one.nodeType === 3 && /[\\u0590-\\u08ff]/.test(one.data) && one.parentElement.checkVisibility())
    .filter((one) => !one.parentElement.closest("bdi, textarea, pre, option, input, title, [dir]:not(html)"))
    .filter((one) => !getComputedStyle(one.parentElement).unicodeBidi.startsWith("isolate"))
    .map((one) => `not isolated: ${one.data.slice(0, 40)} in ${one.parentElement.outerHTML.slice(0, 80)}`)"""


def moved(page: Page) -> list[str]:
    found: list[str] = page.evaluate(BARE)
    return found


LIVE = (
    "inbox",
    "run-waiting",
    "wait-open",
    "question",
    "call-lost",
    "stop",
    "overview",
    "run-handover-waiting",
    "report",
)


@pytest.mark.parametrize(
    ("name", "places"), [("closing", LIVE[:4]), *(pytest.param(one, LIVE, marks=pytest.mark.matrix) for one in KEPT)]
)
def test_no_text_does_anything_when_the_live_line_brings_it_into_a_page(
    furnished: Furnished, site: str, page: Page, heard: Heard, name: str, places: tuple[str, ...]
) -> None:
    """The page was open and harmless; what comes is put into it as it is on a reload."""
    wrong = {}
    for place in (one for one in furnished.places if one.name in places):
        page.goto(site + place.path.removeprefix("/"))
        before = page.evaluate("document.body.textContent")
        with holding(KEPT[name]), page.expect_response(lambda answer: "hx-request" in answer.request.headers):
            write_into_sealed(KEPT[name])
            page.evaluate("document.dispatchEvent(new CustomEvent('line:ask'))")
        page.wait_for_function("(before) => document.body.textContent !== before", arg=before)
        if did := heard.taken() + moved(page):
            wrong[place.name] = did
    assert not wrong, "\n".join(f"{place}: {did}" for place, did in wrong.items())


def test_the_live_line_itself_carries_names_of_things_and_no_text(
    furnished: Furnished, site: str, signed: Signed
) -> None:
    frames: list[str] = []
    page = signed(ANN).new_page()
    page.on("websocket", lambda line: line.on("framereceived", lambda frame: frames.append(str(frame))))
    run = Run.objects.get(id=furnished.house.runs["hostile"])
    page.goto(f"{site}runs/{run.id}/")
    expect(page.locator("[data-live-state]")).to_have_attribute("data-live-state", "live", timeout=30_000)
    with page.expect_response(lambda answer: "hx-request" in answer.request.headers):
        hint(run)
    told = [json.loads(frame) for frame in frames]
    assert any(one.get("kind") for one in told)
    texts = [value for one in told for value in one.values() if isinstance(value, str)]
    assert texts and all(re.fullmatch(r"[a-z0-9:_-]+", text) for text in texts), texts


def test_hundreds_of_payloads_run_nowhere(furnished: Furnished, site: str, page: Page, heard: Heard) -> None:
    """All of them in a goal, a report and whatever a model, a tool or a person says at length."""
    assert len(PAYLOADS) >= 500
    with holding(PAYLOADS[0]):
        assert write_into_sealed("\n\n".join(PAYLOADS)) > 20
        for name in ("report", "report-difference", "run-goal", "wait-open", "call-answered", "memory", "workspace"):
            place = next(one for one in furnished.places if one.name == name)
            page.goto(site + place.path.removeprefix("/"))
            assert heard.taken() == [], name
            assert page.evaluate("document.body.textContent").count("alert(") > 100, name
