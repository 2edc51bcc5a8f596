"""Differences as lines: two JSON values or two texts, side by side. What is the same is folded and said to be the same."""

import difflib
import re
from collections.abc import Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from console.pages.arguments import leaf_text, leaves
from console.pages.legible import differing, legible
from console.pages.text import exact

CONTEXT = 2  # unchanged lines kept beside a changed one
LINE_LIMIT = 4000  # a differing middle that is longer is not matched line by line, only shown
_WORDS = re.compile(r"\s+|\S+")

Block = tuple[str, int, int, int, int]


@dataclass(frozen=True)
class Piece:
    """One line of a value or a text. Two pieces are the same when label and text are; a section groups them."""

    section: str
    label: str
    text: str
    first: bool = True  # False for the second and later lines of one text
    quoted: bool = False  # its first and its last character are the quotes around a value

    @property
    def key(self) -> tuple[str, str]:
        return self.label, self.text

    def shown(self, text: SafeString) -> SafeString:
        """The line as it reads: the path below its section's heading, then the text."""
        label = self.label.removeprefix(self.section).lstrip(".") if self.first else ""
        return format_html("{}: {}", exact(label, one_line=True), text) if label else text


@dataclass(frozen=True)
class Line:
    """One line of a difference. Kinds: same, chg, del and add."""

    kind: str
    was: Piece | None
    now: Piece | None
    before_no: int | None
    after_no: int | None

    @property
    def section(self) -> str:
        piece = self.now or self.was
        return piece.section if piece else ""

    @property
    def before(self) -> SafeString | str:
        return self._side(self.was, self.now, "<del>{}</del>")

    @property
    def after(self) -> SafeString | str:
        return self._side(self.now, self.was, "<ins>{}</ins>")

    def _side(self, own: Piece | None, other: Piece | None, mark: str) -> SafeString | str:
        if own is None:
            return ""
        if self.kind == "same":
            return own.shown(legible(own.text, quoted=(own.quoted, own.quoted)))
        return own.shown(_marked(own, other.text if other else "", mark))


@dataclass(frozen=True)
class Gap:
    """A row between the lines: the heading of a section (`path`), or a stretch that is the same (`fold`)."""

    kind: str
    before: SafeString | str

    @property
    def after(self) -> SafeString | str:
        return self.before


LONG = 20  # differing lines that are shown without being asked for


@dataclass(frozen=True)
class Difference:
    """The rows to show, and how many lines changed, came, went and stayed."""

    lines: list[Line | Gap]
    changed: int
    added: int
    removed: int
    same: int

    @property
    def none(self) -> bool:
        return not (self.changed or self.added or self.removed)

    @property
    def long(self) -> bool:
        """True for one that would push everything below it off the screen: it is shown once it is asked for."""
        return self.changed + self.added + self.removed > LONG


def json_pieces(value: dict[str, Any]) -> list[Piece]:
    """The leaves of a JSON object, one a line, grouped by its first key; a text of several lines takes several, each as it
    stands, without the quotes that would seem to be part of its first and last one.
    """
    return [
        Piece(section, path, line, first=number == 0, quoted=isinstance(leaf, str) and len(lines) == 1)
        for section, part in value.items()
        for path, leaf in leaves({section: part})
        for lines in (_lines_of(leaf),)
        for number, line in enumerate(lines)
    ]


def _lines_of(leaf: Any) -> list[str]:
    return leaf.split("\n") if isinstance(leaf, str) and "\n" in leaf else [leaf_text(leaf)]


def text_pieces(text: str) -> list[Piece]:
    """The lines of a text."""
    return [Piece("", "", line) for line in text.split("\n")]


def difference(before: Sequence[Piece], after: Sequence[Piece]) -> Difference:
    """What differs from `before` to `after`, with unchanged parts folded."""
    lines = list(_lines(before, after))
    counts = {kind: sum(1 for line in lines if line.kind == kind) for kind in ("chg", "add", "del", "same")}
    return Difference(list(_folded(lines)), counts["chg"], counts["add"], counts["del"], counts["same"])


# ── matching ─────────────────────────────────────────────────────────────────


def _lines(before: Sequence[Piece], after: Sequence[Piece]) -> Iterator[Line]:
    for tag, b1, b2, a1, a2 in matched([p.key for p in before], [p.key for p in after]):
        if tag == "equal":
            pairs = zip(range(b1, b2), range(a1, a2), strict=True)
            yield from (Line("same", before[b], after[a], b + 1, a + 1) for b, a in pairs)
        else:
            yield from _replaced(before, range(b1, b2), after, range(a1, a2))


