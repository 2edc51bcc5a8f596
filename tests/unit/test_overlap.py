"""Weight overlap: by hand, by property, and on real disclosures where these are at hand."""

import os
from decimal import Decimal
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.tools.disclosure import read
from runtime.tools.disclosure.decimals import total
from runtime.tools.overlap import overlap

FUNDS = Path(os.environ.get("FUND_DISCLOSURES", Path(__file__).parents[3] / "shared" / "data" / "funds"))

TICKERS = st.sampled_from([*"ABCDEFGH", "BRK.B", "BRKB", "GOOG", "GOOGL"])
WEIGHTS = st.decimals(min_value=-5, max_value=100, places=4, allow_nan=False)
FUND = st.dictionaries(TICKERS, WEIGHTS, max_size=12)


def fund(**weights: str) -> dict[str, Decimal]:
    return {ticker: Decimal(weight) for ticker, weight in weights.items()}


def test_the_smaller_weight_of_each_shared_ticker_is_summed() -> None:
    result = overlap(fund(A="10.1", B="0.2", C="5"), fund(A="0.3", B="0.2", D="7"))
    assert result.weight == Decimal("0.5")
    assert [pair.ticker for pair in result.shared] == ["A", "B"]
    assert result.only_a == (("C", Decimal(5)),)
    assert result.only_b == (("D", Decimal(7)),)


def test_it_is_exact_where_floats_are_not() -> None:
    assert overlap(fund(A="0.1", B="0.2"), fund(A="0.1", B="0.2")).weight == Decimal("0.3")


def test_share_classes_do_not_match_and_spellings_are_named() -> None:
    result = overlap({"GOOG": Decimal(1), "BRK.B": Decimal(1)}, {"GOOGL": Decimal(1), "BRKB": Decimal(1)})
    assert result.shared == ()
    assert result.look_alikes == (("BRK.B", "BRKB"),)


def test_what_is_held_short_is_not_shared() -> None:
    result = overlap(fund(A="-1", B="2"), fund(A="3", B="2"))
    assert (result.weight, result.short) == (Decimal(2), ("A",))


@given(FUND, FUND)
def test_it_is_symmetric_and_never_more_than_either_fund(a: dict[str, Decimal], b: dict[str, Decimal]) -> None:
    result, mirrored = overlap(a, b), overlap(b, a)
    assert result.weight == mirrored.weight
    assert [pair.ticker for pair in result.shared] == [pair.ticker for pair in mirrored.shared]
    assert (result.only_a, result.only_b) == (mirrored.only_b, mirrored.only_a)
    held_long = [total(weight for weight in side.values() if weight > 0) for side in (a, b)]
    assert 0 <= result.weight <= min(held_long)


@given(FUND)
def test_a_fund_shares_all_that_it_holds_with_itself(a: dict[str, Decimal]) -> None:
    assert overlap(a, a).weight == total(weight for weight in a.values() if weight > 0)


@given(FUND, FUND)
def test_every_ticker_is_in_exactly_one_group(a: dict[str, Decimal], b: dict[str, Decimal]) -> None:
    result = overlap(a, b)
    named = [pair.ticker for pair in result.shared] + [ticker for ticker, _ in (*result.only_a, *result.only_b)]
    assert sorted([*named, *result.short]) == sorted(a.keys() | b.keys())


@pytest.mark.parametrize(
    ("a", "b", "weight", "count"),
    [
        ("ARKK", "ARKW", "65.08", 22),
        ("ARKK", "ARKF", "31.06", 12),
        ("ARKW", "ARKF", "36.74", 18),
        ("ARKK", "ARKQ", "25.86", 12),
    ],
)
def test_real_disclosures(a: str, b: str, weight: str, count: int) -> None:
    paths = [FUNDS / f"{name}-2021-09-08.csv" for name in (a, b)]
    if not all(path.exists() for path in paths):
        pytest.skip("The real disclosures are not on this machine (FUND_DISCLOSURES names their folder).")
    for one, other in permutations(paths):
        sides = [{x.ticker: x.weight for x in read(path.read_bytes()).holdings} for path in (one, other)]
        result = overlap(*sides)
        assert (result.weight, len(result.shared)) == (Decimal(weight), count)
