"""The contract against the call: an address, an account, an amount or a right that stands there otherwise. Compared as text."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from django.utils.html import format_html, format_html_join

from console.pages.arguments import leaves
from console.pages.decision.alike import number
from console.pages.decision.points import Point
from console.pages.stored import Stored
from console.pages.text import exact

GOAL = 300  # characters of a goal beside the title; all of it stands in the contract
_ADDRESS = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_ACCOUNT = re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{2,4}){3,8}\b")
_MONEY = re.compile(
    r"(?<![\w.,-])(\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+\.\d{2}|\d+(?=\s?(?:EUR|USD|GBP|CHF|euros?|dollars?|pounds?|francs?)\b))(?![\w-])",
    re.IGNORECASE,
)
_LIMIT = re.compile(
    r"(?:at most|up to|no more than|not more than|maximum(?: of)?|below|under|limit(?: of)?)\s*(?:EUR|USD|GBP|CHF|[$€£])?\s*$",
    re.IGNORECASE,
)
_AMOUNT_PATH = re.compile(r"(?:^|[._\]])(?:amount|sum|total|price|value)$", re.IGNORECASE)
_READS = re.compile(r"\b(?:reads?|reading|views?|viewing|look at|looks? into|see)\b", re.IGNORECASE)
_MORE = re.compile(
    r"\b(?:own(?:er)?s?|admin(?:istrator)?s?|write|writes|writing|edit(?:or)?s?|change|manage[rs]?)\b", re.IGNORECASE
)
_POWERFUL = frozenset(
    [
        "owner",
        "admin",
        "administrator",
        "root",
        "superuser",
        "editor",
        "writer",
        "write",
        "maintainer",
        "manager",
        "full",
        "read-write",
    ]
)


@dataclass(frozen=True)
class Kind:
    """One kind of thing that a text may name: what it is called, and how it is found and compared."""

    name: str
    found: re.Pattern[str]


KINDS = (Kind("address", _ADDRESS), Kind("account", _ACCOUNT))


def beside_the_title(goal: str) -> dict[str, str | bool]:
    """What the head of a wait's page says of the goal of its run: as much as has room there, and whether it goes on."""
    return {"goal": goal[:GOAL], "goal_goes_on": len(goal) > GOAL}


def goal_points(goal: str, terms: Sequence[str], arguments: Stored | None) -> Iterator[Point]:
    """What the call has otherwise than the goal or a term that holds. `arguments`: what anybody may be shown of them."""
    if arguments is None:
        return
    said = "\n".join([goal, *terms])
    texts = {path: leaf for path, leaf in leaves(arguments.value) if isinstance(leaf, str)}
    for kind in KINDS:
        yield from _named(kind, said, texts)
    yield from _amounts(said, arguments)
    yield from _rights(goal, texts)


def _named(kind: Kind, said: str, texts: Mapping[str, str]) -> Iterator[Point]:
    """Whole values of this kind that the contract does not name, where it names others of the kind."""
    wanted = {_bare(one): one for one in kind.found.findall(said)}
    others = {path: text for path, text in texts.items() if kind.found.fullmatch(text) and _bare(text) not in wanted}
    if wanted and others:
        yield _otherwise(others, list(wanted.values()), f"Another {kind.name} than the goal names")


def _bare(text: str) -> str:
    return text.replace(" ", "").casefold()


def _amounts(said: str, arguments: Stored) -> Iterator[Point]:
    """Another amount than those that the contract names; one within a limit that it names is none."""
    wanted, limits = {}, []
    for one in _MONEY.finditer(said):
        amount = Decimal(one[1].replace(",", ""))
        wanted[amount] = one[1]
        if _LIMIT.search(said[: one.start()]):
            limits.append(amount)
    named = {path: _plain(leaf) for path, leaf in leaves(arguments.value) if _AMOUNT_PATH.search(path)}
    others = {
        path: text
        for path, text in named.items()
        if (value := number(text)) is not None and value not in wanted and not any(value <= limit for limit in limits)
    }
    if wanted and others:
        yield _otherwise(others, list(wanted.values()), "Another amount than the goal names")


def _plain(leaf: object) -> str:
    return leaf if isinstance(leaf, str) else str(leaf)


def _rights(goal: str, texts: Mapping[str, str]) -> Iterator[Point]:
    """A right to change things, where the goal speaks of reading only."""
    reads = _READS.search(goal)
    more = {path: text for path, text in texts.items() if text.casefold() in _POWERFUL}
    if reads and more and not _MORE.search(goal):
        yield _otherwise(more, [reads[0]], "More than the goal says")


def _otherwise(others: Mapping[str, str], wanted: Sequence[str], lead: str) -> Point:
    named = format_html_join(
        ", ",
        "<code>{}</code> is “{}”",
        ((exact(path, one_line=True), exact(text, one_line=True)) for path, text in others.items()),
    )
    says = format_html_join(", ", "“{}”", ((exact(one, one_line=True),) for one in wanted))
    text = format_html("{}: {}; the contract says {}", lead, named, says)
    return Point("stop", "caution", text, "Compared as text with the goal and the terms that hold. Read both.")
