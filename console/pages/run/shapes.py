"""What the time axis is drawn with. x in percent of the plot, y in px. Pure."""

import unicodedata
from dataclasses import dataclass, field

from console.pages.text import plain

CHAR = 0.75  # percent of the narrowest plot (768 px) that one character of a label takes
LONGEST = 40  # columns of a label; the whole name is in its title and in the list of events


def columns(text: str) -> int:
    """How many characters wide a text is drawn: wide ones count twice, marks on a letter not at all."""
    return sum(_columns(char) for char in text)


def _columns(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def fitted(text: str, most: int = LONGEST) -> str:
    """A text as a label of at most `most` columns, its odd characters named; what is cut ends in an ellipsis."""
    shown = plain(text)
    if columns(shown) <= most:
        return shown
    while columns(shown) > most - 1:
        shown = shown[: len(shown) - max(1, (columns(shown) - most) // 2)]
    return f"{shown}…"


def width_of(text: str) -> float:
    """Percent of the narrowest plot that a label takes."""
    return columns(text) * CHAR


@dataclass(frozen=True)
class Bar:
    x: float
    width: float
    y: float
    height: float
    shape: str
    title: str
    key: str = ""
    picked: bool = False


@dataclass(frozen=True)
class Mark:
    x: float
    y: float
    icon: str
    lamp: str
    title: str
    key: str = ""
    picked: bool = False


@dataclass(frozen=True)
class Label:
    """`text` is drawn as a piece of its own, whichever way its letters run; `tail`, in our words, stands behind it."""

    x: float
    dx: int
    y: float
    text: str
    anchor: str = "start"
    weight: str = ""
    tail: str = ""

    @property
    def width(self) -> float:
        return width_of(self.text + self.tail)

    @property
    def start(self) -> float:
        """Where the text begins, in percent of the narrowest plot."""
        return self.x + self.dx / 7.68 - (self.width if self.anchor == "end" else 0.0)

    @property
    def end(self) -> float:
        return self.start + self.width


@dataclass(frozen=True)
class Station:
    """Revisions near each other as one sign, from `start` to `end`: a pill, or a wider one where they spread."""

    start: float
    end: float
    y: float
    text: str
    title: str
    key: str
    head: bool
    picked: bool

    @property
    def x(self) -> float:
        return round((self.start + self.end) / 2, 2)

    @property
    def spreads(self) -> bool:
        return (self.end - self.start) * 7.68 > self.size - 17

    @property
    def half(self) -> float:
        return 8.5 if len(self.text) <= 2 else 4.0 + 3.7 * len(self.text)

    @property
    def ring(self) -> float:
        return self.half + 3

    @property
    def size(self) -> float:
        return 2 * self.half


@dataclass
class Lane:
    """One row of the axis. `top` is filled in when the lanes are stacked."""

    name: str
    note: str
    height: int
    top: int = 0
    bars: list[Bar] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    labels: list[Label] = field(default_factory=list)
    stations: list[Station] = field(default_factory=list)
    rails: list[tuple[float, float]] = field(default_factory=list)
