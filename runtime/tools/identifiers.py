"""Whether two funds name the same shares differently: exchange suffixes, and numbers of securities instead of tickers.

Nothing is matched here. A ticker without its suffix may be another company's, so people are told and decide.
"""

import re
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

YELLOW_KEY = re.compile(r" (EQUITY|CORP|INDEX|PFD)$")
EXCHANGES = "NASDAQ|NYSE|NYSEARCA|ARCA|AMEX|BATS|LSE|LON|ETR|FRA|EPA|AMS|SWX|TSX|TSE|TYO|HKG|HKEX|ASX|X[A-Z]{3}"
WITH_EXCHANGE = (
    re.compile(rf"({EXCHANGES}):(?P<bare>\S+)"),  # NASDAQ:AAPL
    re.compile(r"(?P<bare>\S+) [A-Z][A-Z0-9]"),  # AAPL US
    re.compile(r"(?P<bare>\S+)[.:-][A-Z]{1,4}"),  # AAPL.O, AAPL:US
)
SHARE_CLASS = re.compile(r"[.:-][A-E]$")
NUMBERS = {
    "FIGIs": re.compile(r"BBG[A-Z0-9]{8}[0-9]"),
    "ISINs": re.compile(r"[A-Z]{2}[A-Z0-9]{9}[0-9]"),
    "CUSIPs": re.compile(r"(?=.*[0-9].*[0-9].*[0-9])[A-Z0-9]{5}[A-Z0-9*@#]{3}[0-9]"),
    "SEDOLs": re.compile(r"[B-DF-HJ-NP-TV-Z0-9]{6}[0-9]"),
}
SAME_WAY = "They were not matched. Write the tickers the same way in both files."


@dataclass(frozen=True)
class Fund:
    """What to call a fund, and its tickers."""

    name: str
    tickers: AbstractSet[str]


def doubts(a: Fund, b: Fund) -> list[str]:
    """What may keep the tickers of two funds from matching: sentences for people, with numbers and an example each."""
    alone_a, alone_b = (replace(one, tickers=one.tickers - other.tickers) for one, other in ((a, b), (b, a)))
    return [
        *_numbers(a, b),
        *_numbers(b, a),
        *_suffixes(alone_a, len(a.tickers), alone_b),
        *_suffixes(alone_b, len(b.tickers), alone_a),
        *_both_suffixed(alone_a, len(a.tickers), alone_b),
    ]


def without_exchange(ticker: str) -> str | None:
    """A ticker without the exchange that it names (`AAPL US`, `VOD LN EQUITY`, `AAPL.O`), or None if it names none."""
    bare = YELLOW_KEY.sub("", ticker)
    matches = (pattern.fullmatch(bare) for pattern in WITH_EXCHANGE)
    found = next((match["bare"] for match in matches if match), bare)
    return found if found != ticker else None


def _numbers(fund: Fund, other: Fund) -> Iterator[str]:
    left = sorted(fund.tickers)
    for kind, pattern in NUMBERS.items():
        found = [ticker for ticker in left if pattern.fullmatch(ticker)]
        left = [ticker for ticker in left if not pattern.fullmatch(ticker)]
        if found and other.tickers and not any(pattern.fullmatch(ticker) for ticker in other.tickers):
            says = f"{len(found)} of {len(fund.tickers)} tickers of {fund.name} look like {kind} ({found[0]})"
            yield f"{says}; {other.name} has none, so they can't match. Write tickers in both files."


def _suffixes(alone: Fund, count: int, other: Fund) -> Iterator[str]:
    """Those that only one fund holds and that the other one holds without an exchange."""
    found = _pairs(alone.tickers, {ticker: ticker for ticker in other.tickers})
    if found:
        says = (
            f"{len(found)} of {count} tickers of {alone.name} look like tickers of {other.name} with an exchange added"
        )
        yield f"{says} ({found[0][0]}, {found[0][1]}). {SAME_WAY}"


def _both_suffixed(a: Fund, count: int, b: Fund) -> Iterator[str]:
    """Tickers that name an exchange in both files, but not in the same way; share classes (BRK.A, BRK.B) apart."""
    by_bare = {bare: x for x in sorted(b.tickers) if not SHARE_CLASS.search(x) and (bare := without_exchange(x))}
    found = _pairs({x for x in a.tickers if not SHARE_CLASS.search(x)}, by_bare)
    if found:
        says = f"{len(found)} of {count} tickers of {a.name} look like tickers of {b.name} with another exchange"
        yield f"{says} ({found[0][0]}, {found[0][1]}). {SAME_WAY}"


def _pairs(tickers: AbstractSet[str], partners: Mapping[str, str]) -> list[tuple[str, str]]:
    bares = ((ticker, without_exchange(ticker)) for ticker in sorted(tickers))
    return [(ticker, partners[bare]) for ticker, bare in bares if bare and bare in partners]
