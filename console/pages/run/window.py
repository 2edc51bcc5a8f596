"""A window of what happened in a run: the newest events, those up to an instant or those after one, by keyset.

Instants are ordered by time, then by the table they are of, then by the row, so that turning pages neither skips nor
repeats an event, however many happen at once or come in meanwhile.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import F, Q, QuerySet, TextField, Value
from django.db.models.functions import Cast

from accounts.statements import together
from approvals.models import Wait
from checkpoints.models import Checkpoint, SaveAttempt
from console.pages.run import events as shown
from console.pages.run.events import Event
from receipts.models import Attempt, Publication, Reconciliation, ReportVersion
from runs.models import ControlRequest, Refusal, Run, RunTransition

SIZES = (25, 50, 100, 200)  # events of a window: the nearer one looks, the fewer
SIZE = 100
CARRIED = 20  # moves and stretches that reach into a window from before it
COLUMNS = 96  # of the picture of the whole run

Rows = QuerySet[Any]
Placed = tuple[datetime, int, str]


@dataclass(frozen=True)
class Instant:
    """Where an event stands among all events of its run."""

    at: datetime
    rank: int
    name: str

    def __str__(self) -> str:
        return f"{self.at.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ}~{self.rank}~{self.name}"


def instant_of(text: str) -> Instant | None:
    """An instant as `str()` writes it; None for anything else."""
    moment, _, place = text.partition("~")
    rank, _, name = place.partition("~")
    try:
        at = datetime.strptime(moment, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC)
        return Instant(at, int(rank), name) if len(name) <= 64 and "\0" not in name else None
    except ValueError:
        return None


@dataclass(frozen=True)
class Source:
    """Events of one kind: where their rows are, when they happened, and what they read as.

    `named` finds the rows that the rest of a key names; it raises ValueError where it names none.
    """

    kind: str
    rows: Callable[[Run], Rows]
    clock: str
    named: Callable[[Sequence[str]], Q]
    event: Callable[[Any], Event]
    only: Q = Q()


def _attempts(kind: str) -> Callable[[Run], Rows]:
    def rows(run: Run) -> Rows:
        tried = Attempt.objects.filter(**{f"{kind}__run": run})
        return tried.select_related("tool_call", "model_call").defer("tool_call__args")

    return rows


def _waits(run: Run) -> Rows:
    return Wait.objects.filter(run=run).select_related("tool_call", "decision").defer("tool_call__args")


def _publications(run: Run) -> Rows:
    away = Publication.objects.filter(report_version__run=run).exclude(channel="console")
    return away.select_related("report_version")


def _verdicts(run: Run) -> Rows:
    return Reconciliation.objects.filter(tool_call__run=run).select_related("tool_call").defer("tool_call__args")


def _id(rest: Sequence[str]) -> Q:
    return Q(pk=UUID(rest[0]))


def _number(rest: Sequence[str]) -> Q:
    return Q(pk=_counted(rest[0]))


def _counted(text: str) -> int:
    """A number of a key. Raises ValueError for one that no row has."""
    number = int(text)
    if not 0 <= number < 2**31:
        raise ValueError(text)
    return number


def _tried(receipt: str) -> Callable[[Sequence[str]], Q]:
    """`<call>` or `<call>:<attempt>`; the newest attempt where none is named."""

    def named(rest: Sequence[str]) -> Q:
        of = Q(**{receipt: UUID(rest[0])})
        return of & Q(attempt_no=_counted(rest[1])) if rest[1:] else of

    return named


def _control(stage: str) -> Source:
    def event(row: ControlRequest) -> Event:
        return shown.control_event(row, stage)

    def rows(run: Run) -> Rows:
        return ControlRequest.objects.filter(run=run)

    return Source(stage, rows, f"{stage}_at", _id, event, Q(**{f"{stage}_at__isnull": False}))


SOURCES: tuple[Source, ...] = (
    Source("move", lambda run: RunTransition.objects.filter(run=run), "at", _number, shown.status_event),
    Source(
        "rev",
        lambda run: Checkpoint.objects.filter(run=run).defer("body"),
        "created_at",
        lambda rest: Q(revision=_counted(rest[0])),
        shown.checkpoint_event,
    ),
    Source("turn", _attempts("model_call"), "dispatched_at", _tried("model_call"), shown.attempt_event),
    Source("call", _attempts("tool_call"), "dispatched_at", _tried("tool_call"), shown.attempt_event),
    Source("wait", _waits, "opened_at", _id, shown.wait_event),
    Source("decision", _waits, "decision__at", _id, shown.decision_event, Q(decision__isnull=False)),
    Source("closed", _waits, "closed_at", _id, shown.closed_event, Q(status__in=shown.CLOSED, closed_at__isnull=False)),
    Source("report", lambda run: ReportVersion.objects.filter(run=run), "committed_at", _id, shown.version_event),
    Source("publication", _publications, "changed_at", _id, shown.publication_event),
    _control("accepted"),
    _control("adopted"),
    _control("settled"),
    Source("refusal", lambda run: Refusal.objects.filter(run=run), "at", _number, shown.refusal_event),
    Source("save", lambda run: SaveAttempt.objects.filter(run=run, kind=None), "at", _id, shown.lost_save_event),
    Source("verdict", _verdicts, "at", _id, shown.verdict_event),
)


@dataclass(frozen=True)
class Window:
    """Some events of a run, the oldest first, and what reaches into them from before.

    `first` and `last` are where it begins and ends; `earlier` is the place before it, `later` whether there is one after it.
    `moves` are the transitions of the window with those before it that say how the run stood when it begins.
    """

    events: list[Event]
    carried: list[Event]
    moves: list[RunTransition]
    first: Instant | None
    last: Instant | None
    earlier: Instant | None
    later: bool


def window_of(
    run: Run, *, size: int, key: str = "", upto: Instant | None = None, after: Instant | None = None
) -> Window:
    """The newest events of a run that `access_run` has given out; or those up to an instant, or after one.

    Where `key` names an event that is in none of these, the window around it. One query finds the events, whatever the
    run holds, and one reads their rows.
    """
    places, later = _places(run, size, upto, after)
    found = _locate(run, key) if key else None
    if found is None or found in (Instant(*place) for place in places[-size:]):
        return _read(run, places, size, later=later)
    beyond = _instants(run, size // 2 + 1, after=found)
    end = Instant(*beyond[: size // 2][-1]) if beyond[: size // 2] else found
    around, _ = _places(run, size, end, None)
    return _read(run, around, size, later=len(beyond) > size // 2)


def named_key(asked: str, events: Iterable[Event]) -> str:
    """The whole key of an asked one: a call without its attempt means its newest attempt among `events`."""
    keys = [event.key for event in events]
    return next((key for key in reversed(keys) if key == asked or key.startswith(f"{asked}:")), "")


def _places(run: Run, size: int, upto: Instant | None, after: Instant | None) -> tuple[list[Placed], bool]:
    """At most `size` places and one more before them, oldest first, and whether there are later ones."""
    if after is not None:
        found = _instants(run, size + 1, after=after)
        if len(found) > size:
            end = Instant(*found[size - 1])
            return _instants(run, size + 1, upto=end), True
    elif upto is not None:
        return _instants(run, size + 1, upto=upto), bool(_instants(run, 1, after=upto))
    return _instants(run, size + 1), False


def _instants(run: Run, limit: int, *, upto: Instant | None = None, after: Instant | None = None) -> list[Placed]:
    """The newest places up to one that is counted in, or the oldest after one that is not. The oldest first."""
    sign = "" if after else "-"
    order = [f"{sign}moment", f"{sign}rank", f"{sign}name"]
    parts = [
        _ranked(source, rank, run)
        .filter(_beyond(rank, after) if after else _until(rank, upto))
        .order_by(*order)[:limit]
        for rank, source in enumerate(SOURCES)
    ]
    found: list[Placed] = list(parts[0].union(*parts[1:], all=True).order_by(*order)[:limit])
    return found if after else found[::-1]


def _ranked(source: Source, rank: int, run: Run) -> Rows:
    rows = source.rows(run).filter(source.only).select_related(None).defer(None)
    placed: Rows = rows.annotate(moment=F(source.clock), rank=Value(rank), name=Cast("pk", TextField()))
    return placed.values_list("moment", "rank", "name")


def _until(rank: int, end: Instant | None) -> Q:
    if end is None:
        return Q()
    if rank != end.rank:
        return Q(moment__lte=end.at) if rank < end.rank else Q(moment__lt=end.at)
    return Q(moment__lt=end.at) | Q(moment=end.at, name__lte=end.name)


def _beyond(rank: int, start: Instant) -> Q:
    return ~_until(rank, start)


def _locate(run: Run, key: str) -> Instant | None:
    """Where the event stands that a key names; None if there is none."""
    kind, *rest = key.split(":")
    for rank, source in enumerate(SOURCES):
        if source.kind != kind or not rest:
            continue
        try:
            rows = _ranked(source, rank, run).filter(source.named(rest))
        except ValueError:
            return None
        place = rows.order_by("-moment", "-name").first()
        return Instant(*place) if place else None
    return None


def _read(run: Run, found: Sequence[Placed], size: int, *, later: bool) -> Window:
    """The window of the last `size` places that were found; one more says that there are earlier ones."""
    places, earlier = found[-size:], Instant(*found[-size - 1]) if len(found) > size else None
    reaching = _reaching(run, Instant(*places[0])) if earlier else []
    events = _events(run, [*reaching, *places])
    before, inside = events[: len(reaching)], events[len(reaching) :]
    return Window(
        events=inside,
        carried=[event for event in before if not isinstance(event.subject, RunTransition)],
        moves=[event.subject for event in events if isinstance(event.subject, RunTransition)],
        first=Instant(*places[0]) if places else None,
        last=Instant(*places[-1]) if places else None,
        earlier=earlier,
        later=later,
    )


def _events(run: Run, places: Sequence[Placed]) -> list[Event]:
    """The events at some places, in their order. One query, whatever their kinds."""
    names: dict[int, list[str]] = {}
    for _, rank, name in places:
        names.setdefault(rank, []).append(name)
    if not names:
        return []
    found = together(*(SOURCES[rank].rows(run).filter(pk__in=wanted) for rank, wanted in names.items()))
    rows = {rank: {str(row.pk): row for row in some} for rank, some in zip(names, found, strict=True)}
    return [SOURCES[rank].event(rows[rank][name]) for _, rank, name in places]


def _reaching(run: Run, first: Instant) -> list[Placed]:
    """What reaches into a window from before it: the newest moves, and attempts and waits that lasted into it."""
    ends = {"move": "", "turn": "finished_at", "call": "finished_at", "wait": "closed_at"}
    parts = [
        _ranked(source, rank, run)
        .filter(_lasting(ends[source.kind], first.at))
        .exclude(_beyond(rank, first))
        .exclude(Q(name=first.name) if rank == first.rank else Q(pk__in=[]))
        .order_by("-moment", "-name")[:CARRIED]
        for rank, source in enumerate(SOURCES)
        if source.kind in ends
    ]
    return list(parts[0].union(*parts[1:], all=True).order_by("moment", "rank", "name"))


def _lasting(end: str, start: datetime) -> Q:
    return Q(**{f"{end}__isnull": True}) | Q(**{f"{end}__gte": start}) if end else Q()


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


def whole_of(run: Run) -> Whole | None:
    """How many events a run has, and when. None for a run without any. Two queries."""
    parts = [_ranked(source, rank, run).order_by() for rank, source in enumerate(SOURCES)]
    sql, params = parts[0].union(*parts[1:], all=True).query.sql_with_params()
    with connection.cursor() as cursor:
        cursor.execute(_BUCKETS.format(sql), [*params, COLUMNS, COLUMNS])
        rows = cursor.fetchall()
    if not rows:
        return None
    start, end = rows[0][2], rows[0][3]
    counts = {bucket: count for bucket, count, _, _ in rows}
    step = (end - start) / COLUMNS
    ends = [start + step * number for number in range(1, COLUMNS)] + [end]
    last = len(SOURCES)
    columns = [
        Column(counts.get(number, 0), until, str(Instant(until, last, ""))) for number, until in enumerate(ends, 1)
    ]
    return Whole(start, end, sum(counts.values()), columns)


# The last moment belongs to the last column, and a run of one moment has one column.
_BUCKETS = """
WITH placed AS MATERIALIZED ({}), span AS (SELECT min(moment) AS lo, max(moment) AS hi FROM placed)
SELECT CASE WHEN lo = hi THEN 1 ELSE least(%s, 1 + floor(%s * extract(epoch FROM moment - lo)
       / extract(epoch FROM hi - lo))::int) END AS bucket, count(*), min(lo), max(hi)
FROM placed, span GROUP BY bucket, lo, hi ORDER BY bucket
"""
