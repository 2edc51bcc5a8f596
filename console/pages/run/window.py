"""A window of what happened in a run: the newest events, those up to an instant or those after one, by keyset."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from accounts.statements import together
from console.pages.run.events import Event
from console.pages.run.places import NEWEST, Instant, Placed, Places, Whole, locate, places_of
from console.pages.run.sources import SOURCES
from runs.models import Run, RunTransition

SIZES = (25, 50, 100, 200)  # events of a window: the nearer one looks, the fewer
SIZE = 100


@dataclass(frozen=True)
class Window:
    """Some events of a run, the oldest first, and what reaches into them from before.

    `first` and `last` are where it begins and ends; `earlier` is the place before it, `later` whether there is one after it.
    `whole` is the picture of the run
    that it is a part of, and `moves` are the transitions of the window with those before it that say how the run stood when it begins.
    """

    events: list[Event]
    carried: list[Event]
    moves: list[RunTransition]
    first: Instant | None
    last: Instant | None
    earlier: Instant | None
    later: bool
    whole: Whole | None


def window_of(
    run: Run, *, size: int, key: str = "", upto: Instant | None = None, after: Instant | None = None
) -> Window:
    """The newest events of a run that `access_run` has given out; or those up to an instant, or after one.

    Where `key` names an event that is in none of these, the window around it. One query finds the events and counts those of the
    whole run, whatever it holds, and one reads their rows.
    """
    places = places_of(run, size, after, size) if after else places_of(run, size, upto or NEWEST)
    found = locate(run, key) if key else None
    if found is not None and found not in (Instant(*place) for place in places.shown):
        places = places_of(run, size, found, size // 2)
    return _read(places)


def named_key(asked: str, events: Iterable[Event]) -> str:
    """The whole key of an asked one: a call without its attempt means its newest attempt among `events`."""
    keys = [event.key for event in events]
    return next((key for key in reversed(keys) if key == asked or key.startswith(f"{asked}:")), "")


def _read(places: Places) -> Window:
    events = _events([*places.reaching, *places.shown])
    before, inside = events[: len(places.reaching)], events[len(places.reaching) :]
    return Window(
        events=inside,
        carried=[event for event in before if not isinstance(event.subject, RunTransition)],
        moves=[event.subject for event in events if isinstance(event.subject, RunTransition)],
        first=Instant(*places.shown[0]) if places.shown else None,
        last=Instant(*places.shown[-1]) if places.shown else None,
        earlier=places.earlier,
        later=places.later,
        whole=places.whole,
    )


def _events(places: Sequence[Placed]) -> list[Event]:
    """The events at some places of a run, in their order. One query, whatever their kinds; by their keys alone, since a condition
    on the run would have the server read all that it holds.
    """
    names: dict[int, list[str]] = {}
    for _, rank, name in places:
        names.setdefault(rank, []).append(name)
    if not names:
        return []
    found = together(*(SOURCES[rank].rows().filter(pk__in=wanted) for rank, wanted in names.items()))
    rows = {rank: {str(row.pk): row for row in some} for rank, some in zip(names, found, strict=True)}
    return [SOURCES[rank].event(rows[rank][name]) for _, rank, name in places]
