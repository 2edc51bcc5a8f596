"""Two versions of a report as one text, as it is read: what came, what went and what changed is marked inside, by sign and weight.

Both go through the parser and the renderer of the report's page, so nothing active gets here, and numbers stay linked to their receipts.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from markdown_it.tree import SyntaxTreeNode

from console.pages.diff import matched
from console.pages.markdown import fitted, host_html, html_of, link_open
from console.pages.report.blocks import Span, raw_spans
from console.pages.text import exact

LONGEST = 200_000  # characters of one version; longer ones are compared as lines only
KEPT = 1  # parts that are the same, shown beside one that is not
FOLDED = 3  # so many in a row, beyond those, are folded
ALIKE = 0.3  # the share of common words from which two blocks are one that changed
_PAIRS = 2_500  # of a stretch with more possible pairs, none are looked for
_LINES = frozenset({"paragraph", "heading", "th", "td"})
_CODE = frozenset({"fence", "code_block"})
_ROWS = frozenset({"thead", "tbody", "tr"})
_WORD = re.compile(r"\n|[^ \n]+ *| +")
_SIGNS = {"del": ("−", "Removed: "), "ins": ("+", "Added: ")}


@dataclass(frozen=True)
class Part:
    """One block of the report. Kinds: same, chg, del and add."""

    kind: str
    html: SafeString


@dataclass(frozen=True)
class Stretch:
    """Parts in a row that are shown (`folded` False), or that are the same and folded."""

    parts: Sequence[Part]
    folded: bool = False


@dataclass(frozen=True)
class RenderedDifference:
    """The parts in order, and how many changed, came, went and stayed."""

    stretches: Sequence[Stretch]
    changed: int
    added: int
    removed: int
    same: int

    @property
    def none(self) -> bool:
        return not (self.changed or self.added or self.removed)


def rendered_difference(before: str, after: str) -> RenderedDifference | None:
    """What differs between two bodies of reports as they are read; None where one is too long to be compared so."""
    if max(len(before), len(after)) > LONGEST:
        return None
    parts = [Part(move.kind, move.html) for move in _moves(_children(_root(before)), _children(_root(after)))]
    counts = Counter(part.kind for part in parts)
    return RenderedDifference(list(_folded(parts)), counts["chg"], counts["add"], counts["del"], counts["same"])


def _folded(parts: Sequence[Part]) -> Iterator[Stretch]:
    for same, group in groupby(parts, key=lambda part: part.kind == "same"):
        run = list(group)
        if not same or len(run) <= FOLDED + 2 * KEPT:
            yield Stretch(run)
        else:
            yield Stretch(run[:KEPT])
            yield Stretch(run[KEPT:-KEPT], folded=True)
            yield Stretch(run[-KEPT:])


# ── blocks ───────────────────────────────────────────────────────────────────


@dataclass(frozen=True, eq=False)
class _Block:
    """A block of a report, with the blocks inside it. Two are the same when they read the same."""

    node: SyntaxTreeNode

    @cached_property
    def html(self) -> SafeString:
        return html_of(self.node.to_tokens())

    @cached_property
    def words(self) -> Counter[str]:
        return Counter(word for text in _texts(self.node) for word in text.split())

    @property
    def shape(self) -> tuple[object, ...]:
        """What two versions of one block have in common: what it is, and the columns of a table."""
        columns = sum(1 for node in self.node.walk() if node.type == "th") if self.node.type == "table" else 0
        cells = len(self.node.children) if self.node.type == "tr" else 0
        return self.node.type, self.node.tag, columns, cells

    def around(self, inside: SafeString) -> SafeString:
        """The block with something else inside."""
        tokens = self.node.to_tokens()
        return format_html("{}{}{}", html_of(tokens[:1]), inside, html_of(tokens[-1:]))


def _root(body: str) -> SyntaxTreeNode:
    return SyntaxTreeNode(fitted(body))


def _children(node: SyntaxTreeNode) -> list[_Block]:
    return [_Block(child) for child in node.children]


def _texts(node: SyntaxTreeNode) -> Iterator[str]:
    for one in node.walk():
        if one.type in _CODE:
            yield one.content
        elif one.type == "inline":
            yield "".join(span.text for span in _spans(one))


def _spans(node: SyntaxTreeNode) -> list[Span]:
    return [span for token in node.to_tokens() if token.type == "inline" for span in raw_spans(token)]


# ── matching blocks ──────────────────────────────────────────────────────────


@dataclass(frozen=True)
class _Move:
    """What became of one block: it stayed, changed, went (`now` is None) or came (`was` is None)."""

    was: _Block | None
    now: _Block | None

    @property
    def kind(self) -> str:
        if self.was is None:
            return "add"
        if self.now is None:
            return "del"
        return "same" if self.was.html == self.now.html else "chg"

    @property
    def html(self) -> SafeString:
        if self.was is None or self.now is None:
            return _whole(self.now, "ins") if self.now else _whole(self.was, "del") if self.was else SafeString("")
        return self.now.html if self.kind == "same" else _changed(self.was, self.now)


def _moves(before: Sequence[_Block], after: Sequence[_Block]) -> Iterator[_Move]:
    for tag, b1, b2, a1, a2 in matched([block.html for block in before], [block.html for block in after]):
        if tag == "equal":
            yield from map(_Move, before[b1:b2], after[a1:a2])
        else:
            yield from _replaced(before[b1:b2], after[a1:a2])


def _replaced(before: Sequence[_Block], after: Sequence[_Block]) -> Iterator[_Move]:
    b = a = 0
    for was, now in [*_likeliest(before, after), (len(before), len(after))]:
        yield from (_Move(one, None) for one in before[b:was])
        yield from (_Move(None, one) for one in after[a:now])
        if was < len(before):
            yield _Move(before[was], after[now])
        b, a = was + 1, now + 1


def _likeliest(before: Sequence[_Block], after: Sequence[_Block]) -> list[tuple[int, int]]:
    """The pairs, in order, that together have most in common."""
    if len(before) * len(after) > _PAIRS:
        return []
    best: list[list[tuple[float, list[tuple[int, int]]]]] = [[(0.0, [])] * (len(after) + 1)]
    for b, was in enumerate(before):
        row = [(0.0, list[tuple[int, int]]())]
        for a, now in enumerate(after):
            likeness, (score, pairs) = _likeness(was, now), best[b][a]
            taken = [(score + likeness, [*pairs, (b, a)])] if likeness >= ALIKE else []
            row.append(max([best[b][a + 1], row[a], *taken], key=lambda found: found[0]))
        best.append(row)
    return best[-1][-1][1]


def _likeness(was: _Block, now: _Block) -> float:
    """The share of words that two blocks of one shape have in common."""
    total = was.words.total() + now.words.total()
    if was.shape != now.shape or not total:
        return 0.0
    return 2 * (was.words & now.words).total() / total


# ── showing them ─────────────────────────────────────────────────────────────


def _joined(parts: Iterable[SafeString]) -> SafeString:
    return format_html_join("", "{}", ((part,) for part in parts))


def _mark(tag: str, html: SafeString) -> SafeString:
    """Words that came or went. No sign stands before them: one before a number would read as its own."""
    return format_html('<{0}><span class="vh">{1}</span>{2}</{0}>', SafeString(tag), _SIGNS[tag][1], html)


def _whole(block: _Block, tag: str) -> SafeString:
    """A block that came or went whole; rows, cells and items of lists keep their place in what they are in."""
    inner = _children(block.node)
    if block.node.type in _ROWS:
        return block.around(_joined(_whole(one, tag) for one in inner))
    if block.node.type in _LINES - {"paragraph", "heading"}:
        return block.around(_mark(tag, _run(_words(block.node))))
    if block.node.type == "list_item":
        sign = format_html('<span class="sg" aria-hidden="true">{}</span>', _SIGNS[tag][0])
        return block.around(format_html("{}{}", sign, _mark(tag, _joined(one.html for one in inner))))
    return _mark(tag, block.html)


def _changed(was: _Block, now: _Block) -> SafeString:
    if now.node.type in _CODE:
        return format_html('<pre class="well">{}</pre>', _marked(_code_words(was.node), _code_words(now.node)))
    if now.node.type in _LINES:
        return now.around(_marked(_words(was.node), _words(now.node)))
    pairs = zip(_children(was.node), _children(now.node), strict=True) if now.node.type == "tr" else None
    moves = _moves(_children(was.node), _children(now.node)) if pairs is None else (_Move(*pair) for pair in pairs)
    return now.around(_joined(move.html for move in moves))


# ── words ────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class _Word:
    """A word with the space behind it, and how it is written. The space makes no difference in prose."""

    text: str
    span: Span
    key: tuple[object, ...]

    @property
    def style(self) -> tuple[object, ...]:
        return self.key[1:]


def _words(node: SyntaxTreeNode) -> list[_Word]:
    return [
        _Word(text, span, (text.rstrip(" "), span.bold, span.italic, span.code, span.href))
        for span in _spans(node)
        for text in _WORD.findall(span.text)
    ]


def _code_words(node: SyntaxTreeNode) -> list[_Word]:
    return [_Word(text, Span(text), (text,)) for text in _WORD.findall(node.content)]


def _marked(before: Sequence[_Word], after: Sequence[_Word]) -> SafeString:
    """The words of a line with what came and went marked. Where little stayed, all that went stands before all that came."""
    blocks = matched([word.key for word in before], [word.key for word in after])
    kept = sum(b2 - b1 for tag, b1, b2, _, _ in blocks if tag == "equal")
    if 2 * kept < ALIKE * (len(before) + len(after)):
        blocks = [("replace", 0, len(before), 0, len(after))]
    return _joined(part for tag, b1, b2, a1, a2 in blocks for part in _pieces(tag, before[b1:b2], after[a1:a2]))


def _pieces(tag: str, before: Sequence[_Word], after: Sequence[_Word]) -> Iterator[SafeString]:
    if tag == "equal":
        yield _run(after)
        return
    for mark, words in (("del", before), ("ins", after)):
        if words:
            yield _mark(mark, _run(words))


def _run(words: Sequence[_Word]) -> SafeString:
    """Words in a row, each in its own style."""
    return _joined(_styled([*group]) for _, group in groupby(words, key=lambda word: word.style))


def _styled(words: Sequence[_Word]) -> SafeString:
    span, lines = words[0].span, "".join(word.text for word in words).split("\n")
    html = format_html_join(SafeString("<br>"), "{}", ((exact(line),) for line in lines))
    for given, tag in ((span.code, "code"), (span.italic, "em"), (span.bold, "strong")):
        html = format_html("<{0}>{1}</{0}>", SafeString(tag), html) if given else html
    return format_html("{}{}</a>{}", link_open(span.href), html, host_html(span.href)) if span.href else html
