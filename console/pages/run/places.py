"""Where the events of a run stand in time, found and counted in one pass.

Instants are ordered by time, then by the kind of the event, then by its row, so that turning pages neither skips nor repeats an
event, however many happen at once or come in meanwhile.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import DateTimeField, F, TextField, Value
from django.db.models.functions import Cast

from console.pages.run.sources import SOURCES, Rows, Source
from runs.models import Run

CARRIED = 20  # moves, attempts and waits, each, that reach into a window from before it
ANY_RUN = UUID(int=0)
COLUMNS = 96  # of the picture of the whole run
RANKS = [str(rank) for rank in range(len(SOURCES) + 1)]  # of the kinds, and one past the last for the end of a column

Placed = tuple[datetime, int, str]


@dataclass(frozen=True)
class Instant:
    """Where an event stands among all events of its run."""

    at: datetime
    rank: int
    name: str

    def __str__(self) -> str:
        return f"{self.at.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ}~{self.rank}~{self.name}"


NEWEST = Instant(datetime.max.replace(tzinfo=UTC), 0, "")


def instant_of(text: str) -> Instant | None:
    """An instant as `str()` writes it; None for anything else."""
    moment, _, place = text.partition("~")
    rank, _, name = place.partition("~")
    if rank not in RANKS or len(name) > 64 or "\0" in name:
        return None
    try:
        at = datetime.strptime(moment, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC)
    except ValueError:
        return None
    return Instant(at, int(rank), name)


@dataclass(frozen=True)
class Column:
    """How many events fell into one part of the run's time. `upto` leads to it; it ends at `until`."""

    count: int
    until: datetime
    upto: str


@dataclass(frozen=True)
class Whole:
    """The whole run in columns of equal length, from its first event to its last."""

    start: datetime
    end: datetime
    total: int
    columns: list[Column]


@dataclass(frozen=True)
class Places:
    """Where the events of a window are, the oldest first, and what reaches into them. `earlier`: the place before them; `later`:
    whether there is one after them; `whole`: None for a run without events.
    """

    shown: list[Placed]
    reaching: list[Placed]
    earlier: Instant | None
    later: bool
    whole: Whole | None


def places_of(run: Run, size: int, start: Instant = NEWEST, more: int = 0) -> Places:
    """At most `size` places: the newest, or those up to an instant, or up to the last of so many `more` that come after it."""
    sql, params = _union()
    lasting = [rank for rank, source in enumerate(SOURCES) if source.lasts]
    asked: list[Any] = [
        start.at,
        start.rank,
        start.name,
        more,
        size + 1,
        size,
        size,
        lasting,
        CARRIED,
        COLUMNS,
        COLUMNS - 1,
    ]
    found: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
    with connection.cursor() as cursor:
        cursor.execute(_PLACES.format(sql), [*(run.id if value == ANY_RUN else value for value in params), *asked])
        for what, *row in cursor.fetchall():
            found[what].append(tuple(row))
    newest: list[Placed] = [(at, rank, name) for at, rank, name, _ in sorted(found["newest"], key=lambda row: row[3])]
    return Places(
        shown=newest[:size][::-1],
        reaching=sorted((at, rank, name) for at, rank, name, _ in found["reaching"]),
        earlier=Instant(*newest[size]) if len(newest) > size else None,
        later=bool(found["later"]),
        whole=_whole(found),
    )


def locate(run: Run, key: str) -> Instant | None:
    """Where the event stands that a key names; None if there is none."""
    kind, *rest = key.split(":")
    for rank, source in enumerate(SOURCES):
        if source.kind != kind or not rest:
            continue
        try:
            rows = _ranked(source, rank, run).filter(source.named(rest))
        except ValueError:
            return None
        place = rows.order_by("-moment", "-name").values_list("moment", "rank", "name").first()
        return Instant(*place) if place else None
    return None


@cache
def _union() -> tuple[str, tuple[Any, ...]]:
    """All events of a run, as SQL with its values. It is composed once, for ANY_RUN, whose id stands where that of a run belongs."""
    run = Run(id=ANY_RUN)
    first, *others = [_ranked(source, rank, run).order_by() for rank, source in enumerate(SOURCES)]
    return first.union(*others, all=True).query.sql_with_params()


