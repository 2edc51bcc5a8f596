"""A report version as PDF: text, rules and links to the web, from fonts of our own. No script, no image, no form."""

from datetime import datetime
from functools import cache
from pathlib import Path

from fontTools.ttLib import TTFont  # type: ignore[import-untyped]
from fpdf import FPDF, FontFace
from fpdf.enums import TableCellFillMode, XPos, YPos

from console.pages.report.blocks import Block, Span, blocks_of
from console.pages.report.provenance import Provenance

LONGEST = 200_000  # characters of a body that is set as PDF
_FONTS = Path(__file__).parent / "fonts"
_SANS, _BOLD, _MONO, _WIDE = (
    _FONTS / f"{name}.ttf" for name in ("DejaVuSans", "DejaVuSans-Bold", "DejaVuSansMono", "DroidSansFallbackFull")
)
_SIZES = {1: 16, 2: 13, 3: 11}
_BODY, _SMALL, _LINE, _INDENT = 9.5, 7.5, 5.2, 7.0
_COLUMNS = 8  # a table with more is written as lines
_INK, _QUIET = (18, 24, 22), (88, 98, 93)


class ReportPdf(FPDF):
    """A page with the digest and the page's number at its foot."""

    def __init__(self, provenance: Provenance, foot: str, at: datetime) -> None:
        super().__init__(format="A4")
        self.foot, self.provenance = foot, provenance
        self.set_title(provenance.title)
        self.set_creator("Signalbox")
        self.set_creation_date(at)
        for style, path in (("", _SANS), ("B", _BOLD), ("I", _SANS), ("BI", _BOLD)):
            self.add_font("sans", style, path)
        self.add_font("mono", "", _MONO)
        self.set_text_shaping(use_shaping_engine=True)
        self.set_margins(22, 20, 22)
        self.set_auto_page_break(auto=True, margin=22)

    def footer(self) -> None:
        self.set_y(-14)
        self.set_font("sans", size=_SMALL)
        self.set_text_color(*_QUIET)
        self.cell(0, 5, f"{self.foot}   {self.page_no()} / {{nb}}", align="R")


@cache
def _drawn(path: Path) -> frozenset[int]:
    """The characters that a font has."""
    with TTFont(path, lazy=True) as font:
        return frozenset(font.getBestCmap())


def _fit(text: str) -> str:
    """A text with each character named that none of the fonts has."""
    known = _drawn(_SANS) | _drawn(_WIDE) | {10}
    return "".join(char if ord(char) in known else f"[U+{ord(char):04X}]" for char in text)


def pdf_of(body: str, provenance: Provenance, foot: str, at: datetime) -> bytes:
    """The body set from its blocks, and where it comes from on the last page. `at` is when, by the database's clock."""
    blocks = blocks_of(body)
    pdf = ReportPdf(provenance, foot, at)
    if not all(ord(char) in _drawn(_SANS) for char in body + provenance.title + str(provenance.facts)):
        pdf.add_font("wide", "", _WIDE)
        pdf.set_fallback_fonts(["wide"], exact_match=False)
    pdf.add_page()
    _set_title(pdf, provenance.title)
    for block in blocks:
        _SETTERS[block.kind](pdf, block)
    _set_facts(pdf, provenance)
    return bytes(pdf.output())


def _set_title(pdf: ReportPdf, title: str) -> None:
    _style(pdf, size=18, bold=True)
    pdf.multi_cell(0, 8, _fit(title), new_x=XPos.LMARGIN, new_y=YPos.NEXT, align="L")
    pdf.ln(3)


def _style(pdf: ReportPdf, *, size: float = _BODY, bold: bool = False, code: bool = False, quiet: bool = False) -> None:
    pdf.set_font("mono" if code else "sans", "" if code or not bold else "B", size)
    pdf.set_text_color(*(_QUIET if quiet else _INK))


def _indent(pdf: ReportPdf, block: Block) -> None:
    """Move the left edge to where the block lies, with its marker in front."""
    pdf.set_left_margin(22 + _INDENT * min(block.depth, 8))
    pdf.set_x(pdf.l_margin)
    if block.marker:
        _style(pdf)
        pdf.set_x(pdf.l_margin - _INDENT)
        pdf.cell(_INDENT, _LINE, block.marker)


def _set_heading(pdf: ReportPdf, block: Block) -> None:
    pdf.ln(2)
    _indent(pdf, block)
    size = _SIZES.get(block.level, _BODY)
    for span in block.spans:
        _write(pdf, span, size=size, bold=True)
    pdf.ln(size * 0.55)


def _set_paragraph(pdf: ReportPdf, block: Block) -> None:
    _indent(pdf, block)
    for span in block.spans:
        _write(pdf, span, size=_BODY, bold=span.bold)
    pdf.ln(_LINE + 1.5)


def _write(pdf: ReportPdf, span: Span, *, size: float, bold: bool) -> None:
    _style(pdf, size=size, bold=bold, code=span.code)
    address = pdf.provenance.address(span.href) if span.href else ""
    pdf.underline = bool(address)
    pdf.write(max(_LINE, size * 0.5), _fit(span.text), link=address)
    pdf.underline = False


def _set_code(pdf: ReportPdf, block: Block) -> None:
    _indent(pdf, block)
    _style(pdf, size=8, code=True)
    pdf.multi_cell(0, 4.4, _fit(block.spans[0].text), border="L", align="L", new_x=XPos.LMARGIN, new_y=YPos.NEXT)
    pdf.ln(2)


def _set_rule(pdf: ReportPdf, block: Block) -> None:
    pdf.set_draw_color(*_QUIET)
    pdf.line(pdf.l_margin, pdf.get_y() + 1, pdf.w - pdf.r_margin, pdf.get_y() + 1)
    pdf.ln(4)


def _set_table(pdf: ReportPdf, block: Block) -> None:
    pdf.set_left_margin(22)
    pdf.set_x(22)
    _style(pdf, size=8)
    if len(block.right) > _COLUMNS:
        for cells in block.rows:
            pdf.multi_cell(0, 4.4, " | ".join(_text(cell) for cell in cells), new_x=XPos.LMARGIN, new_y=YPos.NEXT)
        pdf.ln(2)
        return
    aligned = tuple("R" if right else "L" for right in block.right)
    head = FontFace(emphasis="BOLD")
    with pdf.table(
        borders_layout="HORIZONTAL_LINES",
        cell_fill_mode=TableCellFillMode.NONE,
        headings_style=head,
        line_height=4.6,
        padding=1,
        text_align=aligned,
    ) as table:
        for cells in block.rows:
            row = table.row()
            for cell in cells:
                href = next((span.href for span in cell if span.href), "")
                row.cell(_text(cell), link=pdf.provenance.address(href) if href else None)
    pdf.ln(3)


def _text(cell: tuple[Span, ...]) -> str:
    return _fit("".join(span.text for span in cell))


def _set_facts(pdf: ReportPdf, provenance: Provenance) -> None:
    pdf.set_left_margin(22)
    pdf.ln(2)
    _set_rule(pdf, Block("rule"))
    for name, value in provenance.facts:
        _style(pdf, size=_SMALL, bold=True, quiet=True)
        pdf.multi_cell(0, 4, _fit(name), new_x=XPos.LMARGIN, new_y=YPos.NEXT)
        _style(pdf, size=_SMALL)
        pdf.multi_cell(0, 4, _fit(value), new_x=XPos.LMARGIN, new_y=YPos.NEXT, align="L")


_SETTERS = {
    "heading": _set_heading,
    "paragraph": _set_paragraph,
    "code": _set_code,
    "rule": _set_rule,
    "table": _set_table,
}
