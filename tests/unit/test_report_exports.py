"""Reports that are taken along: nothing in them runs, is fetched or leads anywhere but to receipts and the web."""

import re
import zlib
from datetime import UTC, datetime

from django.template.loader import render_to_string
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from console.pages.markdown import report_html
from console.pages.report.as_markdown import markdown_of
from console.pages.report.as_pdf import pdf_of
from console.pages.report.blocks import blocks_of
from console.pages.report.provenance import Provenance

CALL = "019fd494-4297-705f-8974-0f9329fd00a1"
BASE = "https://box.example"
FROM = Provenance(
    "Overlap <b>bold</b> نص", (("Version", "2"), ("Approved", "publish by mo: *fine* <i>"), ("Digest", "ab" * 32)), BASE
)
NOW = datetime(2026, 8, 6, 3, 0, tzinfo=UTC)
HOSTILE = [
    "![x](https://evil.example/track.png)",
    "![x][1]\n\n[1]: https://evil.example/track.png",
    "<img src=https://evil.example/x onerror=alert(1)>",
    "<script>alert(1)</script>",
    "</style><script>alert(1)</script>",
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt:alert(1))",
    "[x](data:text/html,<script>alert(1)</script>)",
    "[x](vbscript:x) [y](file:///etc/passwd) [z](mailto:a@b.example)",
    "<javascript:alert(1)>",
    "[x](//evil.example/x)",
    "[x](call:nonsense)",
    "```html\n<script>alert(1)</script>\n```",
    "<!-- --><svg onload=alert(1)>",
    "a\u202egnp.exe\u200b",
    "| a | b |\n|---|--:|\n| `x|y` | <b>1</b> |",
    "# # not a heading # *x*",
    "1986\\. A great year\n\n- a\n  - b\n\n    > c\n",
    "*a***b**_c_`d`",
    "&lt;script&gt;alert(1)&lt;/script&gt; &#x3C;img&#x3E;",
    "{{ 7 }} {% now %} $\\href{javascript:alert(1)}{x}$",
    "名字长 عربي עברית e\u0301\u0301\u0301\u0301 \U0001f686 \ud7ff\ue000",
]
BODIES = st.lists(st.sampled_from(HOSTILE) | st.text(max_size=80), max_size=6).map("\n\n".join)
ANY_VIEWER = MarkdownIt("commonmark", {"html": True}).enable("table")


def dangers(markdown: str) -> list[str]:
    """What a viewer that allows everything would run, fetch or lead to in a Markdown text."""
    found = []
    for token in ANY_VIEWER.parse(markdown):
        for one in [token, *(token.children or [])]:
            if one.type in ("html_block", "html_inline", "image"):
                found.append(one.type)
            elif one.type == "link_open" and not str(one.attrGet("href")).startswith(("http://", "https://")):
                found.append(str(one.attrGet("href")))
    return found


@settings(max_examples=150, deadline=None)
@given(BODIES)
def test_no_markdown_that_is_taken_along_does_anything(body: str) -> None:
    assert dangers(markdown_of(body, FROM)) == []


@settings(max_examples=100, deadline=None)
@given(BODIES)
def test_no_html_that_is_taken_along_does_anything(body: str) -> None:
    html = render_to_string("pages/report/export.html", {"body": report_html(body, base=BASE), "from": FROM})
    tags = {tag.lower() for tag in re.findall(r"<([a-zA-Z][\w-]*)", html.split("<body>")[1])}
    assert not tags & {"script", "img", "svg", "iframe", "object", "embed", "form", "link", "style", "meta", "base"}
    assert all(href.startswith(("http://", "https://")) for href in re.findall(r'href="([^"]*)"', html))
    assert re.search(r"<[^>]+\son\w+=", html) is None
    assert "default-src 'none'" in html


def test_no_pdf_that_is_taken_along_does_anything() -> None:
    pdf = pdf_of("\n\n".join(HOSTILE) + f"\n\n[65.08 %](call:{CALL})\n", FROM, "v2", NOW)
    assert pdf.startswith(b"%PDF-")
    for active in (
        b"/JavaScript",
        b"/JS",
        b"/Launch",
        b"/SubmitForm",
        b"/EmbeddedFile",
        b"/AcroForm",
        b"/OpenAction /",
        b"/RichMedia",
    ):
        assert active not in pdf, active
    links = re.findall(rb"/URI \(([^)]*)\)", pdf)
    assert links, "the number leads to its receipt"
    assert all(link.startswith((b"http://", b"https://")) for link in links)


@settings(max_examples=10, deadline=None)
@given(BODIES)
def test_every_text_can_be_set_as_pdf(body: str) -> None:
    assert pdf_of(body, FROM, "v2", NOW).startswith(b"%PDF-")


def test_words_are_kept_and_odd_characters_are_named() -> None:
    body = "Weight *65.08* **percent** of `a|b`.\n\n| T | W |\n|---|---:|\n| ARKK | 1.5 |\n\n> quoted\n\n2. second\n3. third"
    again = markdown_of(body, FROM)
    assert [block.kind for block in blocks_of(again)][: len(blocks_of(body))] == [b.kind for b in blocks_of(body)]
    assert "".join(span.text for span in blocks_of(again)[0].spans) == "Weight 65.08 percent of a|b."
    assert "[U+202E]" in "".join(span.text for span in blocks_of(markdown_of("a\u202eb", FROM))[0].spans)


def test_each_number_leads_to_its_receipt_from_outside() -> None:
    body = f"[65.08 %](call:{CALL})"
    assert f"[65.08 %](<{BASE}/calls/{CALL}/>)" in markdown_of(body, FROM)
    assert f'href="{BASE}/calls/{CALL}/"' in report_html(body, base=BASE)
    assert f"/URI ({BASE}/calls/{CALL}/)".encode() in pdf_of(body, FROM, "v2", NOW)


def test_every_export_says_where_it_comes_from() -> None:
    assert "Version: 2" in markdown_of("x", FROM)
    assert "<dt>Version</dt><dd>2</dd>" in render_to_string("pages/report/export.html", {"body": "x", "from": FROM})
    pdf = pdf_of("x", FROM, "v2", NOW)
    streams = [zlib.decompress(part) for part in re.findall(rb"FlateDecode.*?stream\n(.*?)\nendstream", pdf, re.DOTALL)]
    assert any(b"TJ" in stream or b"Tj" in stream for stream in streams)
