"""The last 24 hours as series of hourly columns."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import connection

from accounts.states import Actor, Permission
from console.pages.times import span
from runs.states import BudgetUnit

# Where the amounts of a unit stand in an allowance.
TOKENS, MICROS = (list(BudgetUnit).index(unit) + 1 for unit in (BudgetUnit.TOKENS, BudgetUnit.USD_MICROS))
HEIGHT = 84.0
HOURS = 24

# What the runs that ended in an hour used, and how old the oldest wait was when the hour ended, or is now.
_SERIES = """
WITH hours AS (
    SELECT h, least(h + interval '1 hour', clock_timestamp()) AS until
    FROM generate_series(date_trunc('hour', clock_timestamp()) - interval '23 hours',
        date_trunc('hour', clock_timestamp()), interval '1 hour') h),
ended AS (
    SELECT date_trunc('hour', r.ended_at) AS h, count(*) AS runs, sum(a.spent[%(tokens)s]) AS tokens,
        sum(a.spent[%(micros)s]) AS micros
    FROM runs_run r JOIN runs_allowance a ON a.run_id = r.id
    WHERE r.tenant_id = %(tenant)s AND r.ended_at >= (SELECT min(h) FROM hours) GROUP BY 1),
waits AS (
    (SELECT opened_at, NULL::timestamptz AS closed_at FROM approvals_wait
     WHERE tenant_id = %(tenant)s AND status = 'OPEN' ORDER BY opened_at LIMIT 1)
    UNION ALL
    SELECT opened_at, closed_at FROM approvals_wait
    WHERE tenant_id = %(tenant)s AND closed_at >= (SELECT min(h) FROM hours)),
oldest AS (
    SELECT hours.h, extract(epoch FROM hours.until - min(w.opened_at)) AS seconds
    FROM hours JOIN waits w ON w.opened_at < hours.until AND (w.closed_at IS NULL OR w.closed_at >= hours.until)
    GROUP BY hours.h, hours.until)
SELECT hours.h, coalesce(ended.runs, 0)::float, coalesce(oldest.seconds, 0)::float, coalesce(ended.tokens, 0)::float,
    coalesce(ended.micros, 0)::float
FROM hours LEFT JOIN ended USING (h) LEFT JOIN oldest USING (h) ORDER BY hours.h"""


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


def charts(actor: Actor) -> list[Chart]:
    """Runs ended with what they used, and the oldest wait, hour by hour; nothing without the permission to read."""
    if not actor.may(Permission.READ):
        return []
    with connection.cursor() as cursor:
        cursor.execute(_SERIES, {"tenant": actor.tenant_id, "tokens": TOKENS, "micros": MICROS})
        hours, ended, oldest, tokens, micros = zip(*cursor.fetchall(), strict=True)
    return [
        _chart("Runs ended", hours, ended, _whole, total=True),
        _chart("Oldest wait", hours, oldest, _length, total=False),
        _chart("Tokens of ended runs", hours, tokens, _whole, total=True),
        _chart("Spend of ended runs", hours, micros, _money, total=True),
    ]


def _whole(value: float) -> str:
    return f"{value:,.0f}".replace(",", "\u202f")


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
    return Chart(title, figure, f"most {words(most)}", "in 24 h" if total else "now", columns)


def _column(index: int, hour: datetime, value: float, most: float, words: str) -> Column:
    height = round(HEIGHT * value / most, 1) if most else 0.0
    return Column(hour, value, words, round(index * 100 / HOURS + 0.6, 2), round(92 - height, 1), height)
