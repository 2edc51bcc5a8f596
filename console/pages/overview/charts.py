"""The last 24 hours as three series of hourly columns."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import connection

from accounts.states import Actor, Permission
from console.pages.times import span

HEIGHT = 84.0
HOURS = 24

_HOURS = """
WITH hours AS (SELECT generate_series(date_trunc('hour', %(now)s::timestamptz) - interval '23 hours',
                                      date_trunc('hour', %(now)s::timestamptz), interval '1 hour') AS h)"""

_ENDED = (
    _HOURS
    + """
SELECT h, count(r.id)::float FROM hours
LEFT JOIN runs_run r ON r.tenant_id = %(tenant)s AND r.ended_at >= h AND r.ended_at < h + interval '1 hour'
GROUP BY h ORDER BY h"""
)

_TOKENS = (
    _HOURS
    + """
SELECT h, coalesce(sum(m.input_tokens + m.output_tokens), 0)::float FROM hours
LEFT JOIN receipts_modelcall m ON m.tenant_id = %(tenant)s AND m.sealed_at >= h AND m.sealed_at < h + interval '1 hour'
GROUP BY h ORDER BY h"""
)

# How old the oldest open wait was when the hour ended, or is now.
_OLDEST = (
    _HOURS
    + """
SELECT h, coalesce(max(extract(epoch FROM least(h + interval '1 hour', %(now)s) - w.opened_at)), 0)::float FROM hours
LEFT JOIN approvals_wait w ON w.tenant_id = %(tenant)s AND w.opened_at < least(h + interval '1 hour', %(now)s)
    AND (w.closed_at IS NULL OR w.closed_at >= least(h + interval '1 hour', %(now)s))
GROUP BY h ORDER BY h"""
)


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

    @property
    def newest_first(self) -> list[Column]:
        return self.columns[::-1]


def charts(actor: Actor, now: datetime) -> list[Chart]:
    """Runs ended, the oldest wait, and tokens used, hour by hour; nothing without the permission to read."""
    if not actor.may(Permission.READ):
        return []
    asked = {"now": now, "tenant": actor.tenant_id}
    ended, oldest, tokens = (_read(sql, asked) for sql in (_ENDED, _OLDEST, _TOKENS))
    return [
        _chart("Runs ended", ended, _whole, total=True),
        _chart("Oldest wait", oldest, _length, total=False),
        _chart("Tokens", tokens, _whole, total=True),
    ]


def _read(sql: str, asked: dict[str, Any]) -> list[tuple[datetime, float]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, asked)
        return list(cursor.fetchall())


def _whole(value: float) -> str:
    return f"{value:,.0f}".replace(",", "\u202f")


def _length(value: float) -> str:
    return span(timedelta(seconds=value))


def _chart(title: str, series: list[tuple[datetime, float]], words: Callable[[float], str], *, total: bool) -> Chart:
    most = max(value for _, value in series)
    columns = [_column(i, hour, value, most, words(value)) for i, (hour, value) in enumerate(series)]
    figure = words(sum(value for _, value in series)) if total else columns[-1].words
    return Chart(title, figure, f"most {words(most)}", "in 24 h" if total else "now", columns)


def _column(index: int, hour: datetime, value: float, most: float, words: str) -> Column:
    height = round(HEIGHT * value / most, 1) if most else 0.0
    return Column(hour, value, words, round(index * 100 / HOURS + 0.6, 2), round(92 - height, 1), height)