def matched(before: Sequence[Hashable], after: Sequence[Hashable]) -> list[Block]:
    """Equal and replaced blocks in order. A very long differing middle is one block: matching it would take too long."""
    head = _common(before, after)
    tail = _common(before[head:][::-1], after[head:][::-1])
    b_end, a_end = len(before) - tail, len(after) - tail
    middle: list[Block] = [("replace", head, b_end, head, a_end)]
    if max(b_end, a_end) - head <= LINE_LIMIT:
        matcher = difflib.SequenceMatcher(None, before[head:b_end], after[head:a_end])
        middle = [(tag, b1 + head, b2 + head, a1 + head, a2 + head) for tag, b1, b2, a1, a2 in matcher.get_opcodes()]
    return [("equal", 0, head, 0, head), *middle, ("equal", b_end, len(before), a_end, len(after))]


def _common(before: Sequence[object], after: Sequence[object]) -> int:
    """How many items both begin with."""
    differing = (i for i, (b, a) in enumerate(zip(before, after, strict=False)) if b != a)
    return next(differing, min(len(before), len(after)))


def _replaced(before: Sequence[Piece], gone: range, after: Sequence[Piece], come: range) -> Iterator[Line]:
    """Pair lines of the same label in order; what has no partner went or came."""
    b, a = gone.start, come.start
    waiting = {after[at].label for at in come}
    while b < gone.stop or a < come.stop:
        was = before[b] if b < gone.stop else None
        now = after[a] if a < come.stop else None
        if was and now and was.label == now.label:
            yield Line("chg", was, now, b + 1, a + 1)
            b, a = b + 1, a + 1
        elif was and (now is None or was.label not in waiting):
            yield Line("del", was, None, b + 1, None)
            b += 1
        else:
            yield Line("add", None, now, None, a + 1)
            a += 1


def _marked(own: Piece, other: str, mark: str) -> SafeString:
    """A line with the words between the common start and the common end marked; in a single word, the characters that differ.

    Words stay whole, so that a foreign letter in one of them is still named.
    """
    words, others = _WORDS.findall(own.text), _WORDS.findall(other)
    start = _common(words, others)
    end = _common(words[start:][::-1], others[start:][::-1])
    head, middle, tail = (
        "".join(part) for part in (words[:start], words[start : len(words) - end], words[len(words) - end :])
    )
    marks = within(middle, "".join(others[start : len(others) - end]))
    shown = legible(middle, marks=marks, quoted=(own.quoted and not head, own.quoted and not tail)) if middle else ""
    return format_html(
        "{}{}{}",
        legible(head, quoted=(own.quoted, False)) if head else "",
        format_html(mark, shown) if middle else "",
        legible(tail, quoted=(False, own.quoted)) if tail else "",
    )


def within(word: str, other: str) -> Collection[int]:
    """The positions to mark in what changed, where both are one word."""
    if _WORDS.fullmatch(word) and _WORDS.fullmatch(other):
        return differing(word, other)[0]
    return ()


# ── folding ──────────────────────────────────────────────────────────────────


def _folded(lines: Sequence[Line]) -> Iterator[Line | Gap]:
    """Headings before each section that differs, and one line for each stretch that does not."""
    for is_same, found in groupby(_sections(lines), lambda one: all(line.kind == "same" for line in one[1])):
        sections = list(found)
        if is_same:
            yield _fold([name for name, _ in sections], sum(len(part) for _, part in sections))
            continue
        for name, part in sections:
            if name:
                yield Gap("path", exact(name, one_line=True))
            yield from _stretches(part)


def _fold(names: Sequence[str], lines: int) -> Gap:
    """One row for neighbouring sections that are the same."""
    named = format_html_join(", ", "{}", ((exact(name, one_line=True),) for name in names if name))
    return Gap("fold", format_html("{}: {}", named, _same(lines)) if named else _same(lines))


def _sections(lines: Sequence[Line]) -> Iterator[tuple[str, Sequence[Line]]]:
    start = 0
    for at in range(1, len(lines) + 1):
        if at == len(lines) or lines[at].section != lines[start].section:
            yield lines[start].section, lines[start:at]
            start = at


def _stretches(lines: Sequence[Line]) -> Iterator[Line | Gap]:
    hidden = 0
    for at, line in enumerate(lines):
        if any(near.kind != "same" for near in lines[max(0, at - CONTEXT) : at + CONTEXT + 1]):
            if hidden:
                yield Gap("fold", _same(hidden))
            hidden = 0
            yield line
        else:
            hidden += 1
    if hidden:
        yield Gap("fold", _same(hidden))


def _same(count: int) -> str:
    return f"{count} line{'' if count == 1 else 's'}, the same byte for byte"
