"""The labels of the time axis: placed by rule, inside the plot and off each other, whatever a run brings."""

from datetime import UTC, datetime, timedelta
from itertools import combinations, pairwise
from types import SimpleNamespace
from typing import Any, cast

from hypothesis import given, settings
from hypothesis import strategies as st

from console.pages.run.axis import Axis, run_axis
from console.pages.run.events import Event, Tenure
from console.pages.run.rows import RunRows
from console.pages.run.shapes import LONGEST, columns, fitted
from console.pages.run.window import Window

START = datetime(2026, 8, 6, 2, 58, 30, tzinfo=UTC)
NAMES = st.text(max_size=60) | st.sampled_from(
    ["read", "名" * 50, "نص عربي " * 9, "e\u0301" * 80, "\u202eevil\u200b" * 8, "🚆" * 40, "W" * 300, "", "\n\t" * 20]
)
SECONDS = st.one_of(st.floats(0, 60), st.floats(0, 1e6), st.just(0.0))
STATUSES = ("QUEUED", "RUNNING", "WAITING", "HELD", "STOPPING")


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


@st.composite
def events(draw: st.DrawFn) -> list[Event]:
    found = []
    for number in range(draw(st.integers(0, 30))):
        when, name = at(draw(SECONDS)), draw(NAMES)
        until = when + timedelta(seconds=draw(SECONDS)) if draw(st.booleans()) else None
        kind = draw(
            st.sampled_from(
                ["Tool call", "Model call", "Wait", "Decision", "Report", "Control", "Refused", "Checkpoint"]
            )
        )
        call = SimpleNamespace(step_name=name)
        subject = SimpleNamespace(
            tool_call=call, tool_call_id=draw(st.integers(0, 9)), model_call_id=None, phase="READY_TO_DECIDE"
        )
        key = f"wait:{number}" if kind == "Wait" else str(number)
        found.append(
            Event(
                key, when, kind, name, name or "x", subject, until=until, going=until is None, revision=number, fence=1
            )
        )
    return sorted(found, key=lambda event: event.at)


@st.composite
def moves(draw: st.DrawFn) -> list[Any]:
    times = sorted(draw(st.lists(SECONDS, max_size=12)))
    return [
        SimpleNamespace(at=at(seconds), to_status=draw(st.sampled_from(STATUSES)), cause="ACQUIRED")
        for seconds in times
    ]


def drawn(found: list[Event], moved: list[Any], name: str, *, live: bool, fold: bool) -> Axis:
    rows = cast("RunRows", SimpleNamespace(run=SimpleNamespace(ended_at=None), head=SimpleNamespace(revision=3)))
    window = Window(found, [], moved, None, None, None, later=False, whole=None)
    held = [Tenure(name, 1, one.at, two.at, takeover=True) for one, two in pairwise(moved) if one.at < two.at]
    now = max([event.at for event in found] + [move.at for move in moved], default=START) + timedelta(seconds=5)
    return run_axis(rows, window, held, now, picked="0", fold=fold, follows=live)


@settings(max_examples=150, deadline=None)
@given(events(), moves(), NAMES, st.booleans(), st.booleans())
def test_no_label_leaves_the_plot_or_runs_into_another(
    found: list[Event], moved: list[Any], name: str, live: bool, fold: bool
) -> None:
    axis = drawn(found, moved, name, live=live, fold=fold)
    for lane in axis.lanes:
        for label in lane.labels:
            assert label.start >= -1.5 and label.end <= 102, (lane.name, label)
        for one, other in combinations(lane.labels, 2):
            apart = abs(one.y - other.y) >= 10
            assert apart or one.end <= other.start or other.end <= one.start, (lane.name, one, other)


@settings(max_examples=60, deadline=None)
@given(events(), moves(), st.booleans())
def test_no_clock_stands_on_another(found: list[Event], moved: list[Any], live: bool) -> None:
    ticks = drawn(found, moved, "w", live=live, fold=True).ticks
    assert all(abs(one[1] - other[1]) >= 7 for one, other in combinations(ticks, 2))


@given(NAMES)
def test_a_label_is_never_longer_than_it_may_be(name: str) -> None:
    assert columns(fitted(name)) <= LONGEST
