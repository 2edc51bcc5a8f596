"""The call line by line against what the run has read: where an argument bears the name of a value that the call rests on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from console.pages.decision.alike import number, short_values
from console.pages.decision.lapsing import Held
from console.pages.decision.points import Point
from console.pages.legible import differing, legible
from console.pages.stored import Stored
from console.pages.text import exact


@dataclass(frozen=True)
class Compared:
    """One argument and the newest value of its name that was read. Numbers are the same when they are equal."""

    path: str
    value: str
    read: str
    step_name: str
    held: Held

    @property
    def same(self) -> bool:
        if self.value == self.read:
            return True
        one, other = number(self.value), number(self.read)
        return one is not None and one == other

    @property
    def shown_value(self) -> SafeString:
        return legible(self.value, marks=() if self.same else differing(self.value, self.read)[0])

    @property
    def shown_read(self) -> SafeString:
        return legible(self.read, marks=() if self.same else differing(self.read, self.value)[0])


def compared_with(arguments: Stored | None, held: Sequence[Held]) -> list[Compared]:
    """The arguments that share a name with a value that was read and that still counts. Both as anybody may be shown them."""
    if arguments is None or not arguments.intact:
        return []
    read = _read(held)
    values = short_values(arguments.value)
    found = ((path, value, *read[_name(path)]) for path, value in values.items() if _name(path) in read)
    return [Compared(path, value, said, one.fact.ref.step_name, one) for path, value, said, one in found]


def _read(held: Sequence[Held]) -> dict[str, tuple[str, Held]]:
    """By the last part of its path, each value that was read, the newest where there are several."""
    found: dict[str, tuple[str, Held]] = {}
    for one in held:
        if one.gone or not one.fact.ref.ok or one.fact.stored is None or not one.fact.matches:
            continue
        for path, value in short_values(one.fact.stored.value).items():
            found.setdefault(_name(path), (value, one))
    return found


def _name(path: str) -> str:
    return path.rpartition(".")[2]


def compared_points(compared: Sequence[Compared]) -> list[Point]:
    """Where the call has another value than what was read; nothing where all are the same."""
    others = [one for one in compared if not one.same]
    if not others:
        return []
    told = format_html_join(
        "; ",
        "<code>{}</code> is “{}”, and <code>{}</code> said “{}”",
        ((_text(one.path), one.shown_value, _text(one.step_name), one.shown_read) for one in others),
    )
    same = len(compared) - len(others)
    why = f"{same} other{' is' if same == 1 else 's are'} as read. " if same else ""
    text = format_html("Not what was read: {}", told)
    return [Point("stop", "caution", text, f"{why}Compared by name, line by line, below the call.")]


def as_read(compared: Sequence[Compared]) -> Mapping[str, str]:
    """By path, the step that has read exactly this value."""
    return {one.path: one.step_name for one in compared if one.same}


def _text(text: str) -> str:
    return exact(text, one_line=True)
