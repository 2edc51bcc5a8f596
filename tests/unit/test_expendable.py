"""Which bodies retention lets go: the policy, what is bound, and what a kept one is rebuilt from."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpoints.states import Encoding, StoredBody, expendable

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def bodies(count: int, *, full_every: int = 5, a_day: int = 1000) -> list[StoredBody]:
    """Revisions 1 to count, a full one every so many, so many on each day."""
    return [
        StoredBody(
            n,
            Encoding.FULL if (n - 1) % full_every == 0 else Encoding.DELTA,
            NOON + timedelta(days=(n - 1) // a_day),
            100,
        )
        for n in range(1, count + 1)
    ]


def going(stored: list[StoredBody], latest: int = 1, *, daily: bool = False, bound: tuple[int, ...] = ()) -> list[int]:
    return [body.revision for body in expendable(stored, latest=latest, daily=daily, bound=bound)]


@pytest.mark.parametrize(
    ("count", "latest", "bound", "goes"),
    [
        (1, 1, (), []),
        (5, 1, (), []),  # the head is rebuilt from the first
        (6, 1, (), [5, 4, 3, 2, 1]),
        (8, 1, (), [5, 4, 3, 2, 1]),
        (8, 3, (), [5, 4, 3, 2, 1]),
        (8, 4, (), []),  # 5 is kept, and it is rebuilt from 1
        (12, 2, (), [10, 9, 8, 7, 6, 5, 4, 3, 2, 1]),
        (12, 2, (8,), [10, 9, 5, 4, 3, 2, 1]),
        (12, 2, (1,), [10, 9, 8, 7, 6, 5, 4, 3, 2]),
        (12, 50, (), []),
        (12, 2, (99,), [10, 9, 8, 7, 6, 5, 4, 3, 2, 1]),
    ],
)
def test_the_newest_the_bound_and_what_they_rest_on_stay(
    count: int, latest: int, bound: tuple[int, ...], goes: list[int]
) -> None:
    assert going(bodies(count), latest, bound=bound) == goes


def test_one_of_each_day_stays_and_rather_one_that_is_stored_in_full() -> None:
    """Days of 4: 1-4, 5-8, 9-12, 13-16. Full are 1, 6, 11 and 16."""
    assert going(bodies(16, a_day=4), daily=True) == [15, 14, 13, 12, 10, 9, 8, 7, 5, 4, 3, 2]
    assert going(bodies(16, a_day=4)) == [15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1]
    assert 14 not in going(bodies(16, full_every=100, a_day=4), daily=True)


@given(
    gone=st.sets(st.integers(1, 60)),
    latest=st.integers(1, 70),
    daily=st.booleans(),
    bound=st.sets(st.integers(1, 60), max_size=4),
    full_every=st.integers(1, 9),
)
def test_whatever_stays_can_be_rebuilt_and_nothing_goes_twice(
    gone: set[int], latest: int, daily: bool, bound: set[int], full_every: int
) -> None:
    stored = bodies(60, full_every=full_every, a_day=7)
    first = expendable(stored, latest=latest, daily=daily, bound=bound)
    kept = [body for body in stored if body not in first]
    numbers = {body.revision for body in kept}
    assert 60 in numbers and bound <= numbers
    assert all(body.encoding == Encoding.FULL or body.revision - 1 in numbers for body in kept)
    assert expendable(kept, latest=latest, daily=daily, bound=bound) == []
    order = [body.revision for body in first]
    assert order == sorted(order, reverse=True)
    part = set(order[: len(gone)])  # a batch that ended in the middle
    rest = [body for body in stored if body.revision not in part]
    again = expendable(rest, latest=latest, daily=daily, bound=bound)
    assert part | {body.revision for body in again} == set(order)
