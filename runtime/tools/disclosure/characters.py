"""Naming characters that look like others: what a person can't see in a cell, a refusal has to say."""

import unicodedata


def named(char: str) -> str:
    """A character with its code point and its name, e.g. `"А" (U+0410 CYRILLIC CAPITAL LETTER A)`."""
    name = unicodedata.name(char, "")
    return f'"{char}" (U+{ord(char):04X}{" " if name else ""}{name})'


def foreign(text: str) -> str | None:
    """The first character beyond ASCII, or None."""
    return next((char for char in text if not char.isascii()), None)


def folded(text: str) -> str:
    """Lower case without accents, so that `Général` and `general` are one word."""
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    return "".join(char for char in decomposed if not unicodedata.combining(char))
