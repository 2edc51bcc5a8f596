"""What people write is stored to be read: when it can't be, and why. Pure Python."""

from unicodedata import category

from checkpoints.envelope.secrets import secret_in
from runs.canonical import NotCanonical, check

# Letters and signs by their category that draw nothing.
_BLANKS = "\u115f\u1160\u3164\uffa0\u2800"


def unfit_text(text: str, limit: int, *, needed: bool = True) -> str:
    """Why a text of at most so many characters can't be stored to be read; nothing when it can.

    A replacement character means that what was sent was not UTF-8: it is refused, since its reader would not see that. So
    is a text that holds a secret (F10 c), and, where words are needed, one in which nobody sees any.
    """
    if needed and not _is_seen(text):
        return "it is empty; write it in words."
    if len(text) > limit:
        return f"{len(text)} characters, at most {limit}."
    if "\ufffd" in text:
        return "it holds bytes that are not UTF-8."
    try:
        check(text)
    except NotCanonical as error:
        return str(error)
    found = secret_in(text)
    return f"it looks like a {found}; write it without." if found else ""


def _is_seen(text: str) -> bool:
    """Whether it holds anything that leaves ink: a letter, a number, a mark of punctuation or a sign."""
    return any(category(char)[0] in "LNPS" and char not in _BLANKS for char in text)
