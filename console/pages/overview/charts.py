"""The last 24 hours as charts of hourly columns."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from console.pages.overview.day import Day
from console.pages.times import span

HEIGHT = 84.0
HOURS = 24


@dataclass(frozen=True)
class Column:
    """One hour: what it is worth, in words, and where its column stands. x and width in percent."""

    hour: datetime
    value: float
    words: str
    x: float
    y: float
    height: float


@dataclass(frozen=True)
class Chart:
    title: str
    figure: str
    note: str
    unit: str
    columns: list[Column]
    most: float

    @property
    def newest_first(self) -> list[Column]:
        return self.columns[::-1]


def charts(day: Day) -> list[Chart]:
    """Runs ended with what they used, and the oldest wait, hour by hour; nothing where nothing may be read."""
    if not day.hours:
        return []
    hours, ended, oldest, tokens, micros = zip(*day.hours, strict=True)
    return [
        _chart("Runs ended", hours, ended, _whole, total=True),
        _chart("Oldest wait", hours, oldest, _length, total=False),
        _chart("Tokens of ended runs", hours, tokens, _whole, total=True),
        _chart("Spend of ended runs", hours, micros, _money, total=True),
    ]


def _whole(value: float) -> str:
    return f"{value:,.0f}"


def _length(value: float) -> str:
    return span(timedelta(seconds=value))


def _money(value: float) -> str:
    return f"${value / 1_000_000:,.2f}"


def _chart(
    title: str, hours: Sequence[datetime], values: Sequence[float], words: Callable[[float], str], *, total: bool
) -> Chart:
    most = max(values)
    columns = [
        _column(i, hour, value, most, words(value)) for i, (hour, value) in enumerate(zip(hours, values, strict=True))
    ]
    figure = words(sum(values)) if total else columns[-1].words
    return Chart(title, figure, f"most {words(most)}", "in 24 h" if total else "now", columns, most)


def _column(index: int, hour: datetime, value: float, most: float, words: str) -> Column:
    height = round(HEIGHT * value / most, 1) if most else 0.0
    return Column(hour, value, words, round(index * 100 / HOURS + 0.6, 2), round(92 - height, 1), height)
