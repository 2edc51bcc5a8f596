"""What every state, refusal, badge and word means: one table for /design/, for the help beside a sign, and for the docs.

The words are those of docs/glossary.md; states and badges are those of signs.py; refusals say what their classes say.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from accounts.errors import Refused
from console.environment import BASE_DIR
from console.pages import signs, words

PAGE = BASE_DIR / "docs" / "glossary.md"
_LINE = re.compile(r"^\| (?P<word>[^|]+) \| (?P<means>[^|]+) \|$")
_BLANK = re.compile(r"\{\w+\}")


@dataclass(frozen=True)
class Term:
    """One entry. `machine` and `state` draw its sign where it has one; `then` follows on `then_word` ("Acts next")."""

    key: str
    word: str
    kind: str
    means: str
    then_word: str = ""
    then: str = ""
    machine: str = ""
    state: str = ""


@cache
def glossary() -> Mapping[str, Term]:
    """Every entry by its key: `run-WAITING`, `effect-READ_ONLY`, `code-EXPIRED`, `word-fence`."""
    parts = (_states(), _effects(), _codes(), _words())
    return {term.key: term for part in parts for term in part}


def word_key(word: str) -> str:
    """The key of an entry of docs/glossary.md."""
    return f"word-{re.sub(r'[^a-z0-9]+', '-', word.lower()).strip('-')}"


def read_words(page: str) -> list[tuple[str, str]]:
    """The rows of the table of docs/glossary.md: word, meaning."""
    rows = [_LINE.match(line) for line in page.partition("## States")[0].splitlines()]
    return [(row["word"], row["means"]) for row in rows if row and row["word"] != "Word"]


def _words() -> Iterator[Term]:
    for word, means in read_words(PAGE.read_text()):
        yield Term(word_key(word), word, "Word", means)


def _states() -> Iterator[Term]:
    for machine, table in signs.MACHINES.items():
        for state, sign in table.items():
            kind = signs.MACHINE_WORDS[machine]
            shown = words.plain(state).capitalize()
            yield Term(f"{machine}-{state}", shown, kind, f"{sign.means}.", "Acts next", sign.acts_next, machine, state)


def _effects() -> Iterator[Term]:
    for name, weight in signs.EFFECT.items():
        yield Term(
            f"effect-{name}", name, "Effect class", f"{weight.means}.", "No answer", weight.no_answer, "effect", name
        )


def _codes() -> Iterator[Term]:
    """Holds and guards with what helps; refusals with what they say, several classes of one code together."""
    helped = {**signs.HOLD, **signs.GUARD}
    said: defaultdict[str, list[str]] = defaultdict(list)
    for refusal in _refusals(Refused):
        said[refusal.code].append(_BLANK.sub("…", refusal().template))
    for kind, what in words.REFUSAL.items():
        if kind not in helped and kind not in said:
            said[kind] = [f"Refused: {what}."]
    for code in {**helped, **said}:
        means, helps = helped.get(code, ("", ""))
        sentences = [f"{means}."] if means else sorted(set(said[code]))
        kind = "Why a run is held" if code in helped else "Refusal"
        yield Term(f"code-{code}", code, kind, " Or: ".join(sentences), "What helps" if helps else "", helps)


def _refusals(of: type[Refused]) -> Iterator[type[Refused]]:
    """Every refusal that a service can return. The command line's own ones are never on a page."""
    for refusal in of.__subclasses__():
        if "management" not in refusal.__module__:
            yield refusal
        yield from _refusals(refusal)
