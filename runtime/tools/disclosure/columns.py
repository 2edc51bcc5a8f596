"""Which column is which. Fund houses name them differently; a name is matched as a whole, never in part."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from runtime.tools.disclosure.characters import folded
from runtime.tools.disclosure.refusal import DisclosureRefused


class Unit(StrEnum):
    """What the numbers of a weight column are, as its header says."""

    PERCENT = "percent"
    FRACTION = "fraction"
    UNSAID = "unsaid"


# Compared without case, spaces and signs; the first that a file has is used.
TICKER = (
    "ticker", "symbol", "tickersymbol", "stockticker", "stocksymbol", "holdingticker", "holdingsticker",
    "holdingsymbol", "securityticker", "securitysymbol", "issuerticker", "constituentticker", "constituentsymbol",
    "exchangeticker", "tradingsymbol", "tickercode", "bloombergticker", "emittententicker", "kurzel", "borsenkurzel",
    "symbole", "simbolo",
)  # fmt: skip
NAME = (
    "company", "companyname", "name", "holding", "holdings", "holdingname", "holdingsname", "security", "securityname",
    "securitydescription", "description", "issuer", "issuername", "constituent", "constituentname", "instrument",
    "instrumentname", "stock", "stockname", "asset", "assetname", "investment", "position", "wertpapier",
    "wertpapiername", "wertpapierbezeichnung", "bezeichnung", "unternehmen", "emittent", "titel", "nom", "libelle",
    "titre", "societe", "nome", "denominazione", "titolo", "nombre", "denominacion",
)  # fmt: skip
WEIGHT = (
    "weight", "weights", "weighting", "weightings", "portfolioweight", "fundweight", "weightinfund", "marketweight",
    "marketvalueweight", "indexweight", "exposureweight", "allocation", "gewichtung", "gewicht", "fondsgewicht",
    "portfoliogewicht", "portfoliogewichtung", "anteil", "fondsanteil", "poids", "ponderation", "peso", "ponderazione",
    "ponderacion",
)  # fmt: skip
FRACTION = ("fraction", "decimal", "asfraction", "asdecimal")
# Only beside a percent sign or word do these say what the numbers are: `% des Fondsvermögens`, `% de l'actif net`.
SHARE_OF = (
    "fondsvermogen", "desfondsvermogens", "anteilamfondsvermogen", "anteilamfonds", "nettovermogen", "desnettovermogens",
    "actifnet", "delactifnet", "delactif", "patrimonionetto", "delpatrimonionetto", "patrimonio", "delpatrimonio",
)  # fmt: skip
SAYS_PERCENT = re.compile(r"%|percent(age)?|pct|prozent(ual)?|pour ?cent(age)?|percentuale|porcentaje")
PERCENT = re.compile(
    r"(weights?|weightings?|holdings?|portfolio)?(percent|percentage|pct)?(weight)?(of)?(the)?(total)?"
    r"(funds?|portfolio|netassets|netassetvalue|assets|investments|nav|aum|tna|marketvalue|mv|index)?"
)
MARKET_VALUE = (
    "marketvalue", "marketval", "mktvalue", "mktval", "mv", "value", "fairvalue", "positionvalue", "currentvalue",
    "marktwert", "kurswert", "valeurdemarche", "valeurboursiere", "valoredimercato", "controvalore", "valordemercado",
)  # fmt: skip
CURRENCY = re.compile(r"(in|en)?(usd|eur|euro|gbp|cad|chf|jpy|aud|base|basecurrency|local)$")
SHARES = (
    "shares", "quantity", "qty", "sharesheld", "numberofshares", "sharesparvalue", "sharesparamount", "parvalue",
    "units", "nominal", "nominale", "stuck", "stuckzahl", "anzahl", "anteile", "titres", "quantite", "quantita", "cantidad",
)  # fmt: skip
DATE = (
    "date", "asof", "asofdate", "effectivedate", "holdingsdate", "holdingdate", "holdingsasof", "valuationdate",
    "valuedate", "reportdate", "portfoliodate", "positiondate", "tradedate", "navdate", "datum", "stichtag", "data",
    "fecha",
)  # fmt: skip
FUND = (
    "fund", "fundticker", "fundsymbol", "etf", "etfticker", "etfsymbol", "account", "accountticker", "accountsymbol",
    "fundcode", "fundname", "etfname", "portfolioname", "accountname", "fonds",
)  # fmt: skip
ASSET_CLASS = (
    "assetclass", "assettype", "securitytype", "holdingtype", "assetcategory", "assetgroup", "anlageklasse",
    "classedactifs", "assetklasse",
)  # fmt: skip


@dataclass(frozen=True)
class Columns:
    """Positions (from 0) of the columns that are read. A missing one is None; `ticker` is always there."""

    header: tuple[str, ...]
    ticker: int
    name: int | None
    weight: int | None
    unit: Unit
    market_value: int | None
    shares: int | None
    date: int | None
    fund: int | None
    asset_class: int | None

    @property
    def measure(self) -> int:
        """The column that gives the weights: the weights themselves, else the market values."""
        return next(index for index in (self.weight, self.market_value) if index is not None)


def recognise(cells: Sequence[str], line: int) -> Columns | None:
    """The columns of a header row, or None where the row is not one (no ticker column, or nothing to weigh by).

    Raises DisclosureRefused if it is one, but two of its columns have the same name.
    """
    keys = [_key(cell) for cell in cells]
    ticker = _first(keys, TICKER)
    weight, unit = _weight(cells, keys)
    market_value = _first([CURRENCY.sub("", key) for key in keys], MARKET_VALUE, excluding=weight)
    if ticker is None or (weight is None and market_value is None):
        return None
    columns = Columns(
        header=tuple(cells),
        ticker=ticker,
        name=_first(keys, NAME),
        weight=weight,
        unit=unit,
        market_value=market_value,
        shares=_first(keys, SHARES),
        date=_first(keys, DATE),
        fund=_first(keys, FUND),
        asset_class=_first(keys, ASSET_CLASS),
    )
    _refuse_twins(columns, line)
    return columns


def missing(cells: Sequence[str]) -> str:
    """What keeps a row from being the header, if it has at least one of the columns that are needed; else ""."""
    keys = [_key(cell) for cell in cells]
    if _first(keys, TICKER) is not None:
        return "has a ticker column but neither a weight nor a market value column"
    if _weight(cells, keys)[0] is not None and _first(keys, NAME) is not None:
        return "has a weight column but no ticker column"
    return ""


def heads_another_table(cells: Sequence[str], line: int) -> bool:
    """Whether a row is the header of a table, be it one that can't be compared: names and weights without tickers."""
    if recognise(cells, line):
        return True
    keys = [_key(cell) for cell in cells]
    name, (weight, _) = _first(keys, NAME), _weight(cells, keys)
    return name is not None and weight is not None and name != weight


