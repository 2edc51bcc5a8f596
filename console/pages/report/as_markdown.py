"""A report version as Markdown to take along: the same words, with nothing left in them that a viewer could run or fetch."""

import re

from console.pages.report.blocks import Block, Span, Spans, blocks_of
from console.pages.report.provenance import Provenance

_ACTIVE = re.compile(r"([\\`*_{}\[\]<>()#|~&!$])")
_LEADING = re.compile(r"^(\d{1,9}(?=[.)])|(?=[-+=]))([-+=.)])")
_TICKS = re.compile(r"`+")


def markdown_of(body: str, provenance: Provenance) -> str:
    """The body written anew from its blocks, and under a rule where it comes from."""
    parts = [_indented(block, _written(block, provenance)) for block in blocks_of(body)]
    facts = [f"- {_escaped(name)}: {_escaped(value)}" for name, value in provenance.facts]
    return "\n\n".join([*parts, "---", "\n".join(facts)]) + "\n"


def _written(block: Block, provenance: Provenance) -> str:
    if block.kind == "rule":
        return "***"
    if block.kind == "code":
        text = block.spans[0].text
        fence = "`" * max(3, 1 + max((len(ticks) for ticks in _TICKS.findall(text)), default=0))
        return f"{fence}\n{text}\n{fence}"
    if block.kind == "table":
        return _table(block, provenance)
    line = _line(block.spans, provenance)
    return f"{'#' * block.level} {line}" if block.kind == "heading" else line


def _table(block: Block, provenance: Provenance) -> str:
    rows = [f"| {' | '.join(_cell(cell, provenance) for cell in row)} |" for row in block.rows]
    rule = f"| {' | '.join('---:' if right else '---' for right in block.right)} |"
    return "\n".join([rows[0], rule, *rows[1:]])


def _cell(spans: Spans, provenance: Provenance) -> str:
    """A cell ends at a bar, in code too."""
    return "".join(
        _span(span, provenance).replace("|", r"\|") if span.code else _span(span, provenance) for span in spans
    )


def _line(spans: Spans, provenance: Provenance) -> str:
    return _LEADING.sub(r"\1\\\2", "".join(_span(span, provenance) for span in spans))


def _span(span: Span, provenance: Provenance) -> str:
    text = span.text.replace("\n", " ")
    if span.code:
        ticks = "`" * (1 + max((len(found) for found in _TICKS.findall(text)), default=0))
        written = f"{ticks} {text} {ticks}"
    else:
        written = _styled(_escaped(text), span)
    return f"[{written}](<{provenance.address(span.href)}>)" if span.href else written


def _styled(text: str, span: Span) -> str:
    """Marks stand at the words, not at the spaces around them, else they mark nothing."""
    words = text.strip(" ")
    if not words:
        return text
    marked = f"_{words}_" if span.italic else words
    marked = f"**{marked}**" if span.bold else marked
    lead = len(text) - len(text.lstrip(" "))
    return f"{text[:lead]}{marked}{' ' * (len(text) - lead - len(words))}"


def _escaped(text: str) -> str:
    return _ACTIVE.sub(r"\\\1", text.replace("\n", " "))


def _indented(block: Block, text: str) -> str:
    """Lists and quotes as what stands before each line, with the marker of an item before its first one."""
    marked = max((place for place, kind in enumerate(block.around) if kind == "list"), default=-1)
    marker = {"": "    ", "•": "-   "}.get(block.marker) or f"{block.marker} ".ljust(4)
    edges = ["> " if kind == "quote" else "    " for kind in block.around]
    first = [marker if place == marked else edge for place, edge in enumerate(edges)]
    lines = text.split("\n")
    return "\n".join([f"{''.join(first)}{lines[0]}", *(f"{''.join(edges)}{line}" for line in lines[1:])])
