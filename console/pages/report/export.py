"""One version of a report as a file to take along, on every door."""

from dataclasses import dataclass
from uuid import UUID

from django.template.loader import render_to_string
from django.utils.text import slugify

from accounts.errors import NotFound, Refused
from accounts.states import Actor
from console.pages.markdown import report_html
from console.pages.report.as_markdown import markdown_of
from console.pages.report.as_pdf import LONGEST, pdf_of
from console.pages.report.provenance import provenance_of
from console.pages.report.versions import versions_of
from receipts.selectors import access_report
from runs.selectors import database_now

KINDS = {"md": "text/markdown; charset=utf-8", "html": "text/html; charset=utf-8", "pdf": "application/pdf"}


class TooLongForPdf(Refused):
    """No file was made. This report has {characters} characters. Up to {limit} are set as PDF; HTML and Markdown hold all."""

    code = "TOO_LONG_FOR_PDF"
    status = 413


@dataclass(frozen=True)
class Taken:
    """A file: its bytes, what they are, and a name to save it under."""

    content: bytes
    media_type: str
    name: str


def report_taken(*, actor: Actor, report_id: UUID, version: int, kind: str, base: str) -> Taken | Refused:
    """A version as one of KINDS: nothing in it runs or is fetched, and it says where it is from. `base` is the address of this console,
    which its receipts are named by. Needs the permission to read. Raises NotFound.
    """
    report = access_report(actor=actor, id=report_id)
    shown = next((one for one in versions_of([report])[report.id] if one.row.version_no == version), None)
    if shown is None:
        raise NotFound
    if kind == "pdf" and len(shown.body) > LONGEST:
        return TooLongForPdf({"characters": len(shown.body), "limit": LONGEST})
    now, number = database_now(), shown.row.version_no
    provenance = provenance_of(shown, now, base)
    if kind == "pdf":
        content: bytes = pdf_of(shown.body, provenance, f"v{number}, SHA-256 {shown.row.sha256[:16]}…", now)
    elif kind == "html":
        body = report_html(shown.body, base=provenance.base)
        content = render_to_string("pages/report/export.html", {"body": body, "from": provenance}).encode()
    else:
        content = markdown_of(shown.body, provenance).encode()
    return Taken(content, KINDS[kind], f"{slugify(shown.row.title)[:80] or 'report'}-v{number}.{kind}")
