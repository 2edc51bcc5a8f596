"""Values against those that people have approved before: look-alikes, moved points, larger numbers, what was never there."""

from collections import Counter
from decimal import Decimal

import pytest

from approvals.policies import Masked
from console.pages.decision.alike import (
    apart,
    are_numbers,
    counted,
    is_amount,
    is_steady,
    larger,
    moved_point,
    nearest,
    number,
    short_values,
)


@pytest.mark.parametrize(
    ("one", "other", "found"),
    [
        ("", "", 0),
        ("abc", "abc", 0),
        ("abc", "abd", 1),
        ("abc", "ab", 1),
        ("abcd", "badc", None),
        ("abcd", "abdc", 2),
        ("a", "bcde", None),
    ],
)
def test_how_far_two_texts_are_apart(one: str, other: str, found: int | None) -> None:
    assert apart(one, other) == apart(other, one) == found


@pytest.mark.parametrize(
    ("value", "how"),
    [
        ("DE02120300000000220051", "2 characters have changed places"),
        ("DE02120300000000202052", "1 character differs"),
        ("DE0212030000000020205\u200b1", "1 character differs"),
        ("DE021203000000002020", "2 characters differ"),
    ],
)
def test_what_could_be_taken_for_an_approved_value_is_named(value: str, how: str) -> None:
    near = nearest(value, {"DE02120300000000202051": 12, "DE99999999999999999999": 40})
    assert near is not None and (near.value, near.times, near.how) == ("DE02120300000000202051", 12, how)


@pytest.mark.parametrize("value", ["DE02120300000000202051", "DE99", "FR76300060000112345678"])
def test_what_was_approved_or_is_short_or_far_looks_like_nothing(value: str) -> None:
    assert nearest(value, {"DE02120300000000202051": 12, "DE98": 5}) is None


def test_a_value_that_was_approved_once_is_no_measure() -> None:
    assert nearest("invoice-18", {"invoice-17": 1}) is None


def test_values_that_come_back_are_steady_and_running_numbers_are_not() -> None:
    assert is_steady(Counter({"a": 3, "b": 1}))
    assert not is_steady(Counter({"a": 1, "b": 1, "c": 1}))
    assert not is_steady(Counter({"a": 1}))
    assert not is_steady({})


def test_values_are_counted_by_their_place() -> None:
    assert counted([{"a": "1", "b": "x"}, {"a": "1"}, {"a": "2"}]) == {"a": {"1": 2, "2": 1}, "b": {"x": 1}}


def test_only_short_leaves_that_are_shown_to_everybody_are_compared() -> None:
    arguments = {
        "a": "x",
        "n": 3,
        "long": "x" * 500,
        "lines": "a\nb",
        "no": None,
        "yes": True,
        "m": Masked("masked x"),
        "l": ["y"],
    }
    assert short_values(arguments) == {"a": "x", "n": "3", "l[0]": "y"}


@pytest.mark.parametrize(
    ("text", "amount"),
    [("1250.00", True), ("412", True), ("DE12", False), ("370400440532", False), ("", False), ("NaN", False)],
)
def test_a_long_row_of_digits_is_a_name_and_not_an_amount(text: str, amount: bool) -> None:
    assert is_amount(text) == amount


def test_numbers_are_read_as_they_stand() -> None:
    assert number("1840.50") == Decimal("1840.50")
    assert [number(text) for text in ("1_000", " 12", "Infinity", "twelve", "1,5")] == [None] * 5


@pytest.mark.parametrize("text", ["1e999999999", "1e-999999999", "0e999999999", "9" * 26, "1." + "0" * 30])
def test_a_number_that_nobody_could_reckon_with_is_not_taken_for_one(text: str) -> None:
    """Written out, the first of them alone would fill the memory."""
    assert number(text) is None


def test_what_is_no_number_where_all_were_numbers_is_told_of() -> None:
    assert are_numbers({"12.00": 1, "13.50": 1})
    assert not are_numbers({"12.00": 1, "twelve": 1})
    assert not are_numbers({})


@pytest.mark.parametrize(
    ("now", "then", "said"),
    [
        ("18405.00", "1840.50", "10 times"),
        ("2.5", "250", "a 100th part of"),
        ("1841", "1840.50", ""),
        ("0", "0", ""),
        ("0", "5", ""),
    ],
)
def test_a_moved_point_is_told_from_another_amount(now: str, then: str, said: str) -> None:
    assert moved_point(Decimal(now), Decimal(then)) == said


def test_a_number_that_is_larger_than_any_is_told_with_the_way_there() -> None:
    before = [Decimal(one) for one in ("9007199254740993", "9007199254740995", "9007199254740997")]
    said = larger(Decimal(9007199254749099), before)
    assert said == "8102 more than the last one, which was 9007199254740997; before, it went by +2 each time"
    assert (
        larger(Decimal(5), [Decimal(3), Decimal(4), Decimal(2)])
        == "3 more than the last one, which was 2; the most so far was 4"
    )
    assert larger(Decimal(4), [Decimal(3), Decimal(4)]) == ""
    assert larger(Decimal(4), []) == ""
