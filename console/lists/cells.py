"""What stands in a column of a list: on the page by its kind, in an export as plain text."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

# What a cell that begins so does in a spreadsheet; the wide signs count where people write with them.
DANGEROUS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
SHORT = 32  # characters


@dataclass(frozen=True)
class Cell:
    """One value. `kind` says how the page draws it: text, link, state, when, person, id, number, effect, thread, digest, phase,
    word, tags, places, moment, trigger, size (in bytes) or ids (text whose ids and digests the page shortens); `note` is the
    small line beside it, `machine` whose state it is; beside a link the note is such a state.
    """

    kind: str
    value: Any
    url: str = ""
    note: str = ""
    machine: str = ""

    @property
    def none(self) -> bool:
        """True where there is nothing to show."""
        return self.value is None or self.value == ""

    @property
    def short(self) -> bool:
        """True for what takes one line wherever there is room for a table."""
        return len(self.plain) <= SHORT

    @property
    def plain(self) -> str:
        """As an export holds it: moments in full, nothing for nothing."""
        if self.value is None:
            return ""
        if isinstance(self.value, tuple):
            return " ".join(self.value)
        return self.value.isoformat() if isinstance(self.value, datetime) else str(self.value)


@dataclass(frozen=True)
class Column:
    """A column: its key in the URL, its head, and the cell of a row. `reads` is the relation that the cell looks into, which is joined
    where the column is shown.
    """

    key: str
    head: str
    cell: Callable[[Any], Cell]
    reads: str = ""


# Where a spreadsheet of another country begins a cell in the middle of one of ours: many split lines at semicolons.
# What some of them leave out in front of a formula: space of every kind, and what nobody sees.
_UNSEEN = r"[\s\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]*"
_SIGN = r"[=+\-@＝＋－＠]"
_INSIDE = re.compile(rf"(?<=.)([;\t\r\n]{_UNSEEN})(?={_SIGN})", re.DOTALL)
_BEHIND_NOTHING_SEEN = re.compile(_UNSEEN + _SIGN)


def formula_safe(text: str) -> str:
    """Text that no spreadsheet takes for a formula: what begins like one gets an apostrophe in front, also behind a sign at which
    some of them begin another cell.
    """
    inside = _INSIDE.sub(r"\1'", text)
    begins = text.startswith(DANGEROUS) or _BEHIND_NOTHING_SEEN.match(text)
    return f"'{inside}" if begins else inside
