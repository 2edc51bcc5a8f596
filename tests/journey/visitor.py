"""A person at a browser: signs in, walks through the pages, and notes what the browser complains about."""

import re
from dataclasses import dataclass, field

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Locator, Page, expect

PASSWORD = "a long enough word"
# A page that is left asks for nothing more; a refusal answers 409 and is what the test is about.
HARMLESS = re.compile("htmx:sendAbort|status of 409")


@dataclass
class Visitor:
    """One person with a browser context of their own. `page` is the first tab."""

    name: str
    url: str
    context: BrowserContext
    complaints: list[str] = field(default_factory=list)
    page: Page = field(init=False)

    def __post_init__(self) -> None:
        self.page = self.tab()

    def tab(self, path: str | None = None) -> Page:
        """Another tab, at a path of the console if one is given."""
        page = self.context.new_page()
        page.on("console", self._heard)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        if path is not None:
            self.open(path, page)
        return page

    def _heard(self, said: ConsoleMessage) -> None:
        if said.type == "error" and not HARMLESS.search(said.text):
            self.complaints.append(f"{said.text} ({said.location['url']})")

    def sign_in(self) -> None:
        """Through the form, from the page that a stranger is led to."""
        self.page.goto(self.url)
        self.page.get_by_label("Name").fill(self.name)
        self.page.get_by_label("Password").fill(PASSWORD)
        self.page.get_by_role("button", name="Sign in").click()
        expect(self.page.locator("h1")).to_have_text("Overview")

    def open(self, path: str, page: Page | None = None) -> Page:
        """Go to a path of the console and wait until the page's line is live."""
        page = page or self.page
        page.goto(self.url + path)
        expect_live(page)
        return page

    def go(self, word: str) -> None:
        """Follow an entry of the top bar."""
        self.page.get_by_role("navigation", name="Main").get_by_role("link", name=re.compile(word)).click()
        expect_live(self.page)


def visitor(browser: Browser, name: str, url: str, **options: object) -> Visitor:
    """Somebody who has not signed in yet. `options` are those of a browser context."""
    context = browser.new_context(viewport={"width": 1440, "height": 900}, color_scheme="light", **options)  # type: ignore[arg-type]
    return Visitor(name, url, context)


def expect_live(page: Page) -> None:
    """Wait until the page hears of changes."""
    expect(page.locator("[data-live-state]")).to_have_attribute("data-live-state", "live")


def status(page: Page) -> Locator:
    """The chip beside the title."""
    return page.locator("main .head .chip").first


def inbox_count(page: Page) -> Locator:
    """The number in the top bar."""
    return page.locator("#inbox-count")