def _ranked(source: Source, rank: int, run: Run) -> Rows:
    rows = source.rows().filter(source.of(run), source.only).select_related(None).defer(None)
    ended = F(source.end) if source.end else Value(None, DateTimeField())
    placed: Rows = rows.annotate(
        moment=F(source.clock), rank=Value(rank), name=Cast("pk", TextField()), ended=Cast(ended, DateTimeField())
    )
    return placed.values_list("moment", "rank", "name", "ended")


def _whole(found: Mapping[str, Sequence[tuple[Any, ...]]]) -> Whole | None:
    if not found["column"]:
        return None
    [(start, *_)], [(end, *_)] = found["start"], found["end"]
    counts = {number: count for _, number, _, count in found["column"]}
    step = (end - start) / COLUMNS
    ends = [start + step * number for number in range(1, COLUMNS)] + [end]
    last = len(SOURCES)
    columns = [
        Column(counts.get(number, 0), until, str(Instant(until, last, ""))) for number, until in enumerate(ends, 1)
    ]
    return Whole(start, end, sum(counts.values()), columns)


# All events are read once, and everything that is asked of them is taken from that: the window ends at `edge`, and begins with
# `first` where there are earlier ones. The last moment belongs to the last column, and a run of one moment has one column.
_PLACES = """
WITH placed (moment, rank, name, ended) AS MATERIALIZED ({}),
asked (moment, rank, name) AS (VALUES (%s::timestamptz, %s::int, %s::text)),
beyond AS (
    SELECT p.moment, p.rank, p.name FROM placed p, asked a
    WHERE (p.moment, p.rank, p.name) > (a.moment, a.rank, a.name) ORDER BY 1, 2, 3 LIMIT %s),
edge AS (
    SELECT moment, rank, name FROM (SELECT * FROM beyond UNION ALL SELECT * FROM asked) reached
    ORDER BY moment DESC, rank DESC, name DESC LIMIT 1),
newest AS (
    SELECT n.*, row_number() OVER () AS place FROM (
        SELECT p.moment, p.rank, p.name FROM placed p, edge e
        WHERE (p.moment, p.rank, p.name) <= (e.moment, e.rank, e.name) ORDER BY 1 DESC, 2 DESC, 3 DESC LIMIT %s) n),
first AS (
    SELECT * FROM newest WHERE place = %s AND (SELECT count(*) FROM newest) > %s),
reaching AS (
    SELECT r.* FROM first f, unnest(%s::int[]) AS kind, LATERAL (
        SELECT p.moment, p.rank, p.name FROM placed p
        WHERE p.rank = kind AND (p.moment, p.rank, p.name) < (f.moment, f.rank, f.name)
            AND (p.ended IS NULL OR p.ended >= f.moment)
        ORDER BY 1 DESC, 3 DESC LIMIT %s) r),
span AS (SELECT min(moment) AS lo, max(moment) AS hi FROM placed),
bounds AS MATERIALIZED (
    SELECT array_agg(lo + (hi - lo) * n / %s ORDER BY n) AS inner_ones, bool_and(lo = hi) AS is_one
    FROM span, generate_series(1, %s) n),
counted AS (
    SELECT CASE WHEN is_one THEN 1 ELSE 1 + width_bucket(moment, inner_ones) END AS number, count(*) AS events
    FROM placed, bounds GROUP BY number)
SELECT 'newest', moment, rank, name, place FROM newest
UNION ALL SELECT 'reaching', moment, rank, name, 0 FROM reaching
UNION ALL SELECT 'later', moment, rank, name, 0 FROM edge e
    WHERE EXISTS (SELECT FROM placed p WHERE (p.moment, p.rank, p.name) > (e.moment, e.rank, e.name))
UNION ALL SELECT 'column', NULL, number, NULL, events FROM counted
UNION ALL SELECT 'start', lo, NULL, NULL, 0 FROM span UNION ALL SELECT 'end', hi, NULL, NULL, 0 FROM span
"""
