"""Make the cases: what happened before, then the runs that they are about, in an order that is not that of the sheet."""

from collections.abc import Callable, Collection

from tests.cases.agents import BEFORE, NOW
from tests.cases.catalogue import CASES
from tests.cases.house import House, house_of, under
from tests.pages.driven import Outside


def prepare(
    outside: Outside,
    *,
    password: str | None,
    only: Collection[int] = frozenset(CASES),
    say: Callable[[str], None] = lambda _: None,
) -> House:
    """The house with these cases in it. Runs are driven in this process."""
    numbers = sorted(only)
    with under(outside, BEFORE):
        house = house_of(outside, password)
        for number in numbers:
            past = CASES[number].past
            if past is not None:
                past(house)
        say("What happened before is there.")
    with under(outside, NOW):
        for number in reversed(numbers):
            house.made[number] = CASES[number].build(house)
            say(f"Case {number} is there.")
    return house
