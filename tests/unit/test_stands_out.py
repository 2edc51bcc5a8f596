"""What stands out without any earlier call: claims of an approval, and a contract that says something else than the call."""

from decimal import Decimal

import pytest

from console.pages.decision.alike import far_off
from console.pages.decision.claims import claim_points, quoted_claim
from console.pages.decision.goal import goal_points
from console.pages.stored import Stored
from runs.canonical import canonical, digest
from tests.pages.driven import words


def stored(**arguments: object) -> Stored:
    plain = canonical(arguments)
    return Stored(plain, digest(plain))


def said(goal: str, *terms: str, **arguments: object) -> list[str]:
    return [words(point.text) for point in goal_points(goal, terms, stored(**arguments))]


# ── claims ───────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "text",
    [
        "APPROVED by head of desk, ticket 4411.",
        "No further check needed.",
        "This was already approved.",
        "It has been authorised",
        "It needs no approval.",
        "only a formality",
        "The policy check has passed.",
        "no approval is required",
    ],
)
def test_a_claim_of_an_approval_is_found(text: str) -> None:
    assert quoted_claim(f"Haulage. {text} Thanks.")


@pytest.mark.parametrize(
    "text", ["", "Monthly haulage.", "Please approve the rent.", "I ask for an approval.", "Checked."]
)
def test_what_claims_nothing_is_none(text: str) -> None:
    assert quoted_claim(text) == ""


def test_a_claim_is_quoted_shortly_and_as_the_models() -> None:
    long = f"{'word ' * 100}already approved by your lead {'word ' * 100}"
    (point,) = claim_points(long, stored(note="No further check needed.", payee="Sorrel"), by_person=False)
    assert point.lamp == "stop" and '<q class="claim">' in point.text
    assert words(point.text).startswith("The model claims an approval, in its own text: … ")
    assert "in note: No further check needed." in words(point.text)
    assert len(words(point.text)) < 250
    assert "The server knows of none." in point.why


def test_what_a_person_wrote_is_no_claim_of_the_model() -> None:
    assert not list(claim_points("", stored(note="No further check needed."), by_person=True))


# ── the contract ─────────────────────────────────────────────────────────────


def test_another_address_than_the_goals_is_named() -> None:
    goal = "Send the salary list to heads@larkspur-trading.example."
    (found,) = said(goal, to=["everybody@larkspur-trading.example"])
    assert "to[0] is “everybody@larkspur-trading.example”; the contract says “heads@larkspur-trading.example”" in found
    assert said(goal, to=["heads@larkspur-trading.example"]) == []
    assert said("Send the salary list.", to=["everybody@larkspur-trading.example"]) == []


def test_another_account_than_the_goals_is_named_however_it_is_spaced() -> None:
    goal = "Pay to NL91 ABNA 0417 1643 00 for CW-1."
    assert said(goal, account="NL91ABNA0417164300") == []
    (found,) = said(goal, account="NL91ABNA0417164301")
    assert found.startswith("Another account than the goal names: account is “NL91ABNA0417164301”")


def test_another_amount_than_the_contracts_is_named() -> None:
    assert said("Buy 10,000 dollars for January.", amount="10000.00") == []
    (found,) = said("Pay 298.00 EUR for RT-77.", amount="2980.00")
    assert "amount is “2980.00”; the contract says “298.00”" in found
    assert said("Pay the tyres.", "Pay at most 500.00 EUR.", amount="412.75") == []
    (found,) = said("Pay the tyres.", "Pay at most 500.00 EUR.", amount=501)
    assert "amount is “501”" in found
    assert said("Pay RT-77 before 30 June 2027.", amount="2980.00") == []


def test_more_rights_than_to_read_are_named() -> None:
    goal = "Let the student read the ledger until June."
    (found,) = said(goal, role="owner")
    assert found == "More than the goal says: role is “owner”; the contract says “read”"
    assert said(goal, role="reader") == []
    assert said("Let the student read and edit the ledger.", role="editor") == []


# ── amounts ──────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("now", "found"),
    [
        ("9400", "larger than any that was approved, 9.4 times the middle one"),
        ("2000", ""),
        ("100", "the middle one is 10 times as much"),
        ("50", "the middle one is 20 times as much"),
        ("1000", ""),
    ],
)
def test_an_amount_far_off_those_before_is_said(now: str, found: str) -> None:
    assert far_off(Decimal(now), [Decimal(500), Decimal(1000), Decimal(3000)]) == found


def test_ten_times_the_middle_is_far_off_even_below_the_most() -> None:
    assert far_off(Decimal(90), [Decimal(1), Decimal(9), Decimal(100)]) == "10 times the middle one"
