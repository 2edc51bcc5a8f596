"""A person at the keyboard: Tab, arrows, Space, Enter, what is typed, and the keys of the console. No mouse, and no focus by script."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

STOPS = 160  # of a page, before it counts as unreachable
OPTIONS = 60  # of a list, or of the radios of a group

AT = "(it) => [it === document.activeElement, document.activeElement.outerHTML.slice(0, 110)]"
IN_GROUP = """(it) => [document.activeElement.type === "radio" && document.activeElement.name === it.name
    && document.activeElement.form === it.form, document.activeElement.outerHTML.slice(0, 110)]"""
# On the page on which something is pressed, and so on none that answers.
PRESSED = "document.documentElement.dataset.pressed = ''"
Step = Callable[["Keyboard"], None]


@dataclass(frozen=True)
class Keyboard:
    """What a page is used by. A control is looked for by its name, as somebody hears it, inside of `main`."""

    page: Page
    site: str

    def open(self, path: str) -> None:
        """As if its address had been typed."""
        self.page.goto(self.site + path.removeprefix("/"))

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def write(self, text: str) -> None:
        """In the place of what stands in the field."""
        self.press("Control+A")
        self.page.keyboard.type(text)

    def reach(self, wanted: Locator, is_there: str = AT) -> None:
        """Tab on until it has the focus. Fails with what was met instead."""
        expect(wanted).to_be_visible()
        met = []
        for _ in range(STOPS):
            there, here = wanted.evaluate(is_there)
            if there:
                return
            met.append(here)
            self.press("Tab")
        pytest.fail(f"Tab never came to {wanted}. It met:\n" + "\n".join(dict.fromkeys(met)))

    def is_answered(self) -> None:
        """Another page has come in the place of the one on which something was pressed, and all of it is there."""
        expect(self.page.locator("html[data-pressed]")).to_have_count(0)
        self.page.wait_for_load_state()

    def named(self, role: str, name: str, within: str = "main") -> Locator:
        found = self.page.locator(within).get_by_role(role, name=name, exact=True)  # type: ignore[arg-type]
        return found.filter(visible=True).first

    def labelled(self, label: str, within: str = "main") -> Locator:
        """The control that a label names, whatever stands behind its words."""
        return self.page.locator(within).get_by_label(label).filter(visible=True).first


# ── what is done, one thing after the other ──


def types(label: str, text: str, within: str = "main") -> Step:
    def step(by: Keyboard) -> None:
        by.reach(by.labelled(label, within))
        by.write(text)

    return step


def chooses(label: str, within: str = "main") -> Step:
    """One of several radios: Tab comes to the group, arrows go through it."""

    def step(by: Keyboard) -> None:
        wanted = by.named("radio", label, within) if not label.endswith("…") else by.labelled(label[:-1], within)
        by.reach(wanted, IN_GROUP)
        by.press("Space")
        for _ in range(OPTIONS):
            if wanted.is_checked():
                return
            by.press("ArrowDown")
        pytest.fail(f"no arrow came to {label}")

    return step


def ticks(label: str, within: str = "main") -> Step:
    def step(by: Keyboard) -> None:
        wanted = by.named("checkbox", label, within)
        by.reach(wanted)
        before = wanted.is_checked()
        by.press("Space")
        expect(wanted).to_be_checked(checked=not before)

    return step


def picks(label: str, option: str, within: str = "main") -> Step:
    """An option of a list, by its words or what it stands for."""

    def step(by: Keyboard) -> None:
        wanted = by.labelled(label, within)
        by.reach(wanted)
        by.press("Home")
        for _ in range(OPTIONS):
            if option in wanted.evaluate("(it) => [it.value, it.selectedOptions[0].textContent]"):
                return
            by.press("ArrowDown")
        pytest.fail(f"{label} has no {option}")

    return step


def dates(label: str, *parts: str) -> Step:
    """A moment, part by part, as the field of a browser takes it: month, day, year, hour, minute, AM or PM."""

    def step(by: Keyboard) -> None:
        by.reach(by.labelled(label))
        for part in parts:
            by.page.keyboard.type(part)
            if len(part) == len("2027"):
                by.press("ArrowRight")

    return step


def gives(label: str, path: Path) -> Step:
    """A file. What the browser opens for it is not the console's any more."""

    def step(by: Keyboard) -> None:
        by.reach(by.labelled(label))
        with by.page.expect_file_chooser() as chooser:
            by.press("Space")
        chooser.value.set_files(path)

    return step


def presses(name: str, within: str = "main", role: str = "button") -> Step:
    def step(by: Keyboard) -> None:
        by.reach(by.named(role, name, within))
        by.page.evaluate(PRESSED)
        by.press("Enter")

    return step


def follows(name: str, within: str = "main") -> Step:
    return presses(name, within, "link")


def opens(summary: str, within: str = "main") -> Step:
    """What is folded away behind a word."""

    def step(by: Keyboard) -> None:
        by.reach(by.page.locator(within).locator("summary").filter(has_text=summary).filter(visible=True).first)
        by.press("Enter")

    return step


def keys(*pressed: str) -> Step:
    return lambda by: by.press(*pressed)
