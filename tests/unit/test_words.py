"""No page falls back on a code: every stored code has its words, and a hold is said in sentences."""

import re

import pytest

from checkpoints.states import Phase, Trigger
from console.environment import BASE_DIR
from console.pages import signs, words
from receipts.states import AttemptOutcome, Closing, EvidenceSource, Verdict
from runs.states import HoldReason, RefusalKind, WakeupCause

APPS = ("approvals", "checkpoints", "receipts", "runs", "runtime")
MOVES = re.compile(r'cause="([A-Z_]+)"')


def test_every_code_that_a_page_shows_has_its_words() -> None:
    assert set(words.PHASE) == set(Phase)
    assert set(words.TRIGGER) == set(Trigger)
    assert set(words.OUTCOME) == {None, *AttemptOutcome}
    assert set(words.VERDICT) == set(Verdict)
    assert set(words.SOURCE) == set(EvidenceSource)
    assert set(words.CLOSING) == set(Closing)
    assert set(words.REFUSAL) == set(RefusalKind)


def test_every_cause_of_a_move_has_its_words() -> None:
    sources = (path.read_text() for app in APPS for path in (BASE_DIR / app).rglob("*.py"))
    written = {cause for source in sources for cause in MOVES.findall(source)} | set(WakeupCause)
    assert written <= set(words.CAUSE) | set(signs.HOLD)
    assert words.moved("BUDGET", "HELD", "w") == "Held: the budget is spent"


@pytest.mark.parametrize(
    ("reason", "detail", "says", "code"),
    [
        ("PAUSED", "the desk changes shift", "A person has paused it. “the desk changes shift”.", "PAUSED"),
        ("BUDGET", "No room for tokens", "The budget is spent. No room for tokens.", "BUDGET"),
        (
            "RESUME_REFUSED",
            "WITHDRAWN: the assumption “A” was withdrawn by mo: no",
            "What it rests on was withdrawn: the assumption “A” was withdrawn by mo: no.",
            "RESUME_REFUSED, WITHDRAWN",
        ),
        (
            "SAVE_REFUSED",
            "SCHEMA at results[3]: an unknown field",
            "Its next revision can't be stored: an unknown field (at results[3]).",
            "SAVE_REFUSED, SCHEMA",
        ),
        (
            "BUDGET",
            "model_calls: 1 needed, 0 of 40 left; usd_micros: 250000 needed, 1000 of 5000000 left",
            "The budget is spent. Model calls: 1 needed, 0 of 40 left; money: $0.2500 needed, $0.0010 of $5.0000 left.",
            "BUDGET",
        ),
        ("TAKEOVER_LIMIT", "", "Its workers died too often.", "TAKEOVER_LIMIT"),
    ],
)
def test_a_hold_is_said_in_sentences_with_the_code_last(reason: str, detail: str, says: str, code: str) -> None:
    said = words.held(reason, detail)
    assert (said.sentence, said.code) == (says, code)


@pytest.mark.parametrize("reason", HoldReason)
def test_every_hold_says_what_helps(reason: str) -> None:
    assert words.held(reason, "").helps


def test_a_guard_says_what_helps_against_it() -> None:
    assert "Stop it" in words.held("RESUME_REFUSED", "WITHDRAWN: a").helps
    assert "role" in words.held("RESUME_REFUSED", "AUTHORITY: a").helps


def test_no_template_prints_a_code_that_has_words() -> None:
    raw = re.compile(r"{{ [\w.]*\b(phase|trigger|hold_reason|verdict|closing|cause) }}")
    # What a form sends back is a code.
    printed = {
        f"{path.name}: {found[0]}"
        for path in (BASE_DIR / "templates").rglob("*.html")
        for found in raw.finditer(path.read_text())
        if f'value="{found[0]}"' not in path.read_text()
    }
    assert not printed


def test_no_template_lowers_a_status_and_keeps_its_underscores() -> None:
    lowered = re.compile(r"\b(status|trigger|phase)\|lower")
    assert not [path.name for path in (BASE_DIR / "templates").rglob("*.html") if lowered.search(path.read_text())]
    assert words.plain("AWAITING_APPROVAL") == "awaiting approval"


def test_a_quoted_sentence_keeps_its_own_stop() -> None:
    assert words.held("PAUSED", "Not before the paper is wanted.").found == "“Not before the paper is wanted.”"
    assert words.ended("“And this.”") == "“And this.”"
    assert words.ended("“And this”") == "“And this”."
