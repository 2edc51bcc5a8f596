"""What every page must hold: usable without good eyes or a mouse, in both themes, and no wider than a phone."""

from typing import Any

from playwright.sync_api import Page

from console.environment import BASE_DIR

AXE = (BASE_DIR / "tests" / "vendor" / "axe-core" / "axe.min.js").read_text()
# Only what is marked moderate, serious or critical, and for each rule the elements that break it.
ASK_AXE = """(options) => axe.run(document, options).then((found) => found.violations
    .filter((one) => ["moderate", "serious", "critical"].includes(one.impact))
    .map((one) => `${one.id} (${one.impact}): ${one.nodes.map((node) => node.target.join(" ")).join(" | ")}`))"""
EVERY_RULE: dict[str, Any] = {"resultTypes": ["violations"]}
COLOUR_ONLY: dict[str, Any] = {**EVERY_RULE, "runOnly": ["color-contrast"]}  # nothing else depends on the theme
PHONE = {"width": 390, "height": 844}


def inspect(page: Page) -> None:
    """Fail if axe finds something serious in one of the themes, or if the page scrolls sideways on a phone."""
    page.evaluate(AXE)
    found = {
        "light": _violations(page, "light", EVERY_RULE),
        "dark": _violations(page, "dark", COLOUR_ONLY),
        "phone": _on_a_phone(page),
    }
    assert not any(found.values()), f"{page.url}: {found}"


def _violations(page: Page, theme: Any, options: dict[str, Any]) -> list[str]:
    page.emulate_media(color_scheme=theme)
    found: list[str] = page.evaluate(ASK_AXE, options)
    page.emulate_media(color_scheme="light")
    return found


def _on_a_phone(page: Page) -> list[str]:
    wide: Any = page.viewport_size
    page.set_viewport_size(PHONE)  # type: ignore[arg-type]
    width = page.evaluate("document.documentElement.scrollWidth")
    page.set_viewport_size(wide)
    return [f"{width} px wide"] if width > PHONE["width"] else []
