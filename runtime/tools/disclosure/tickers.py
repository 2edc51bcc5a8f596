"""Which lines have a ticker. Cash and its like have none, or a code that only their name or asset class gives away."""

import re
import unicodedata

from runtime.tools.disclosure.characters import foreign, named
from runtime.tools.disclosure.currencies import CODES
from runtime.tools.disclosure.refusal import DisclosureRefused

NONE = frozenset({"", "-", "--", "---", "–", "—", ".", "N/A", "n/a", "#N/A", "nan", "NaN", "None", "null", "NULL"})
MAX_TICKER = 32
TICKER = re.compile(r"[A-Z0-9][A-Z0-9 ./_&*=^:#$@+-]{0,31}")
CODE = "|".join(sorted(CODES))
LEDGER = "C?CASH|MARGIN|ETD|COLL(ATERAL)?|VAR(IATION)?"
# No exchange has such tickers, so nothing else has to say that it is cash: -USD-, $USD, --EUR--, MARGIN_USD.
MARKED_CURRENCY = re.compile(
    rf"[^A-Z0-9]+({CODE})[^A-Z0-9]*|({CODE})[^A-Z0-9]+|({LEDGER})[_-]+({CODE})|({CODE})[_-]+({LEDGER})"
)
# These can be tickers too, so name or asset class has to say that they are cash.
CASH_CODE = re.compile(r"CASH([ _&/-].*|[A-Z]{3})?|[A-Z]{3}[ _-]?CASH")
LEDGER_CODE = re.compile(
    rf"({CODE})|({LEDGER}) ?({CODE})|({CODE}) ?({LEDGER})|XTSLA|JPFFT|MSFUT|UBFUT|SGAFT|HBCFT|GSIFT|BZFUT"
)
CASH_NAME = re.compile(
    r"\b(CASH|CSH|DOLLARS?|EUROS?|POUNDS?|STERLING|YEN|FRANCS?|CURRENCY|MONEY MARKET|LIQUIDITY|MARGIN|COLLATERAL|"
    r"BANKGUTHABEN|BARMITTEL|KASSE|LIQUIDITÄT|LIQUIDITÉS?|TRÉSORERIE|LIQUIDITÀ|EFECTIVO)\b",
    re.IGNORECASE,
)
CASH_CLASS = re.compile(
    r"\b(CASH|MONEY MARKETS?|CURRENCY|GELDMARKT|LIQUIDITÄT|BARMITTEL|KASSE|MONÉTAIRE|LIQUIDITÉS?|LIQUIDITÀ|EFECTIVO)\b",
    re.IGNORECASE,
)


def looks_like_ticker(cell: str) -> bool:
    """Whether a cell holds something that can only be meant as a ticker."""
    return cell not in NONE and len(cell) <= 12 and TICKER.fullmatch(cell.upper()) is not None


def ticker_of(cell: str, name: str, asset_class: str, line: int) -> str:
    """The ticker of a line in capitals, or "" if it has none. `CASH` or `USD` beside the name of a company is a ticker.

    Raises DisclosureRefused for a cell that can't be a ticker.
    """
    if cell in NONE or _is_cash(cell.upper(), name, asset_class):
        return ""
    hidden = next((char for char in cell if unicodedata.category(char) in ("Cf", "Cc", "Co", "Cn")), None)
    if hidden:
        raise DisclosureRefused(f"The ticker holds the invisible character U+{ord(hidden):04X}.", line)
    if foreign(cell) or not TICKER.fullmatch(cell.upper()):
        raise DisclosureRefused(f'"{cell[:40]}" is not a ticker: {_why_not(cell)}.', line)
    return cell.upper()


def is_cash_class(asset_class: str) -> bool:
    """Whether a file's own asset class says cash, for lines that carry a ticker all the same."""
    return CASH_CLASS.search(asset_class) is not None


def is_currency(ticker: str) -> bool:
    """Whether a ticker is also the code of a currency."""
    return ticker in CODES


def _is_cash(code: str, name: str, asset_class: str) -> bool:
    if MARKED_CURRENCY.fullmatch(code):
        return True
    said = bool(CASH_NAME.search(name)) or is_cash_class(asset_class)
    if CASH_CODE.fullmatch(code):
        return said or not name
    return said and LEDGER_CODE.fullmatch(code) is not None


def _why_not(cell: str) -> str:
    odd = foreign(cell) or next((char for char in cell if not TICKER.fullmatch(f"A{char.upper()}")), None)
    if odd:
        return f"it holds the character {named(odd)}"
    if len(cell) > MAX_TICKER:
        return f"it has more than {MAX_TICKER} characters"
    return f"it starts with {named(cell[0])}"
