"""The evidence collection: short passages about invented companies, found by their words. No ranking by meaning."""

import re
from dataclasses import dataclass

MAX_FOUND = 5
WORD = re.compile(r"[a-z0-9]+(?:[.,][0-9]+)*")
COMMON_WORDS = (
    "a about an and are as at be been but by did do does for from had has have in into is it its more not of on or "
    "over than that the their there they this to under was were which who will with"
)
COMMON = frozenset(COMMON_WORDS.split())


@dataclass(frozen=True)
class Passage:
    """A few sentences of one source."""

    id: str
    source: str
    text: str


PASSAGES = (
    Passage(
        "p-01", "Northwind Grid, annual report 2025", "Northwind Grid operated 412 substations at the end of 2025."
    ),
    Passage(
        "p-02",
        "Northwind Grid, annual report 2025",
        "Northwind Grid employed 8,300 people at the end of 2025, of whom 1,150 worked abroad.",
    ),
    Passage(
        "p-03",
        "Harbour Register, March 2026",
        "Cinderford Storage sold its battery plant in Larkhill to Alder Grove Robotics in March 2026.",
    ),
    Passage("p-04", "Harbour Register, April 2026", "Cinderford Storage closed its offices in Larkhill."),
    Passage(
        "p-05",
        "Quarry Robotics, letter to shareholders",
        "Quarry Robotics paid no dividend for 2025 and reduced its debt instead.",
    ),
    Passage(
        "p-06",
        "Quarry Robotics, letter to shareholders",
        "The order book of Quarry Robotics grew by 14 percent in 2025.",
    ),
    Passage(
        "p-07",
        "Alder Grove Robotics, filing of 4 May 2026",
        "Alder Grove Robotics completed the purchase of the battery plant in Larkhill for 96 million.",
    ),
    Passage(
        "p-08",
        "Bayhead Review, no. 12",
        "Longacre Cloud moved its headquarters from Bayhead to Larkhill in 2024.",
    ),
    Passage("p-09", "Bayhead Review, no. 14", "Longacre Cloud runs nine data centres, all of them on renewable power."),
    Passage("p-10", "Tables of the energy office", "Grid losses of Northwind Grid were 3.1 percent in 2025."),
)


def search(query: str) -> list[Passage]:
    """At most five passages that share at least half of the query's words, those with the most first."""
    wanted = _words(query)
    shared = ((len(wanted & _words(passage.text)), passage) for passage in PASSAGES)
    enough = [(count, passage) for count, passage in shared if count and 2 * count >= len(wanted)]
    return [passage for _, passage in sorted(enough, key=lambda found: (-found[0], found[1].id))][:MAX_FOUND]


def _words(text: str) -> set[str]:
    return set(WORD.findall(text.lower())) - COMMON
