"""Which lines have a ticker. Cash and its like have none, or a code that only their name gives away."""

import re
import unicodedata

from runtime.tools.disclosure.refusal import DisclosureRefused

NONE = frozenset({"", "-", "--", "---", "–", "—", ".", "N/A", "n/a", "#N/A", "nan", "NaN", "None", "null", "NULL"})
TICKER = re.compile(r"[A-Z0-9][A-Z0-9 ./_&*=^:#$@+-]{0,31}")
CASH_CODE = re.compile(r"CASH([ _&/-].*|[A-Z]{3})?|[A-Z]{3}[ _-]CASH")
CASH_NAME = re.compile(r"\b(CASH|DOLLARS?|EUROS?|POUNDS?|YEN|CURRENCY|MONEY MARKET|LIQUIDITY)\b", re.IGNORECASE)
CASH_CLASS = re.compile(r"\b(CASH|MONEY MARKET|CURRENCY)\b", re.IGNORECASE)


def looks_like_ticker(cell: str) -> bool:
    """Whether a cell holds something that can only be meant as a ticker."""
    return cell not in NONE and len(cell) <= 12 and TICKER.fullmatch(cell.upper()) is not None


def ticker_of(cell: str, name: str, line: int) -> str:
    """The ticker of a line in capitals, or "" if it has none. `CASH` beside the name of a company is a ticker.

    Raises DisclosureRefused for a cell that can't be a ticker.
    """
    if cell in NONE:
        return ""
    ticker = cell.upper()
    if CASH_CODE.fullmatch(ticker) and (not name or CASH_NAME.search(name)):
        return ""
    hidden = next((char for char in cell if unicodedata.category(char) in ("Cf", "Cc", "Co", "Cn")), None)
    if hidden:
        raise DisclosureRefused(f"The ticker holds the invisible character U+{ord(hidden):04X}.", line)
    if not TICKER.fullmatch(ticker):
        raise DisclosureRefused(f'"{cell[:40]}" is not a ticker.', line)
    return ticker


def is_cash_class(asset_class: str) -> bool:
    """Whether a file's own asset class says cash, for lines that carry a code all the same."""
    return CASH_CLASS.search(asset_class) is not None
