"""The time axis: events and a scale turned into bars, marks and labels for one SVG. x in percent, y in px. Pure."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from console.pages.run.events import Event, Tenure, attempt_name
from console.pages.run.rows import RunRows
from console.pages.run.scale import Scale, scale_of
from console.pages.run.shapes import LONGEST, Bar, Label, Lane, Mark, Station, fitted, width_of
from console.pages.run.window import Window
from console.pages.times import span
from console.pages.words import PHASE
from runs.models import RunTransition

NEAR = 3.2  # stations and marks nearer than this are drawn as one
TRACK = 22
MAX_TRACKS = 8
CLOCK = 7.0  # percent that a time of day takes over the axis, and half of what the length of a fold takes
FOLD_LABEL = 2.4
HALF_SIGN = 1.0  # percent of the narrowest plot
SAID = 6  # things that the title of one sign names


@dataclass(frozen=True)
class Axis:
    """Everything that the template draws."""

    scale: Scale
    lanes: list[Lane]
    height: int
    now_x: float | None
    cursor_x: float | None

    @property
    def ticks(self) -> list[tuple[datetime, float]]:
        """Round times and where they stand, none under the clock of now or under the length of a fold."""
        taken = [piece.x + piece.width / 2 for piece in self.scale.folds]
        free = [
            (at, x) for at, x in self.scale.ticks() if all(abs(middle - x) > CLOCK / 2 + FOLD_LABEL for middle in taken)
        ]
        return [(at, x) for at, x in free if self.now_x is None or x + CLOCK / 2 < 100 - CLOCK]

    @property
    def folds(self) -> list[tuple[float, float, list[str], bool]]:
        """Where it begins, its width, its length in words, one unit a line, and whether they have room beside the clock."""
        return [
            (round(p.x, 2), round(p.width, 2), _lines(span(p.length)), p.width >= 3 and self._clear(p.x + p.width / 2))
            for p in self.scale.folds
        ]

    def _clear(self, middle: float) -> bool:
        return self.now_x is None or middle + FOLD_LABEL < 100 - CLOCK

    @property
    def length(self) -> str:
        return span(self.scale.end - self.scale.start)


def _lines(words: str) -> list[str]:
    parts = words.split()
    return [" ".join(parts[i : i + 2]) for i in range(0, len(parts), 2)]


HEADER = 36


def run_axis(
    rows: RunRows,
    window: Window,
    tenures: Sequence[Tenure],
    now: datetime,
    *,
    picked: str,
    fold: bool,
    follows: bool,
) -> Axis:
    """The axis of a window. `now` closes what is still going on; where nothing new comes, the last event closes it."""
    events = window.events
    live = follows and rows.run.ended_at is None
    end = now if live else max((e.until or e.at for e in events), default=now)
    scale = _scale(events, end, live, fold)
    draw = Drawing(scale, end, live, picked, goes_on=live or window.later)
    drawn = [*window.carried, *events]
    lanes = [
        draw.status(window.moves),
        draw.lease(tenures, events),
        draw.checkpoints(rows, events),
        draw.attempts(drawn, "Model call", "Model calls", ""),
        draw.attempts(drawn, "Tool call", "Tool calls", "by attempt"),
        draw.waits(drawn),
        draw.moments(events, {"Report"}, "Reports"),
        draw.moments(events, {"Control", "Verdict"}, "Control"),
    ]
    height = HEADER
    for lane in lanes:
        lane.top = height
        height += lane.height
    chosen = next((event for event in events if event.key == picked), None)
    return Axis(scale, lanes, height, scale.x(end) if live else None, scale.x(chosen.at) if chosen else None)


def _scale(events: Sequence[Event], end: datetime, live: bool, fold: bool) -> Scale:
    moments = [e.at for e in events] + [e.until for e in events if e.until] + ([end] if live else [])
    start = min(moments, default=end)
    busy = [(e.at, e.until or end) for e in events if e.kind in ("Tool call", "Model call")]
    return scale_of([m for m in moments if m <= end] or [start], busy, fold=fold)


class Drawing:
    """Draws the lanes of one axis."""

    def __init__(self, scale: Scale, end: datetime, live: bool, picked: str, *, goes_on: bool) -> None:
        self.scale, self.end, self.live, self.picked, self.goes_on = scale, end, live, picked, goes_on

    def _bar(self, event: Event, y: float, height: float, shape: str) -> Bar:
        x, width = self.reach(event.at, event.until)
        return Bar(x, width, y, height, shape, event.what, event.key, event.key == self.picked)

    def reach(self, start: datetime, end: datetime | None) -> tuple[float, float]:
        """Where a stretch begins, and its width; what has no end reaches to the end of the axis."""
        x = self.scale.x(start)
        return x, round(max(0.3, self.scale.x(min(end or self.end, self.end)) - x), 2)

    def status(self, moves: Sequence[RunTransition]) -> Lane:
        lane = Lane("Status", "", 36)
        labels: list[tuple[float, Label]] = []
        for move, after in zip(moves, [*moves[1:], None], strict=False):
            going = after is None and self.live
            until = after.at if after else (self.end if self.goes_on else move.at)
            if until < self.scale.start:
                continue
            x, width = self.reach(move.at, until)
            words = move.to_status.capitalize() + (f", {span(until - move.at)}" if until > move.at else "")
            shapes = _STATUS_SHAPES if going else _PAST_SHAPES
            lane.bars.append(Bar(x, width, 22, 6, shapes.get(move.to_status, "bar bar--light"), words))
            labels.append(
                (math.inf if going else width, self._beside(x, words, 15, weight="t-strong" if going else ""))
            )
        lane.labels = _uncrowded(labels)
        return lane

    def lease(self, tenures: Sequence[Tenure], events: Sequence[Event]) -> Lane:
        lane = Lane("Lease", "holder, fence", 48)
        shown = [t for t in tenures if (t.end or self.end) > self.scale.start]
        for tenure in shown:
            x, width = self.reach(max(tenure.start, self.scale.start), tenure.end)
            fence = f"fence {tenure.fence}"
            words = f"{tenure.owner}, {fence}"
            lane.bars.append(Bar(x, width, 8, 13, "bar--light bar", words))
            whole = fitted(tenure.owner, LONGEST - len(fence) - 2), f", {fence}"
            room = [(text, tail) for text, tail in (whole, (fence, "")) if width_of(text + tail) + 2 <= width]
            for text, tail in room[:1]:
                lane.labels.append(Label(x, 12 if tenure.takeover else 4, 18, text, "start", "t-strong t-on", tail))
            if tenure.takeover:
                lane.marks.append(Mark(x, 14.5, "takeover", "caution", f"Takeover by {words}"))
        refused = [e for e in events if e.kind == "Refused"]
        labels: list[tuple[float, Label]] = []
        for group in self._near(refused):
            first = group[0]
            title = first.short if len(group) == 1 else f"{len(group)} writes refused"
            lane.marks.append(Mark(self.scale.x(first.at), 34, "refused", "stop", title, first.key, self._has(group)))
            labels.append((0.0, self._beside(self.scale.x(first.at), title, 38, gap=10)))
        lane.labels += _uncrowded(_clear_of(lane.marks, labels))
        return lane

    def _beside(self, x: float, words: str, y: float, *, gap: int = 0, weight: str = "") -> Label:
        """A label right of `x`; left of it, and of the line of now, where there is no room on the right."""
        right = Label(x, gap, y, words, "start", weight)
        edge = self.scale.x(self.end) if self.live else 100.0
        if right.end <= edge:
            return right
        return Label(min(x, edge) if gap else edge, -gap or -6, y, words, "end", weight)

    def _has(self, group: Iterable[Event]) -> bool:
        return any(event.key == self.picked for event in group)

    def _near(self, events: Sequence[Event], *, spread: bool = False) -> Iterator[list[Event]]:
        """Events in order, those that would be drawn over each other as one group. One that may `spread` is drawn as a
        range and goes on for as long as the next one is near; another one has a single sign, at its first event.
        """
        group: list[Event] = []
        for event in events:
            if group and self.scale.x(event.at) - self.scale.x(group[-1 if spread else 0].at) > NEAR:
                yield group
                group = []
            group.append(event)
        if group:
            yield group

    def checkpoints(self, rows: RunRows, events: Sequence[Event]) -> Lane:
        lane = Lane("Checkpoints", "revisions", 36)
        saved = [e for e in events if e.kind == "Checkpoint"]
        head = rows.head.revision if rows.head else 0
        for group in self._near(saved, spread=True):
            first, last = group[0].revision, group[-1].revision
            text = str(first) if first == last else f"{first}–{last}"
            title = f"Revision {text}, {PHASE[group[-1].subject.phase]}"
            chosen = self._has(group)
            start, end = self.scale.x(group[0].at), self.scale.x(group[-1].at)
            lane.stations.append(Station(start, end, 18, text, title, group[-1].key, last == head, chosen))
        lane.rails = [(a.x, b.x) for a, b in pairwise(lane.stations)]
        if lane.stations and self.live:
            lane.rails.append((lane.stations[-1].x, self.scale.x(self.end)))
        return lane

    def attempts(self, events: Sequence[Event], kind: str, name: str, note: str) -> Lane:
        lane = Lane(name, note, 36 if note else 30)
        tracks = _Tracks(self)
        for tries in _by_call(event for event in events if event.kind == kind):
            track, label = tracks.place(tries)
            y = 10 + track * TRACK
            for event in tries:
                lane.bars.append(self._bar(event, y, 9, _attempt_shape(event)))
                lane.bars += self._tail(event, y)
            if label is not None:
                lane.labels.append(label)
        lane.height = max(lane.height, 8 + TRACK * tracks.used)
        return lane

    def _tail(self, event: Event, y: float) -> list[Bar]:
        """What may still land is drawn behind now, to the edge."""
        if not (event.going and self.live and event.may_land and event.may_land > self.end):
            return []
        x = self.scale.x(self.end)
        return [Bar(x, round(100 - x, 2), y, 9, "bar--tail bar", "may still answer")]

    def waits(self, events: Sequence[Event]) -> Lane:
        lane = Lane("Waits", "and decisions", 44)
        labels: list[tuple[float, Label]] = []
        found = [event for event in events if event.kind in ("Wait", "Decision")]
        for event in found:
            if event.key.startswith("wait:"):
                lane.bars.append(self._bar(event, 10, 12, "bar bar--caution" if event.going else "bar--light bar"))
        for kind in ("Wait", "Decision"):
            for group in self._near([event for event in found if event.kind == kind]):
                mark = self._mark(group, 16)
                lane.marks.append(mark)
                words = _together(group)
                right = mark.x + width_of(words) > 100
                labels.append((mark.x, Label(mark.x, 4 if right else -4, 38, words, "end" if right else "start")))
        lane.labels = _uncrowded(labels)
        return lane

    def _mark(self, group: Sequence[Event], y: float) -> Mark:
        """One sign for events near each other: that of the newest, which it leads to, where the first one is."""
        last = group[-1]
        told = [event.what for event in group[-SAID:]]
        more = [f"{len(group) - SAID} before"] if len(group) > SAID else []
        title = "; ".join(more + told)
        return Mark(self.scale.x(group[0].at), y, last.icon, last.lamp, title, last.key, self._has(group))

    def moments(self, events: Sequence[Event], kinds: set[str], name: str) -> Lane:
        lane = Lane(name, "", 30)
        labels: list[tuple[float, Label]] = []
        for group in self._near([e for e in events if e.kind in kinds]):
            mark = self._mark(group, 15)
            lane.marks.append(mark)
            words = _together(group)
            right = mark.x + width_of(words) + 2 > 100
            labels.append((mark.x, Label(mark.x, -12 if right else 12, 19, words, "end" if right else "start")))
        lane.labels = _uncrowded(_clear_of(lane.marks, labels))
        return lane


def _uncrowded(labels: list[tuple[float, Label]]) -> list[Label]:
    """The labels that do not run into each other; where two would, the one with the greater worth stays."""
    kept: list[Label] = []
    for _, label in sorted(labels, key=lambda pair: -pair[0]):
        inside = label.start >= -1 and label.end <= 102
        if inside and all(label.end <= other.start or label.start >= other.end for other in kept):
            kept.append(label)
    return kept


def _clear_of(marks: Sequence[Mark], labels: Iterable[tuple[float, Label]]) -> list[tuple[float, Label]]:
    """The labels that no sign of their lane stands on."""
    half = HALF_SIGN
    return [pair for pair in labels if not any(pair[1].start - half < m.x < pair[1].end + half for m in marks)]


def _together(group: Sequence[Event]) -> str:
    """The label of events that are drawn as one: each word once, with how often."""
    times = Counter(event.short for event in group)
    return fitted(", ".join(words if count == 1 else f"{count} × {words}" for words, count in times.items()))


_STATUS_SHAPES = {
    "QUEUED": "bar bar--light",
    "RUNNING": "bar bar--clear",
    "WAITING": "bar bar--caution",
    "HELD": "bar bar--stop",
    "STOPPING": "bar bar--stop",
}
_PAST_SHAPES = {"RUNNING": "bar", "STOPPING": "bar"}


def _attempt_shape(event: Event) -> str:
    if event.going:
        return "bar bar--clear"
    return "bar--unknown bar" if event.lamp == "unknown" else "bar bar--stop" if event.lamp == "stop" else "bar"


def _by_call(attempts: Iterable[Event]) -> list[list[Event]]:
    """The attempts of each call together, calls in the order of their first one."""
    calls: dict[object, list[Event]] = {}
    for event in attempts:
        calls.setdefault(event.subject.tool_call_id or event.subject.model_call_id, []).append(event)
    return list(calls.values())


class _Tracks:
    """Lays calls under each other so that neither bars nor labels overlap. All attempts of a call share its track."""

    def __init__(self, drawing: Drawing) -> None:
        self.drawing = drawing
        self.ends: list[float] = []

    @property
    def used(self) -> int:
        return len(self.ends)

    def place(self, tries: list[Event]) -> tuple[int, Label | None]:
        """The track of a call and its label: right of its last attempt, left of its first, or above. None where every
        track is taken: then it shares one, and its name is in the list of events.
        """
        first, last = tries[0], tries[-1]
        left = self.drawing.reach(first.at, first.until)[0]
        right = sum(self.drawing.reach(last.at, last.until))
        times = f", {len(tries)} attempts" if len(tries) > 1 else ""
        name = fitted(attempt_name(first.subject), LONGEST - len(times))
        need = width_of(name + times) + 1
        after = right + need <= 100
        start = left if after else max(0.0, left - need)
        track = self._free(start)
        shared = self.ends[track] > start
        self.ends[track] = max(self.ends[track], right + (need if after else 0.5))
        y, weight = 18 + track * TRACK, "t-strong" if last.going else ""
        if shared:
            return track, None
        if after:
            return track, Label(round(right, 2), 4, y, name, "start", weight, times)
        if left >= need:
            return track, Label(left, -4, y, name, "end", weight, times)
        return track, Label(left, 0, y - 10, name, "start", weight, times)

    def _free(self, start: float) -> int:
        track = next((i for i, end in enumerate(self.ends) if end <= start), len(self.ends))
        if track == len(self.ends) and track < MAX_TRACKS:
            self.ends.append(0.0)
        return track if track < MAX_TRACKS else min(range(MAX_TRACKS), key=lambda i: self.ends[i])
