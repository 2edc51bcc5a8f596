"""Weight overlap of two funds: over the tickers that both hold, the sum of the smaller weight. Pure and exact."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from runtime.tools.disclosure.decimals import total


@dataclass(frozen=True)
class Shared:
    """A ticker that both funds hold, with its weight in each, in percent."""

    ticker: str
    a: Decimal
    b: Decimal

    @property
    def smaller(self) -> Decimal:
        return min(self.a, self.b)


@dataclass(frozen=True)
class Overlap:
    """What two funds share and what each holds alone, largest first."""

    shared: tuple[Shared, ...]
    only_a: tuple[tuple[str, Decimal], ...]
    only_b: tuple[tuple[str, Decimal], ...]
    short: tuple[str, ...]
    look_alikes: tuple[tuple[str, str], ...]

    @property
    def weight(self) -> Decimal:
        return total(pair.smaller for pair in self.shared)


def overlap(a: Mapping[str, Decimal], b: Mapping[str, Decimal]) -> Overlap:
    """Compare two funds given as ticker to weight in percent.

    Tickers match only if they are equal: share classes are different holdings. A ticker held short (a negative weight)
    by either fund is no shared holding; `short` names those that both list. `look_alikes` are tickers of one fund only
    that would be equal without their punctuation (BRK.B, BRKB): not matched, but worth a look.
    """
    both = [ticker for ticker in a if ticker in b]
    short = tuple(sorted(ticker for ticker in both if a[ticker] < 0 or b[ticker] < 0))
    shared = [Shared(ticker, a[ticker], b[ticker]) for ticker in both if ticker not in short]
    only_a = {ticker: weight for ticker, weight in a.items() if ticker not in b}
    only_b = {ticker: weight for ticker, weight in b.items() if ticker not in a}
    return Overlap(
        shared=tuple(sorted(shared, key=lambda pair: (-pair.smaller, pair.ticker))),
        only_a=_largest_first(only_a),
        only_b=_largest_first(only_b),
        short=short,
        look_alikes=_look_alikes(only_a, only_b),
    )


def _largest_first(weights: Mapping[str, Decimal]) -> tuple[tuple[str, Decimal], ...]:
    return tuple(sorted(weights.items(), key=lambda item: (-item[1], item[0])))


def _look_alikes(a: Mapping[str, Decimal], b: Mapping[str, Decimal]) -> tuple[tuple[str, str], ...]:
    bare = {_bare(ticker): ticker for ticker in b}
    return tuple(sorted((ticker, bare[_bare(ticker)]) for ticker in a if _bare(ticker) in bare))


def _bare(ticker: str) -> str:
    return "".join(char for char in ticker if char.isalnum())