def _key(cell: str) -> str:
    return re.sub(r"[^a-z0-9]", "", folded(cell))


def _first(keys: Sequence[str], names: Sequence[str], excluding: int | None = None) -> int | None:
    found = (index for name in names for index, key in enumerate(keys) if key == name and index != excluding)
    return next(found, None)


def _weight(cells: Sequence[str], keys: Sequence[str]) -> tuple[int | None, Unit]:
    bare = [_without_percent(cell) for cell in cells]
    for name in WEIGHT:
        for index, key in enumerate(keys):
            if name in (key, bare[index]):
                return index, Unit.PERCENT if _says_percent(cells[index]) else Unit.UNSAID
            if key.startswith(name) and key.removeprefix(name) in FRACTION:
                return index, Unit.FRACTION
    for index, key in enumerate(keys):
        if _says_percent(cells[index]) and (PERCENT.fullmatch(key) or bare[index] in SHARE_OF):
            return index, Unit.PERCENT
    return None, Unit.UNSAID


def _says_percent(cell: str) -> bool:
    return SAYS_PERCENT.search(folded(cell)) is not None


def _without_percent(cell: str) -> str:
    """The key of a weight column without its unit: `Gewicht in %`, `% Gewicht` and `Poids (en %)` are weights."""
    text = folded(cell)
    if not SAYS_PERCENT.search(text):
        return _key(cell)
    return _key(re.sub(r"\b(in|en|as)\W*$", "", SAYS_PERCENT.sub("", text)))


def _refuse_twins(columns: Columns, line: int) -> None:
    """The same name on two columns leaves open which one is meant."""
    keys = [_key(cell) for cell in columns.header]
    for index in (columns.ticker, columns.name, columns.weight, columns.market_value, columns.date, columns.fund):
        if index is not None and keys.count(keys[index]) > 1:
            raise DisclosureRefused(f'Two columns are named "{columns.header[index]}". Remove one of them.', line)
