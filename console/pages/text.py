"""Untrusted text made exact: nothing hidden, nothing executed. Pure functions that return safe HTML.

Whatever a model, a tool, a file or a person wrote goes through here. Every character that cannot be seen, that changes
the direction of its neighbours, or that looks like a letter of another script gets a named pill. Nothing is removed.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape  # as Django's own does it for a text, without its care for lazy ones

from django.utils.safestring import SafeString, mark_safe

# Short names for what people meet often; the rest shows as its code point.
_NAMES = {
    "\t": "TAB",
    "\n": "LF",
    "\r": "CR",
    "\x0b": "VT",
    "\x0c": "FF",
    "\x1b": "ESC",
    "\x85": "NEL",
    "\xa0": "NBSP",
    "\xad": "SHY",
    "\u202f": "NNBSP",
    "\u3000": "IDSP",
}
_CONTROL_NAMES = {
    "\t": "character tabulation",
    "\n": "line feed",
    "\r": "carriage return",
    "\x1b": "escape",
    "\x00": "null",
    "\x7f": "delete",
}

# Spaces that are wider, narrower or unbreakable, and the two selectors that emoji carry: shown, but quietly.
_QUIET = "\t\n\xa0\u1680\u2000-\u200a\u202f\u205f\u3000\ufe0e\ufe0f"
# Controls, format and direction marks, line and paragraph separators, fillers that draw nothing, selectors, tags,
# private use, lone surrogates and noncharacters.
_LOUD = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160\u17b4\u17b5"
    "\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ud800-\udfff\ue000-\uf8ff\ufdd0-\ufdef"
    "\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffc\ufffe\uffff\U000110bd\U000110cd\U00013430-\U0001343f"
    "\U0001bca0-\U0001bca3\U0001d159\U0001d173-\U0001d17a\U000e0000-\U000e0fff\U000f0000-\U0010ffff"
    + "".join(f"{chr(plane * 0x10000 + 0xFFFE)}{chr(plane * 0x10000 + 0xFFFF)}" for plane in range(1, 15))
)
# A fourth combining mark on one letter starts to cover the neighbouring lines.
_PILED = (
    "(?<=[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]{3})"
    "[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]"
)
_ODD = re.compile(f"(?P<quiet>[{_QUIET}])|(?P<loud>[{_LOUD}])|(?P<piled>{_PILED})")

FEW = 3  # marks piled on one letter that are still shown one by one

_LATIN = "A-Za-z\xc0-\u024f"
_LOOKALIKE = "\u0370-\u03ff\u0400-\u052f\u0531-\u058f\u13a0-\u13ff\uff21-\uff5a"
_DIGEST = re.compile(r"\b([0-9a-f]{8})[0-9a-f]{56}\b")
_ID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{6}([0-9a-f]{6})\b")
_WORD = re.compile(r"[^\W\d_]+")
_LATIN_LETTER = re.compile(f"[{_LATIN}]")
_FOREIGN_LETTER = re.compile(f"[{_LOOKALIKE}]")


@dataclass(frozen=True)
class Odd:
    """One character that a reader would not see as it is. Kinds: quiet, loud (draws nothing or moves others), piled
    (one combining mark too many) and lookalike (a foreign letter inside a Latin word).
    """

    position: int
    char: str
    kind: str

    @property
    def loud(self) -> bool:
        """True for all but the quiet ones: a person has to mark it as seen before an approval."""
        return self.kind != "quiet"

    @property
    def point(self) -> str:
        return f"U+{ord(self.char):04X}"

    @property
    def label(self) -> str:
        return _NAMES.get(self.char, self.point)

    @property
    def name(self) -> str:
        """The Unicode name in lower case, or what kind of code point it is."""
        named = _CONTROL_NAMES.get(self.char) or unicodedata.name(self.char, "").lower()
        return named or {"Cc": "control character", "Co": "private use", "Cs": "lone surrogate"}.get(
            unicodedata.category(self.char), "not a character"
        )


def odd_characters(text: str) -> list[Odd]:
    """Every odd character of `text`, by position. A line feed, a tab and wide spaces are quiet; the rest is loud."""
    if text.isascii() and text.isprintable():  # most texts, and none of them has one
        return []
    found = [Odd(m.start(), m[0], m.lastgroup or "") for m in _ODD.finditer(text)]
    for word in _WORD.finditer(text) if _FOREIGN_LETTER.search(text) else ():
        if _LATIN_LETTER.search(word[0]):
            foreign = _FOREIGN_LETTER.finditer(text, word.start(), word.end())
            found += [Odd(m.start(), m[0], "lookalike") for m in foreign]
    return sorted(found, key=lambda odd: odd.position)


def loud_characters(text: str) -> list[Odd]:
    """The odd characters that a person has to mark as seen."""
    return [odd for odd in odd_characters(text) if odd.loud]


def exact(text: str, *, one_line: bool = False) -> SafeString:
    """`text` as safe HTML, inert and with every odd character named.

    Lines are kept (the surrounding block wraps with pre-wrap); `one_line` names line feeds instead of breaking.
    """
    parts: list[str] = []
    end = 0
    for run in _runs(odd_characters(text)):
        parts += [escape(text[end : run[0].position]), _shown_pile(run) if run[FEW:] else _shown(run[0], one_line)]
        end = run[-1].position + 1
    parts.append(escape(text[end:]))
    return mark_safe(f'<bdi dir="ltr">{"".join(parts)}</bdi>')  # noqa: S308 - every part is escaped above


def _runs(found: Sequence[Odd]) -> Iterator[list[Odd]]:
    """Each odd character by itself, but more than a few marks on one letter together."""
    at = 0
    while at < len(found):
        end = at + 1
        while end < len(found) and found[end].kind == "piled" and found[end].position == found[end - 1].position + 1:
            end += 1
        if found[at].kind == "piled" and end - at > FEW:
            yield list(found[at:end])
            at = end
        else:
            yield [found[at]]
            at += 1


def shown_characters(text: str) -> dict[int, str]:
    """The odd characters of `text` by position, each as `exact` shows it."""
    return {odd.position: _shown(odd, one_line=False) for odd in odd_characters(text)}


def with_short_ids(text: str) -> SafeString:
    """`text` on one line as `exact` shows it, with the tail of each id and the head of each SHA-256 in it, whole on hover."""
    shown = _DIGEST.sub(r'<span class="digest" title="sha256 \g<0>"><b>\1</b>…</span>', exact(text, one_line=True))
    return mark_safe(_ID.sub(r'<span class="id" title="\g<0>">…<b>\1</b></span>', shown))  # noqa: S308 - hexadecimal only


def plain(text: str) -> str:
    """`text` for places that hold no markup: each odd character as its label in brackets. The caller escapes it."""
    parts: list[str] = []
    end = 0
    for odd in odd_characters(text):
        parts += [text[end : odd.position], f"[{odd.label}]"]
        end = odd.position + 1
    return "".join([*parts, text[end:]])


def _shown_pile(run: Sequence[Odd]) -> str:
    """Marks piled on one letter as one sign, which names the first; the others are named on hover, in their order."""
    named = escape(", ".join(odd.point for odd in run))
    return f'<span class="inv" title="{len(run)} combining marks: {named}">{run[0].label} +{len(run) - 1} marks</span>'


def _shown(odd: Odd, one_line: bool) -> str:
    if odd.char == "\n" and not one_line:
        return "\n"
    letter = f"{escape(odd.char)} " if odd.kind == "lookalike" else ""
    quiet = "" if odd.loud else " inv--plain"
    return f'<span class="inv{quiet}" title="{odd.point} {escape(odd.name)}">{letter}{escape(odd.label)}</span>'
