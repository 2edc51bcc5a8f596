"""Time to x: a scale in percent of the plot, linear where something happens, folded where nothing does. Pure."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import pairwise

LEFT, RIGHT = 2.0, 95.5  # percent; what may still land is drawn beyond RIGHT
FOLD_WIDTH = 4.0
FOLDS_WIDTH = 40.0  # all folds together take at most this much
SHORTEST_FOLD = timedelta(seconds=8)
LONGEST_BUSY = timedelta(seconds=60)
TICK_GAP = 9.0  # percent between two tick labels at least
TICK_STEPS = [
    timedelta(seconds=s) for s in (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400)
]

FEW = 4  # moments

Span = tuple[datetime, datetime]
Stretch = tuple[datetime, datetime, bool]


@dataclass(frozen=True)
class Piece:
    """One stretch of time and where it lies on the plot."""

    start: datetime
    end: datetime
    x: float
    width: float
    folded: bool

    @property
    def length(self) -> timedelta:
        return self.end - self.start

    def at(self, moment: datetime) -> float:
        share = (moment - self.start) / self.length if self.length else 0.0
        return self.x + self.width * min(1.0, max(0.0, share))


@dataclass(frozen=True)
class Scale:
    """Pieces in order, without gaps."""

    pieces: tuple[Piece, ...]

    @property
    def start(self) -> datetime:
        return self.pieces[0].start

    @property
    def end(self) -> datetime:
        return self.pieces[-1].end

    @property
    def folds(self) -> list[Piece]:
        return [piece for piece in self.pieces if piece.folded]

    def x(self, moment: datetime) -> float:
        """Percent from the left. Moments outside the scale sit at its ends."""
        index = bisect_right(self._starts, moment) - 1
        return round(self.pieces[max(0, index)].at(moment), 2)

    @cached_property
    def _starts(self) -> list[datetime]:
        return [piece.start for piece in self.pieces]

    def ticks(self) -> list[tuple[datetime, float]]:
        """Round times in the linear pieces, far enough from each other for their labels."""
        linear = [piece for piece in self.pieces if not piece.folded and piece.length]
        if not linear:
            return []
        per_percent = sum((p.length for p in linear), timedelta()) / sum(p.width for p in linear)
        step = next((s for s in TICK_STEPS if s >= per_percent * TICK_GAP), TICK_STEPS[-1])
        placed: list[tuple[datetime, float]] = []
        for piece in linear:
            for moment in _round_times(piece, step):
                if not placed or self.x(moment) - placed[-1][1] >= TICK_GAP:
                    placed.append((moment, self.x(moment)))
        return placed


def _round_times(piece: Piece, step: timedelta) -> Iterable[datetime]:
    epoch = datetime(2000, 1, 1, tzinfo=UTC)
    moment = epoch + -(-(piece.start - epoch) // step) * step
    while moment < piece.end:
        yield moment
        moment += step


def scale_of(moments: Iterable[datetime], busy: Sequence[Span], *, fold: bool = True) -> Scale:
    """A scale over `moments` (at least one). Stretches between two of them fold when nothing of `busy` covers them.

    Where hardly anything has happened there is nothing that a fold would make room for.
    """
    points = sorted(set(moments))
    if len(points) == 1:
        points.append(points[0] + timedelta(seconds=1))
    fold = fold and len(points) >= FEW
    stretches = [(start, end, fold and _is_idle(start, end, busy)) for start, end in pairwise(points)]
    worth = max(SHORTEST_FOLD, sum((e - s for s, e, idle in stretches if not idle), timedelta()) / 5)
    folded = [(s, e, idle and e - s > worth) for s, e, idle in stretches]
    return Scale(tuple(_lay_out(_fold_overlong(folded) if fold else folded)))


def _fold_overlong(stretches: list[Stretch]) -> list[Stretch]:
    """Fold what would push everything else to the edge: a busy stretch, in which nothing else happens, far longer than
    all the rest together.
    """
    linear = sum((e - s for s, e, folded in stretches if not folded), timedelta())

    def is_overlong(start: datetime, end: datetime) -> bool:
        length = end - start
        return length > LONGEST_BUSY and length > 3 * (linear - length) and linear > length

    return [(s, e, folded or is_overlong(s, e)) for s, e, folded in stretches]


def _is_idle(start: datetime, end: datetime, busy: Sequence[Span]) -> bool:
    return end - start > SHORTEST_FOLD and not any(s < end and e > start for s, e in busy)


def _lay_out(stretches: list[Stretch]) -> Iterable[Piece]:
    folds = sum(1 for *_, folded in stretches if folded)
    fold_width = min(FOLD_WIDTH, FOLDS_WIDTH / folds) if folds else 0.0
    linear = sum(((e - s).total_seconds() for s, e, folded in stretches if not folded), 0.0)
    per_second = (RIGHT - LEFT - folds * fold_width) / linear if linear else 0.0
    x = LEFT
    for start, end, folded in stretches:
        width = fold_width if folded else (end - start).total_seconds() * per_second
        yield Piece(start, end, x, width, folded)
        x += width
