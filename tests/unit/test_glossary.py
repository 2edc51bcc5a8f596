"""One glossary: what the pages say about a word, a state or a code is what docs/glossary.md and the code say."""

import re

import pytest

from approvals.errors import Expired
from checkpoints.states import CommitmentStatus, ObligationStatus
from console.environment import BASE_DIR
from console.pages import signs
from console.pages.glossary import PAGE, glossary, read_words, word_key
from receipts.states import EffectClass
from runs.states import HoldReason, RefusalKind

WORDS, _, STATES = PAGE.read_text().partition("## States")


def test_the_words_of_the_page_are_read_in_their_order_and_each_once() -> None:
    words = [word for word, _ in read_words(PAGE.read_text())]
    assert len(words) == WORDS.count("\n| ") - 1, "a row of docs/glossary.md is not `| word | meaning |`"
    assert words == sorted(words, key=str.lower)
    assert len({word_key(word) for word in words}) == len(words)


def test_the_states_of_the_page_are_those_that_are_drawn() -> None:
    """A missing row is printed as it has to stand."""
    expected = [
        f"| {term.kind} | {term.state.replace('_', ' ')} | {term.means} | {term.then} |"
        for term in glossary().values()
        if term.machine and term.machine != "effect"
    ]
    written = [line for line in STATES.splitlines() if line.startswith("| ")][1:]
    assert [line for line in expected if line not in written] == []
    assert written == expected


@pytest.mark.parametrize("enum", [HoldReason, RefusalKind])
def test_every_stored_reason_explains_itself(enum: type[HoldReason | RefusalKind]) -> None:
    assert [reason for reason in enum if f"code-{reason}" not in glossary()] == []


def test_every_state_effect_and_refusal_explains_itself() -> None:
    keys = {f"obligation-{status}" for status in ObligationStatus} | {f"commitment-{one}" for one in CommitmentStatus}
    keys |= {f"effect-{effect}" for effect in EffectClass} | {f"code-{guard}" for guard in signs.GUARD}
    assert keys <= set(glossary())
    assert glossary()["code-EXPIRED"].means.startswith("Nothing was decided.")
    assert "…" in glossary()["code-EXPIRED"].means and "{" not in glossary()["code-EXPIRED"].means
    assert Expired.code == "EXPIRED"


def test_no_refusal_shows_its_placeholders_or_nothing() -> None:
    for term in glossary().values():
        assert term.means.strip() and not re.search(r"\{\w+\}", term.means), term


def test_every_word_that_a_template_explains_is_in_the_glossary() -> None:
    used = {
        word
        for template in (BASE_DIR / "templates").rglob("*.html")
        for word in re.findall(r'{% term "([^"]+)"', template.read_text())
    }
    assert [word for word in used if word_key(word) not in glossary()] == []
