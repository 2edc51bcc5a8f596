"""What the URL of a run page asks for, and where its links lead: other windows, nearer or wider, following or frozen."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest

from console.pages.inbox.filter import came_from
from console.pages.run.places import COLUMNS, Instant, Whole, instant_of
from console.pages.run.window import SIZE, SIZES, Window

BEGINNING = Instant(datetime(1970, 1, 1, tzinfo=UTC), 0, "")
TALL = 26  # px of the tallest column of the picture of the whole run


@dataclass(frozen=True)
class Look:
    """What the URL asks for: the event to look at, which window of events, how many of them, and whether idle time folds.

    Without `upto` and `after` the page follows the newest events. `inbox` is the filter of the inbox that one came from.
    """

    at: str = ""
    upto: Instant | None = None
    after: Instant | None = None
    size: int = SIZE
    fold: bool = True
    inbox: str = ""

    @property
    def follows(self) -> bool:
        return self.upto is None and self.after is None

    def url(self, **changed: Any) -> str:
        """The query string of this look with some of it changed; what is the default stays out."""
        look = replace(self, **changed)
        asked = {
            "at": look.at,
            "upto": str(look.upto or ""),
            "after": str(look.after or ""),
            "size": str(look.size) if look.size != SIZE else "",
            "fold": "" if look.fold else "0",
            "inbox": look.inbox,
        }
        return "?" + urlencode({key: value for key, value in asked.items() if value}, safe=":~")

    def url_at(self, key: str) -> str:
        """As `url(at=key)`: the same at another event, for pages that lead to hundreds of them."""
        return f"?{urlencode({'at': key}, safe=':~')}{self._rest}"

    @cached_property
    def _rest(self) -> str:
        rest = self.url(at="")[1:]
        return rest and f"&{rest}"


def look_of(request: HttpRequest) -> Look:
    """What is asked for. What can't be read asks for the newest events."""
    asked = request.GET
    size = next((size for size in SIZES if str(size) == asked.get("size")), SIZE)
    return Look(
        at=asked.get("at", ""),
        upto=instant_of(asked.get("upto", "")),
        after=instant_of(asked.get("after", "")),
        size=size,
        fold=asked.get("fold") != "0",
        inbox=came_from(request).query,
    )


@dataclass(frozen=True)
class Turns:
    """Where the links around the axis lead; empty where there is nothing."""

    oldest: str
    earlier: str
    later: str
    newest: str
    closer: str
    wider: str
    follow: str
    freeze: str
    folded: str
    linear: str


def turns_of(look: Look, window: Window) -> Turns:
    """The links of a look at a window. Zooming keeps the event that is looked at, else the end of the window."""
    here = {"upto": None, "after": None} if look.at else {}
    nearer = [size for size in SIZES if size < look.size]
    wider = [size for size in SIZES if size > look.size]
    return Turns(
        oldest=_turned(look, after=BEGINNING) if window.earlier else "",
        earlier=_turned(look, upto=window.earlier) if window.earlier else "",
        later=_turned(look, after=window.last) if window.later else "",
        newest="" if look.follows else _turned(look),
        closer=look.url(size=nearer[-1], **here) if nearer and len(window.events) > nearer[0] else "",
        wider=look.url(size=wider[0], **here) if wider and (window.earlier or window.later) else "",
        follow=_turned(look),
        freeze=look.url(upto=window.last, after=None) if window.last else "",
        folded=look.url(fold=True),
        linear=look.url(fold=False),
    )


def _turned(look: Look, **place: Any) -> str:
    return look.url(**{"at": "", "upto": None, "after": None, **place})


@dataclass(frozen=True)
class Bar:
    """One column of the picture: x and width in percent, y and height in px, and where it leads."""

    x: float
    width: float
    y: float
    height: float
    title: str
    url: str


@dataclass(frozen=True)
class Picture:
    """The whole run: how many events fell when, and which part of it the axis shows (`x` and `width` in percent)."""

    whole: Whole
    bars: list[Bar]
    x: float
    width: float


def picture_of(look: Look, window: Window) -> Picture | None:
    """The picture beside a window that does not show the whole run; None beside one that does. Heights go by the root, so that few are still seen."""
    whole = window.whole if window.earlier or window.later else None
    if whole is None or window.first is None or window.last is None:
        return None
    most = max(column.count for column in whole.columns)
    rest = _turned(look)[1:]
    step = 100 / COLUMNS
    bars = []
    for number, column in enumerate(whole.columns):
        if column.count:
            height = max(2.0, round(TALL * (column.count / most) ** 0.5, 1))
            upto = f"?upto={column.upto}{rest and f'&{rest}'}"
            place = round(step * number, 2), round(step * 0.8, 2), round(TALL - height, 1), height
            title = f"{column.count:,} event{'' if column.count == 1 else 's'} up to {column.until:%H:%M:%S} UTC"
            bars.append(Bar(*place, title, upto))
    start, end = (_share(whole, moment) for moment in (window.first.at, window.last.at))
    return Picture(whole, bars, start, round(max(0.6, end - start), 2))


def _share(whole: Whole, moment: datetime) -> float:
    length = (whole.end - whole.start).total_seconds() or 1.0
    return round(100 * min(1.0, max(0.0, (moment - whole.start).total_seconds() / length)), 2)
