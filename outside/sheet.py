"""The reference sheet: what lines of a disclosure that have no ticker usually are."""

import re
from typing import Any

ENTRIES = (
    (r"TREASURY|TRSY|T-?BILL", "Treasury fund", "Short-term government debt, held as a cash position."),
    (r"GOVT CASH|GOVERNMENT CASH", "Government money market fund", "Pays out daily; held as a cash position."),
    (r"MONEY MARKET|LIQUIDITY|CASH FUND|CASH RESERVE", "Money market fund", "Pays out daily; held as a cash position."),
    (r"\bFUTURES?\b|\bEMINI\b|E-MINI", "Future", "An exchange-traded contract; its weight is its daily gain or loss."),
    (r"\bFORWARDS?\b|\bFX\b", "Currency forward", "An agreement to exchange currencies later."),
    (r"\bSWAPS?\b", "Swap", "A contract with a counterparty, not a security."),
    (r"DOLLAR|\bEUROS?\b|\bYEN\b|POUND|STERLING|FRANC|\bRAND\b|KRON[AE]|RENMINBI|YUAN|RUPEE|\bWON\b|\bPESO\b|\bREAL\b",
     "Currency", "Money held in this currency."),
    (r"\bCASH\b", "Cash", "Money held with a bank or the custodian."),
    (r"\bRIGHTS?\b|\bWARRANTS?\b", "Right or warrant", "A claim to buy shares; it has no ticker of its own."),
)  # fmt: skip


def look_up(line: str) -> dict[str, Any]:
    """What the sheet says of one line; `covered` is False where it says nothing."""
    for pattern, kind, text in ENTRIES:
        if re.search(pattern, line.upper()):
            return {"line": line, "covered": True, "kind": kind, "text": text}
    return {"line": line, "covered": False, "kind": "", "text": "This line is not on the sheet."}
