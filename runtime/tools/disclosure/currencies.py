"""Currencies as they stand beside amounts and, for cash, in the place of tickers."""

import re

CODES = frozenset(
    [
        "USD",
        "EUR",
        "GBP",
        "GBX",
        "JPY",
        "CHF",
        "CAD",
        "AUD",
        "NZD",
        "CNY",
        "CNH",
        "HKD",
        "SGD",
        "KRW",
        "TWD",
        "INR",
        "IDR",
        "MYR",
        "THB",
        "PHP",
        "VND",
        "SEK",
        "NOK",
        "DKK",
        "ISK",
        "PLN",
        "CZK",
        "HUF",
        "RON",
        "TRY",
        "ILS",
        "ZAR",
        "BRL",
        "MXN",
        "CLP",
        "COP",
        "PEN",
        "ARS",
        "AED",
        "SAR",
        "QAR",
        "KWD",
        "EGP",
        "RUB",
    ]
)
SIGNS = {
    "US$": "USD", "HK$": "HKD", "NT$": "TWD", "NZ$": "NZD", "A$": "AUD", "C$": "CAD", "S$": "SGD", "R$": "BRL",
    "$": "USD", "€": "EUR", "£": "GBP", "¥": "JPY", "₩": "KRW", "₹": "INR",
}  # fmt: skip
WRITTEN = "|".join(re.escape(sign) for sign in (*SIGNS, *sorted(CODES)))
AROUND = re.compile(rf"^(?P<before>{WRITTEN})|(?P<after>{WRITTEN})$")


def beside(text: str) -> tuple[str, str]:
    """The currency before or after an amount as its code, and the amount; ("", the text) where there is none."""
    match = AROUND.search(text)
    if match is None:
        return "", text
    found = match["before"] or match["after"]
    return SIGNS.get(found, found), text[: match.start()] + text[match.end() :]
