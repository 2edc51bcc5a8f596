"""The scale of the time axis: in order, within the plot, folded only where nothing happens."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from console.pages.run.scale import LEFT, RIGHT, TICK_GAP, scale_of

START = datetime(2026, 8, 6, 2, 58, 30, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=40), st.booleans())
def test_later_is_never_left_of_earlier(seconds: list[float], fold: bool) -> None:
    moments = sorted(at(s) for s in seconds)
    scale = scale_of(moments, [], fold=fold)
    places = [scale.x(moment) for moment in moments]
    assert places == sorted(places)
    assert places[0] >= LEFT
    assert places[-1] <= RIGHT + 0.01


@given(st.lists(st.floats(0, 1e6), min_size=2, max_size=40))
def test_tick_labels_keep_their_distance(seconds: list[float]) -> None:
    ticks = scale_of([at(s) for s in seconds], []).ticks()
    places = [x for _, x in ticks]
    assert all(b - a >= TICK_GAP for a, b in pairwise(places))


def test_a_long_wait_folds_and_says_its_length() -> None:
    scale = scale_of([at(0), at(20), at(44), at(1000), at(1017)], [(at(0), at(44)), (at(1000), at(1017))])
    (fold,) = scale.folds
    assert (fold.start, fold.end) == (at(44), at(1000))
    assert scale.x(at(1000)) - scale.x(at(44)) < 5


def test_true_length_folds_nothing() -> None:
    assert scale_of([at(0), at(10), at(1000)], [], fold=False).folds == []


def test_a_call_in_flight_is_not_folded_unless_it_crushes_the_rest() -> None:
    busy = [(at(5), at(100))]
    assert scale_of([at(0), at(5), at(10), at(40), at(100)], busy).folds == []
    (fold,) = scale_of([at(0), at(5), at(10), at(15), at(900)], [(at(15), at(900))]).folds
    assert fold.end == at(900)


def test_a_single_moment_has_a_scale() -> None:
    assert scale_of([START], []).x(START) == LEFT


def test_nothing_folds_where_hardly_anything_has_happened() -> None:
    """A run that is only queued: its wait is all there is to see."""
    for moments in ([at(0), at(300)], [at(0), at(0.1), at(300)]):
        scale = scale_of(moments, [])
        assert scale.folds == []
        assert (scale.x(moments[0]), scale.x(moments[-1])) == (LEFT, RIGHT)
