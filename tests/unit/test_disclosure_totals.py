"""Lines that sum up others: passed over where they add up, refused where they don't, never counted twice."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.tools.disclosure import DisclosureRefused, read

LINES = "ticker,name,weight (%)\nAAA,ALPHA,60\nBBB,BETA,39.9\n"


def tickers(text: str) -> list[str]:
    return [holding.ticker for holding in read(text.encode()).holdings]


@pytest.mark.parametrize(
    "cells",
    [
        "TOTAL,Total,100.00",
        "Total,,100",
        ",Total,99.9",
        "-,Grand total,100",
        ",Total Holdings (2),100",
        "Total Holdings (2),,100",
        "Sum,,100",
        "Summe,,99.9",
        ",Gesamt:,100",
        ",Gesamtsumme,100",
        "Net assets,,100",
        ",Total net assets,100",
        "Portfolio total,,100",
        ",Total général,100",
        "Totale,,100",
        ",*** TOTAL ***,100",
        ",合計,100",
        "ARKK,Total,100",
        "ALPHA FUND INC,Total,100",
        "Total,ALPHA FUND,100",
        "SUM,ALPHA FUND,99.9",
    ],
)
def test_a_total_is_no_position_wherever_its_word_stands(cells: str) -> None:
    disclosure = read(f"{LINES}{cells}\n".encode())
    assert [line.ticker for line in disclosure.lines] == ["AAA", "BBB"]
    assert disclosure.total_weight == Decimal("99.9")
    assert any("Line 4 is a total" in note for note in disclosure.notes)


def test_a_total_in_a_file_without_names() -> None:
    assert tickers("ticker,weight (%)\nAAA,60\nBBB,40\nTotal,100\n") == ["AAA", "BBB"]


def test_a_total_above_its_lines() -> None:
    assert tickers("ticker,name,weight (%)\nTotal,,100\nAAA,ALPHA,60\nBBB,BETA,40\n") == ["AAA", "BBB"]


def test_a_total_of_fractions() -> None:
    assert tickers("ticker,name,weight\nAAA,ALPHA,0.6\nBBB,BETA,0.4\nTotal,,1\n") == ["AAA", "BBB"]


def test_a_total_without_the_percent_sign_that_the_others_have() -> None:
    assert tickers("ticker,name,weight\nAAA,ALPHA,60%\nBBB,BETA,40%\nTotal,,100\n") == ["AAA", "BBB"]


def test_a_total_of_market_values() -> None:
    text = 'ticker,name,market value\nAAA,ALPHA,"$1,000"\nBBB,BETA,"$2,000"\nTotal,,"$3,000"\n'
    assert tickers(text) == ["AAA", "BBB"]


def test_a_total_without_a_weight() -> None:
    assert tickers("ticker,name,shares,weight (%)\nAAA,ALPHA,1,100\nTotal,,1,\n") == ["AAA"]


def test_totals_of_sections_add_up_by_section() -> None:
    text = (
        "ticker,name,weight (%)\nAAA,ALPHA,10\nBBB,BETA,5\n,Energy Total,15\n"
        "CCC,GAMMA,85\n,Total Technology,85\n,Grand Total,100\n"
    )
    disclosure = read(text.encode())
    assert [line.ticker for line in disclosure.lines] == ["AAA", "BBB", "CCC"]
    assert disclosure.total_weight == 100


def test_a_total_of_100_over_lines_that_are_not_is_said() -> None:
    notes = read(b"ticker,name,weight (%)\nAAA,ALPHA,60\nBBB,BETA,30\nTotal,,100\n").notes
    assert any("It says 100, but the lines add up to 90." in note for note in notes)


@pytest.mark.parametrize(
    "cells", ["Total,,87", ",Total,87", "-,Net assets,87", "ARKK,Grand total,87", "Total,ALPHA,87"]
)
def test_a_total_that_does_not_add_up_is_refused(cells: str) -> None:
    with pytest.raises(
        DisclosureRefused, match=r"looks like a total of 87, but the other lines add up to 99\.9"
    ) as refused:
        read(f"{LINES}{cells}\n".encode())
    assert refused.value.line == 4


@pytest.mark.parametrize(
    "cells", ["SUM,SUMMIT MATERIALS,0.1", "TTE,TOTAL,0.1", "TTE,TOTAL SE,0.1", "VTI,VANGUARD TOTAL STOCK MARKET,0.1"]
)
def test_companies_with_such_names_are_holdings(cells: str) -> None:
    assert tickers(f"{LINES}{cells}\n")[2:] == [cells.partition(",")[0]]


def test_a_swap_without_a_ticker_is_no_total() -> None:
    disclosure = read(f"{LINES},TOTAL RETURN SWAP,0.1\n".encode())
    assert [line.name for line in disclosure.without_ticker] == ["TOTAL RETURN SWAP"]


@pytest.mark.parametrize("cells", ["XYZ,UNHEARD OF,100", ",Ergebnis,99.9", ",,100"])
def test_a_line_that_weighs_all_the_others_is_refused_whatever_it_is_called(cells: str) -> None:
    with pytest.raises(DisclosureRefused, match="as much as all the other lines together") as refused:
        read(f"{LINES}{cells}\n".encode())
    assert refused.value.line == 4


def test_half_a_fund_in_one_line_is_no_total() -> None:
    assert tickers("ticker,name,weight (%)\nAAA,ALPHA,50\nBBB,BETA,25\nCCC,GAMMA,25\n") == ["AAA", "BBB", "CCC"]
    assert tickers("ticker,name,market value\nAAA,ALPHA,1\nBBB,BETA,2\nCCC,GAMMA,3\n") == ["AAA", "BBB", "CCC"]
    with pytest.raises(DisclosureRefused, match="as much as all the other lines together"):
        read(b"ticker,name,market value\nAAA,ALPHA,1\nBBB,BETA,2\n,NOBODY KNOWS,3\n")


def test_a_leveraged_fund_is_read_and_said_first() -> None:
    disclosure = read(b"ticker,name,weight (%)\nAAA,ALPHA,120\nBBB,BETA,80\n")
    assert disclosure.total_weight == 200
    assert "200 %, far above 100 %" in disclosure.notes[0]


@given(
    st.lists(st.decimals(min_value="0.01", max_value=20, places=2), min_size=2, max_size=12),
    st.sampled_from(["Total,", ",Total", "Total,Total", ",Grand total", "Summe,", ",Total général", "Net assets,"]),
)
def test_a_total_changes_nothing(weights: list[Decimal], cells: str) -> None:
    text = "ticker,name,weight (fraction)\n"
    text += "".join(f"T{index},NAME,{weight / 100}\n" for index, weight in enumerate(weights))
    plain, summed = read(text.encode()), read(f"{text}{cells},{sum(weights) / 100}\n".encode())
    assert summed.lines == plain.lines
