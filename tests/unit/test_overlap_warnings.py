"""What may make an overlap wrong is said in its result and at the top of the report, never silently."""

from decimal import Decimal
from typing import Any

import pytest

from runtime.tools.holdings import overlap_value
from runtime.tools.identifiers import Fund, doubts, without_exchange
from runtime.tools.overlap import overlap
from runtime.tools.registry import TOOLS
from tests.unit.agent_runs import InMemoryRun

DRAFT = {"version": 1, "title": "Overlap", "summary": "They share a holding."}


def side(fund: str, **weights: str) -> dict[str, Any]:
    holdings = [{"ticker": ticker, "name": "", "weight": weight} for ticker, weight in weights.items()]
    return {"fund": fund, "as_of": "2026-06-30", "holdings": holdings, "without_ticker": []}


def compared(a: dict[str, Any], b: dict[str, Any]) -> dict[str, Any]:
    weights = ({x["ticker"]: Decimal(x["weight"]) for x in each["holdings"]} for each in (a, b))
    return overlap_value(overlap(*weights), a, b)


def report(a: str, b: str) -> str:
    head = "fund,date,ticker,name,weight (%)\n"
    rows = {
        name: head + "".join(f"{fund},2026-06-30,{line}\n" for line in text.split())
        for name, fund, text in (("a", "LARCH", a), ("b", "MAPLE", b))
    }
    run = InMemoryRun(inputs={name: text.encode() for name, text in rows.items()})
    run.call("read_disclosure", input="a")
    run.call("read_disclosure", input="b")
    run.call("compute_overlap")
    draft = TOOLS["send_answer_part"].run(run.context(), run.complete("send_answer_part", **DRAFT)).report
    assert draft is not None
    return draft.body


@pytest.mark.parametrize(
    ("ticker", "bare"),
    [
        ("AAPL US", "AAPL"),
        ("AAPL UW EQUITY", "AAPL"),
        ("VOD LN", "VOD"),
        ("BRK/B US EQUITY", "BRK/B"),
        ("AAPL.O", "AAPL"),
        ("VOD.L", "VOD"),
        ("700:HK", "700"),
        ("NASDAQ:AAPL", "AAPL"),
        ("AAPL", None),
        ("300014", None),
    ],
)
def test_the_exchange_of_a_ticker(ticker: str, bare: str | None) -> None:
    assert without_exchange(ticker) == bare


def test_suffixes_are_counted_from_either_side_and_not_matched() -> None:
    a, b = Fund("LARCH", {"AAPL US", "MSFT UW EQUITY", "XOM"}), Fund("MAPLE", {"AAPL", "MSFT", "CVX"})
    for pair in ((a, b), (b, a)):
        (sentence,) = doubts(*pair)
        assert "2 of 3 tickers of LARCH look like tickers of MAPLE with an exchange added (AAPL US, AAPL)" in sentence


def test_different_exchanges_in_both_files_are_counted_and_share_classes_are_not() -> None:
    (sentence,) = doubts(Fund("A", {"AAPL US", "BRK.A"}), Fund("B", {"AAPL.O", "BRK.B"}))
    assert "1 of 2 tickers of A look like tickers of B with another exchange (AAPL US, AAPL.O)" in sentence


@pytest.mark.parametrize(
    ("number", "kind"),
    [("US0378331005", "ISINs"), ("BBG000B9XRY4", "FIGIs"), ("037833100", "CUSIPs"), ("2046251", "SEDOLs")],
)
def test_numbers_instead_of_tickers_are_counted(number: str, kind: str) -> None:
    (sentence,) = doubts(Fund("A", {number, "MSFT"}), Fund("B", {"AAPL", "MSFT"}))
    assert f"1 of 2 tickers of A look like {kind} ({number}); B has none" in sentence


def test_files_that_name_shares_alike_raise_no_doubt() -> None:
    assert doubts(Fund("A", {"US0378331005", "AAPL US"}), Fund("B", {"US5949181045", "MSFT US"})) == []
    assert doubts(Fund("A", {"GOOG", "BRK.B", "6060"}), Fund("B", {"GOOGL", "BRK.A", "300014 C2"})) == []


def test_doubts_stand_in_the_result_and_at_the_top_of_the_report() -> None:
    value = compared(side("LARCH", **{"AAPL US": "60"}), side("MAPLE", AAPL="50"))
    assert value["overlap"] == "0"
    assert value["notes"] == value["warnings"]
    body = report("AAPL.O,APPLE,60 US5949181045,MICROSOFT,40", "AAPL,APPLE,60 MSFT,MICROSOFT,40")
    top = body.partition("## The two disclosures")[0]
    assert "**Check this first:** [1 of 2 tickers of LARCH" in top
    assert "look like ISINs" in top
    assert body.count("look like ISINs") == 1


def test_an_overlap_above_a_whole_fund_stands_at_the_top() -> None:
    top = report("AAA,ALPHA,120 BBB,BETA,80", "AAA,ALPHA,130 BBB,BETA,75").partition("## The two disclosures")[0]
    assert "The overlap is 195 %, more than a whole fund" in top
    assert "The weights of LARCH" in top
    assert "add up to 200 %" in top
    assert "add up to 205 %" in top


def test_weights_above_zero_are_added_up_without_those_below() -> None:
    value = compared(side("LARCH", AAA="130", BBB="-30"), side("", CCC="100"))
    assert len(value["warnings"]) == 1
    assert "The weights of LARCH (A) add up to 130 % (those below zero left out)" in value["warnings"][0]


def test_funds_that_raise_no_doubt_have_no_warnings() -> None:
    assert compared(side("LARCH", AAA="60", BBB="40"), side("MAPLE", AAA="50", CCC="50"))["warnings"] == []
    assert "Check this first" not in report("AAA,ALPHA,60 BBB,BETA,40", "AAA,ALPHA,50 CCC,GAMMA,50")
