"""What the CSV reader refuses: always with a reason, and with the line wherever there is one."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.contracts import AgentInputRefused
from runtime.tools.disclosure import DisclosureRefused, read

HEAD = "ticker,name,weight (%)\n"


@pytest.mark.parametrize(
    ("data", "line", "reason"),
    [
        (b"", None, "empty"),
        (b" \n\n", None, "empty"),
        (b"\xef\xbb\xbf", None, "empty"),
        (b"\xff\xfe", None, "empty"),
        (b'{"holdings": [{"ticker": "AAA"}]}', None, "looks like JSON"),
        (b'[\n  {"ticker": "AAA", "weight": 1}\n]', None, "looks like JSON"),
        (b"PK\x03\x04rest", None, "Excel workbook"),
        (b"\xd0\xcf\x11\xe0rest", None, "old Excel workbook"),
        (b"%PDF-1.7", None, "PDF"),
        (b"\x1f\x8b\x08", None, "compressed"),
        (b"<!DOCTYPE html><html>", None, "web page"),
        (b"\n <html>", None, "web page"),
        (b"ticker,name,weight (%)\nA\x00A,ALPHA,1\n", 2, "NUL"),
        ("ticker,name,weight\nAAA,ALPHA,1\n".encode("utf-16-le"), 1, "NUL"),
        ("ticker,name,weight\nAAA,ALPHA,1\n".encode("utf-32"), None, "UTF-32"),
        ("ticker,name,weight (%)\nAAA,NESTLÉ,1\nBBB,".encode() + b"NESTL\xc9,2\n", 3, "Mixes"),
        (b"\xef\xbb\xbfticker,name,weight (%)\nAAA,NESTL\xc9,1\n", 2, "not valid UTF-8"),
        (b"\xff\xfet\x00i\x00c\x00k", None, "UTF-16"),
        (b"ticker,name,weight (%)\nAAA,\x81\x8d,1\n", 2, "not valid UTF-8 or Windows-1252"),
        (b"ticker,name,weight (%)\nAAA,AL\x1bPHA,1\n", 2, "control character U+001B"),
        (b"x" * (5 * 1024 * 1024 + 1), None, "5 MiB"),
        (b"\n" * 20_001 + b"x", None, "20,000"),
    ],
)
def test_what_is_no_text(data: bytes, line: int | None, reason: str) -> None:
    with pytest.raises(DisclosureRefused, match=re.escape(reason)) as refused:
        read(data)
    if line is not None:
        assert refused.value.line == line


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("hello\nworld\n", None, "No header row"),
        ("name,weight (%)\nALPHA,1\n", 1, "no ticker column"),
        ("ticker,name,price\nAAA,ALPHA,1\n", 1, "neither a weight nor a market value"),
        (HEAD, 1, "no position"),
        (HEAD + "-,US DOLLAR,100\n", 1, "No line has a ticker"),
        ("ticker,name,weight (%),weight (%)\nAAA,ALPHA,1,2\n", 1, "Two columns"),
        (HEAD + "AAA,ALPHA,abc\n", 2, '"abc" in column "weight (%)" is not a number'),
        (HEAD + "AAA,ALPHA,1\nBBB,BETA,\n", 3, "no number"),
        (HEAD + "AAA,ALPHA,1\nBBB,BETA\n", 3, "2 values, but the header names 3"),
        (HEAD + "AAA,ALPHA,1\nBBB\n", 3, "1 values"),
        (HEAD + "AAA,ALPHA,1\nBBB,BETA, INC,2\n", 3, "not a number"),
        ("ticker,weight (%),name\nAAA,1,ALPHA\nBBB,2,BETA,INC\n", 3, "4 values, but the header names 3"),
        (HEAD + 'AAA,"ALPHA,1\nBBB,BETA,2\n', 2, "quoting is damaged"),
        (HEAD + 'AAA,"ALPHA" INC,1\n', 2, "quoting is damaged"),
        (HEAD + 'AAA,"ALPHA,1\nBBB,BETA",2\n', 2, "runs over the end"),
        ("ticker,weight (%),name\n" + 'AAA,1,"ALPHA\nBBB,2,BETA"\n', 2, "runs over the end"),
        (HEAD + 'AAA,ALPHA,"1,234"\n', 2, "two ways"),
        (HEAD + 'AAA,ALPHA,"4,07"\nBBB,BETA,1.5\n', 3, "decimal point"),
        (HEAD + 'AAA,ALPHA,1.5\nBBB,BETA,"4,07"\n', 3, "decimal comma"),
        (HEAD + 'AAA,ALPHA,"12,34,56.7"\n', 2, "marks do not fit"),
        (HEAD + "AAA,ALPHA,1.2.3.4\n", 2, "marks do not fit"),
        (HEAD + f"AAA,ALPHA,0.{'1' * 31}\n", 2, "more than 30 digits"),
        (HEAD + "AAA,ALPHA,1e40\n", 2, "more than 30 digits"),
        (HEAD + "AAA,ALPHA,5%\nBBB,BETA,6\n", 3, "no percent sign"),
        ("ticker,name,weight\nAAA,ALPHA,3\nBBB,BETA,4\n", 1, "does not say its unit"),
        (HEAD + "AAA,ALPHA,900\nBBB,BETA,900\n", 1, "not weights in percent"),
        ("ticker,name,market value\nAAA,ALPHA,-5\n", 1, "no weights follow"),
        (HEAD + "AAA,ALPHA,1\n" + HEAD + "BBB,BETA,2\n", 3, "first is in line 1. This file holds two tables; keep one"),
        ("Top\n" + HEAD + "AAA,ALPHA,1\n\nAll\nTicker,Name,Sector,Weight (%)\nAAA,ALPHA,X,1\n", 6, "two tables"),
        (HEAD + "AAA,ALPHA,1\n\nName,Weight (%)\nBETA,2\n", 4, "two tables"),
        ("Name,Weight (%)\nALPHA,1\n\n" + HEAD + "AAA,ALPHA,1\n", 4, "two tables"),
        (HEAD + "AAA,ALPHA,0.6\nBBB,BETA,0.4\n", 1, 'They look like fractions: name the column "weight (fraction)"'),
        (HEAD + "AAA,ALPHA,0.6\nBBB,BETA,0.398\n", 1, "says percent, yet its 2 lines add up to 0.998"),
        ("ticker,name,market value\nAAA,ALPHA,$1\nBBB,BETA,€1\n", 3, "in EUR here, but in USD in line 2"),
        ("ticker,name,market value\nAAA,ALPHA,500\nBBB,BETA,1.000\n", 3, "decimal point or thousands"),
        (HEAD + "\u0410APL,APPLE,1\n", 2, '"\u0410" (U+0410 CYRILLIC CAPITAL LETTER A)'),
        (HEAD + "AAA,ALPHA,1\u041e\n", 2, "U+041E CYRILLIC CAPITAL LETTER O"),
        (HEAD + f"{'A' * 33},ALPHA,1\n", 2, "more than 32 characters"),
        (HEAD + ".AAA,ALPHA,1\n", 2, 'starts with "." (U+002E FULL STOP)'),
        (HEAD + "AAA,ALPHA,1\n\nSee the prospectus, please,\nBBB,BETA,2\n", 5, "table ended at line 4"),
        (HEAD + "AAA,ALPHA,1\n,,98\n", 3, "neither ticker nor name"),
        (HEAD + "AA\u200bA,ALPHA,1\n", 2, "U+200B"),
        (HEAD + "AAA!,ALPHA,1\n", 2, '"AAA!" is not a ticker: it holds the character "!"'),
        (HEAD + f"AAA,{'x' * 201},1\n", 2, "more than 200 characters"),
        ("fund,ticker,weight (%)\nX,AAA,1\nY,BBB,2\n", 3, "several funds"),
        ("date,ticker,weight (%)\n2021-09-07,AAA,1\n2021-09-08,BBB,2\n", 3, "several days"),
    ],
)
def test_what_does_not_fit_names_the_line(text: str, line: int | None, reason: str) -> None:
    with pytest.raises(DisclosureRefused, match=re.escape(reason)) as refused:
        read(text.encode())
    assert refused.value.line == line
    if line is not None:
        assert str(refused.value).startswith(f"Line {line}: ")


def test_the_refusal_names_the_file() -> None:
    with pytest.raises(DisclosureRefused) as refused:
        read(b"ticker,name,weight (%)\nAAA,ALPHA,abc\n")
    assert str(refused.value.of("disclosure A")).startswith("Disclosure A, line 2: ")


def outcome(data: bytes) -> str:
    """The tickers that were read, or the reason of the refusal. Any other error fails the test."""
    try:
        return " ".join(holding.ticker for holding in read(data).holdings)
    except AgentInputRefused as refused:
        return str(refused)


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    assert outcome(data)


CELLS = st.text(st.sampled_from("AB19.,%-()\"'\n; \u00a0é"), max_size=8)


@given(st.lists(st.lists(CELLS, min_size=1, max_size=5), max_size=6), st.sampled_from(",;\t"))
def test_any_table_is_read_or_refused(rows: list[list[str]], delimiter: str) -> None:
    text = "ticker,name,weight (%)\n".replace(",", delimiter) + "\n".join(delimiter.join(row) for row in rows)
    assert outcome(text.encode())
