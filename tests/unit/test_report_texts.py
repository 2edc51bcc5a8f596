"""A title and what is said of a version, in each file that is taken along: as it was typed, or with its odd characters named."""

import html
import re

import pytest
from django.template.loader import render_to_string
from markdown_it import MarkdownIt

from console.pages.markdown import report_html
from console.pages.report.as_markdown import markdown_of
from console.pages.report.as_pdf import pdf_of
from console.pages.report.provenance import Provenance
from console.pages.text import loud_characters, plain
from tests.corpus import KEPT, PAYLOADS
from tests.unit.pdf_text import text_of
from tests.unit.test_report_exports import BASE, NOW, dangers

CASES = {name: text for name, text in KEPT.items() if name != "long"}
FEW = ("script", "bidi")
corpus = pytest.mark.parametrize(
    "text", [pytest.param(CASES[one], id=one, marks=[] if one in FEW else pytest.mark.matrix) for one in CASES]
)


def of(text: str) -> Provenance:
    """As `provenance_of` makes it of what is stored."""
    return Provenance(plain(text), (("Approved", plain(f"by ann: {text}")),), BASE)


def joined(text: str) -> str:
    return "".join(text.split())


@corpus
def test_markdown_shows_a_title_as_it_is_and_runs_none_of_it(text: str) -> None:
    file = markdown_of("A body.", of(text))
    assert dangers(file) == [] and not loud_characters(file)
    tokens = MarkdownIt("commonmark").enable("table").parse(file)
    shown = "".join(child.content for token in tokens for child in (token.children or []))
    assert joined(plain(text)) in joined(shown)
    assert joined(plain(f"by ann: {text}")) in joined(shown)


@corpus
def test_html_shows_a_title_as_it_is_and_runs_none_of_it(text: str) -> None:
    page = render_to_string("pages/report/export.html", {"body": report_html("A body.", base=BASE), "from": of(text)})
    without = render_to_string("pages/report/export.html", {"body": report_html("A body.", base=BASE), "from": of("x")})
    assert re.findall(r"<[a-zA-Z/][^>]*>", page) == re.findall(r"<[a-zA-Z/][^>]*>", without)
    shown = html.unescape(re.sub(r"<[^>]*>", "", page))
    assert joined(shown).count(joined(plain(text))) >= 3 and not loud_characters(shown)


@corpus
def test_pdf_shows_a_title_as_it_is_and_runs_none_of_it(text: str) -> None:
    file = pdf_of("A body.", of(text), "v2", NOW)
    shown = joined(text_of(file))
    assert "A body.".replace(" ", "") in shown
    wanted = joined(plain(text))
    if wanted.isascii():
        assert wanted in shown
    else:  # drawn in another order than stored where letters join or run from right to left; by its name where no font has it
        assert [char for char in set(wanted) - set(shown) if f"[U+{ord(char):04X}]" not in shown] == []


@pytest.mark.matrix
def test_a_body_of_every_payload_does_nothing_in_any_file() -> None:
    body = "\n\n".join(PAYLOADS)
    assert dangers(markdown_of(body, of("t"))) == []
    page = render_to_string("pages/report/export.html", {"body": report_html(body, base=BASE), "from": of("t")})
    tags = {tag.lower() for tag in re.findall(r"<([a-zA-Z][\w-]*)", page.split("<body>")[1])}
    assert not tags & {"script", "img", "svg", "iframe", "object", "embed", "form", "link", "style", "meta", "base"}
    assert re.search(r"<[^>]+\son\w+=", page.split("<body>")[1]) is None
    file = pdf_of(body, of("t"), "v2", NOW)
    assert not [
        active for active in (b"/JavaScript", b"/JS", b"/Launch", b"/OpenAction /", b"/AcroForm") if active in file
    ]
    assert text_of(file).count("alert") > 100
