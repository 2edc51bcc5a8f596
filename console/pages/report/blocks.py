"""A report as plain blocks: what every export is written from. Nothing active gets this far.

The same parser as the page's: raw HTML and images are text, and a link leads to a receipt or a web page or is no link.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from markdown_it.token import Token

from console.pages.markdown import parsed
from console.pages.text import plain


@dataclass(frozen=True)
class Span:
    """A run of text in one style. Odd characters are named in it already. `href` leads to `call:<id>` or the web."""

    text: str
    bold: bool = False
    italic: bool = False
    code: bool = False
    href: str = ""


Spans = tuple[Span, ...]


@dataclass(frozen=True)
class Block:
    """One block: heading (`level` from 1), paragraph, code, rule or table.

    `around` is what it lies in, from the outside (`list` or `quote`), `marker` what stands before the first block of a
    list's item.
    """

    kind: str
    spans: Spans = ()
    level: int = 0
    around: tuple[str, ...] = ()
    marker: str = ""
    rows: tuple[tuple[Spans, ...], ...] = ()
    right: tuple[bool, ...] = ()

    @property
    def depth(self) -> int:
        return len(self.around)


@dataclass
class _Place:
    """Where the walk is: what it is in, the next numbers of the lists (0 for bullets), and the marker that waits."""

    around: list[str] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    marker: str = ""

    def enter(self, token: Token) -> None:
        if token.type in ("ordered_list_open", "bullet_list_open"):
            self.around.append("list")
            self.numbers.append(int(token.attrGet("start") or 1) if token.type == "ordered_list_open" else 0)
        elif token.type == "blockquote_open":
            self.around.append("quote")
        elif token.type == "list_item_open":
            number = self.numbers[-1]
            self.marker = f"{number}." if number else "•"
            self.numbers[-1] = number + 1 if number else 0
        elif token.type in ("ordered_list_close", "bullet_list_close"):
            self.around.pop()
            self.numbers.pop()
        elif token.type == "blockquote_close":
            self.around.pop()

    def taken(self) -> str:
        marker, self.marker = self.marker, ""
        return marker


def blocks_of(body: str) -> list[Block]:
    """The blocks of a report body, in order."""
    return list(_blocks(parsed(body)))


def _blocks(tokens: Sequence[Token]) -> Iterator[Block]:
    place, at = _Place(), 0
    while at < len(tokens):
        token = tokens[at]
        if token.type == "table_open":
            end = next(i for i in range(at, len(tokens)) if tokens[i].type == "table_close")
            yield _table(tokens[at:end], place)
            at = end
        elif token.type in ("fence", "code_block"):
            text = Span(plain_lines(token.content.rstrip("\n")), code=True)
            yield Block("code", (text,), around=tuple(place.around), marker=place.taken())
        elif token.type == "hr":
            yield Block("rule", around=tuple(place.around), marker=place.taken())
        elif token.type == "inline":
            opened = tokens[at - 1]
            kind, level = ("heading", int(opened.tag[1])) if opened.type == "heading_open" else ("paragraph", 0)
            yield Block(kind, spans_of(token), level, tuple(place.around), place.taken())
        else:
            place.enter(token)
        at += 1


def _table(tokens: Sequence[Token], place: _Place) -> Block:
    rows: list[tuple[Spans, ...]] = []
    cells: list[Spans] = []
    right: list[bool] = []
    for token in tokens:
        if token.type == "inline":
            cells.append(spans_of(token))
        elif token.type == "th_open":
            right.append(token.attrGet("style") == "text-align:right")
        elif token.type == "tr_close":
            rows.append(tuple(cells))
            cells = []
    return Block("table", around=tuple(place.around), marker=place.taken(), rows=tuple(rows), right=tuple(right))


def spans_of(inline: Token) -> Spans:
    """The runs of text of a line, each with the styles around it, with odd characters named."""
    return tuple(replace(span, text=plain_lines(span.text)) for span in raw_spans(inline))


def raw_spans(inline: Token) -> Iterator[Span]:
    """The runs of text of a line as they were written: whoever shows them names what is odd in them."""
    bold = italic = 0
    href = ""
    for token in inline.children or []:
        bold += {"strong_open": 1, "strong_close": -1}.get(token.type, 0)
        italic += {"em_open": 1, "em_close": -1}.get(token.type, 0)
        if token.type == "link_open":
            href = str(token.attrGet("href"))
        elif token.type == "link_close":
            href = ""
        elif token.type in ("text", "code_inline", "softbreak", "hardbreak"):
            text = {"softbreak": " ", "hardbreak": "\n"}.get(token.type) or token.content
            yield Span(text, bool(bold), bool(italic), token.type == "code_inline", href)


def plain_lines(text: str) -> str:
    """A text with its odd characters named and its lines kept."""
    return "\n".join(plain(line) for line in text.split("\n"))
