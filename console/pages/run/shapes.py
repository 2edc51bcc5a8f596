"""What the time axis is drawn with. x in percent of the plot, y in px. Pure."""

from dataclasses import dataclass, field

CHAR = 0.75  # percent of the narrowest plot (768 px) that one character of a label takes


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
    x: float
    dx: int
    y: float
    text: str
    anchor: str = "start"
    weight: str = ""

    @property
    def start(self) -> float:
        """Where the text begins, in percent of the narrowest plot."""
        return self.x + self.dx / 7.68 - (len(self.text) * CHAR if self.anchor == "end" else 0.0)

    @property
    def end(self) -> float:
        return self.start + len(self.text) * CHAR


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
