"""Whoever goes through a page by keyboard sees the whole ring around what has the focus: nothing clips it, nothing draws none."""

import pytest
from playwright.sync_api import Page

from tests.pages.looks.conftest import Furnished, Signed
from tests.pages.looks.places import ANN

pytestmark = [pytest.mark.browser, pytest.mark.process]
PAGES = ("overview", "inbox", "runs", "audit", "delegations", "report", "run-waiting", "run-replay", "call-lost")
# Gives each control the focus and says whose ring is not whole: what scrolls or clips is smaller than the ring, or there is none.
# A row, a node of a tree and a part of a drawing mark themselves in another way; what scrolls is brought into sight first.
BROKEN = """() => {
  const found = new Set();
  const name = (one) => one.tagName + "." + String(one.className.baseVal ?? one.className).split(" ")[0];
  const clips = (one) => { const style = getComputedStyle(one); return style.overflowX !== "visible" || style.overflowY !== "visible"; };
  for (const one of document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex='0']")) {
    if (!one.checkVisibility({ visibilityProperty: true }) || one.closest("[data-node], .row, svg, .vh, .bar__search") || one.matches(".vh")) continue;
    one.focus();
    if (document.activeElement !== one) continue;
    const style = getComputedStyle(one);
    if (style.outlineStyle === "none" || !parseFloat(style.outlineWidth)) { found.add(`${name(one)} has no ring`); continue; }
    const grown = Math.max(0, parseFloat(style.outlineWidth) + parseFloat(style.outlineOffset)) - 0.5;
    const own = one.getBoundingClientRect();
    for (let at = one.parentElement; at !== document.body; at = at.parentElement) {
      if (!clips(at)) continue;
      const room = at.getBoundingClientRect();
      const cut = [own.left - grown < room.left, own.right + grown > room.right, own.top - grown < room.top, own.bottom + grown > room.bottom];
      if (cut.some(Boolean)) found.add(`${name(one)} in ${name(at)} is cut`);
    }
    if (own.left - grown < 0 || own.right + grown > document.documentElement.clientWidth) found.add(`${name(one)} is cut by the window`);
  }
  return [...found];
}"""


@pytest.mark.parametrize("width", [1440, 390])
def test_the_ring_around_what_has_the_focus_is_whole(
    furnished: Furnished, site: str, signed: Signed, width: int
) -> None:
    page: Page = signed(ANN, viewport={"width": width, "height": 900}).new_page()
    broken = {}
    for place in furnished.places:
        if place.name not in PAGES or place.who != ANN:
            continue
        page.goto(site + place.path.removeprefix("/"))
        page.keyboard.press("Tab")  # the rings are those of a keyboard
        if wrong := page.evaluate(BROKEN):
            broken[place.name] = wrong
    assert broken == {}
