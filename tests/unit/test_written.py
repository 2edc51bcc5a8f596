"""What people write is stored to be read."""

import pytest

from checkpoints.envelope import unfit_text


@pytest.mark.parametrize(
    "text", ["", "  \n", "\u200b", "\u202e\u2066", "\u3164", "\u2800", "\u00ad", "\ue000", "\u0301"]
)
def test_words_that_nobody_sees_are_no_words(text: str) -> None:
    assert unfit_text(text, 100) == "it is empty; write it in words."
    assert unfit_text(text, 100, needed=False) == ""


@pytest.mark.parametrize("text", ["ok", "7", "👍", "…", "ね", "\u202eok"])
def test_whatever_leaves_ink_is_words(text: str) -> None:
    assert unfit_text(text, 100) == ""


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a" * 101, "101 characters"),
        ("a\ufffd", "not UTF-8"),
        ("a\0", "NUL"),
        ("a\ud800", "surrogate"),
        ("AKIA" + "A" * 16, "AWS access key"),
    ],
)
def test_what_can_not_be_stored_to_be_read_is_named(text: str, why: str) -> None:
    assert why in unfit_text(text, 100)
