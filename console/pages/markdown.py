"""Report bodies as HTML. The Markdown is untrusted: no HTML, no images, and links only to receipts and to web pages."""

import re
from collections.abc import Sequence
from itertools import takewhile
from urllib.parse import urlsplit

from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict

from console.pages.text import exact, plain

_CALL = re.compile(r"call:([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\Z")
_OFF = ("html_block", "html_inline", "image")


class ReportRenderer(RendererHTML):
    """Every run of text goes through `exact`; a link says where it leads."""

    def text(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return exact(tokens[idx].content)

    def code_inline(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return f"<code>{exact(tokens[idx].content)}</code>"

    def code_block(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return f'<pre class="well">{exact(tokens[idx].content)}</pre>\n'

    fence = code_block

    def link_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return link_open(str(tokens[idx].attrGet("href")), env.get("base", ""))

    def link_close(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return f"</a>{host_html(_href_before(tokens, idx))}"


def _href_before(tokens: Sequence[Token], idx: int) -> str:
    """The target of the link that closes at `idx`. Links do not nest, so it is the nearest one opened before."""
    opened = next(token for token in reversed(tokens[:idx]) if token.type == "link_open")
    return str(opened.attrGet("href"))


def _allowed(url: str) -> bool:
    """Receipts and web pages; markdown-it leaves any other link as the text it was written as."""
    if _CALL.match(url):
        return True
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and bool(parts.hostname)


def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False}, renderer_cls=ReportRenderer).enable("table").disable(list(_OFF))
    parser.validateLink = _allowed  # type: ignore[method-assign]
    return parser


_PARSER = _parser()


def _fit_page(token: Token, top: int) -> None:
    """Let the highest heading be the second level; turn the inline alignment of a cell into a class, since the CSP has no
    styles.
    """
    if token.type in {"heading_open", "heading_close"}:
        token.tag = f"h{min(6, int(token.tag[1]) - top + 2)}"
    elif token.type == "table_open":
        token.attrSet("class", "table")
    elif token.attrs.pop("style", None) == "text-align:right":
        token.attrSet("class", "num")


def _unhead_empty_cells(tokens: Sequence[Token]) -> None:
    """A cell without words heads nothing: it is a plain one."""
    for opened, inside, closed in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if opened.type == "th_open" and not inside.content:
            opened.tag = closed.tag = "td"


def _name_tables(tokens: Sequence[Token]) -> None:
    """A table is called by its columns: whoever hears it knows what it holds, and two versions of it can be compared alone."""
    for at, token in enumerate(tokens):
        if token.type == "table_open":
            heads = takewhile(lambda one: one.type != "thead_close", tokens[at:])
            words = ("".join(part.content for part in one.children or []) for one in heads if one.type == "inline")
            token.attrSet("aria-label", plain(", ".join(filter(None, words))) or "Table")


def parsed(body: str) -> list[Token]:
    """A report body as tokens: no HTML, no images, and no link but to receipts and web pages."""
    return _PARSER.parse(body)


def fitted(body: str) -> list[Token]:
    """A report body as tokens that fit a page of the console: its headings start one level below the page's own title."""
    tokens = parsed(body)
    top = min((int(token.tag[1]) for token in tokens if token.type == "heading_open"), default=1)
    for token in tokens:
        _fit_page(token, top)
    _unhead_empty_cells(tokens)
    _name_tables(tokens)
    return tokens


def html_of(tokens: Sequence[Token], *, base: str = "") -> SafeString:
    """Tokens as safe HTML. `base` is the console's address where the HTML leaves it."""
    html: str = _PARSER.renderer.render(tokens, _PARSER.options, {"base": base})
    return mark_safe(html)  # noqa: S308 - built by ReportRenderer


def report_html(body: str, *, base: str = "") -> SafeString:
    """A report body as safe HTML, as `fitted` has it."""
    return html_of(fitted(body), base=base)


def link_open(href: str, base: str = "") -> SafeString:
    """How a link of a report opens: to the receipt of a call, or to a web page whose host stands after it."""
    call = _CALL.match(href)
    if call:
        return format_html('<a class="receipt" href="{}/calls/{}/">', base, call[1])
    return format_html('<a href="{}" rel="noopener noreferrer nofollow">', href)


def host_html(href: str) -> SafeString:
    """What stands after a link: the host that it leads to; nothing after a receipt."""
    if _CALL.match(href):
        return SafeString("")
    return format_html(' <span class="small quiet">({})</span>', exact(urlsplit(href).netloc, one_line=True))
