"""GET /reports/<id>/ and /reports/<id>/<version>.md: read a report, compare its versions, take it along."""

from typing import Any
from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.http.response import HttpResponseBase
from django.utils.text import slugify

from accounts.errors import Refused
from accounts.states import Actor
from console.pages.diff import difference, text_pieces
from console.pages.numbers import whole
from console.pages.report.export import KINDS, report_taken
from console.pages.report.rendered import LONGEST, rendered_difference
from console.pages.report.versions import ShownVersion, chosen, in_order, versions_of
from console.pages.room import page, panel_asked, respond
from console.settings import PUBLIC_URL
from receipts.models import ReportVersion
from receipts.selectors import access_report, report_body

PANELS = {"report-live": "pages/report/live.html"}


@page
def report_page(request: HttpRequest, actor: Actor, id: UUID) -> HttpResponseBase:
    """One report: `?version=` shows one version, `?against=` compares it with another one, as both are read (`&as=source`: line by line)."""
    report = access_report(actor=actor, id=id)
    versions = versions_of([report])[report.id]
    asked = whole(request.GET.get("version", ""))
    shown = chosen(versions, asked)
    if shown is None:
        raise Http404
    runs = sorted({str(version.row.run_id) for version in versions})
    context: dict[str, Any] = {
        "report": report,
        "versions": versions,
        "shown": shown,
        "self_url": request.get_full_path(),
        "topics": " ".join(f"run:{run}" for run in runs),
    }
    if not panel_asked(request, PANELS):
        context |= _difference(versions, shown, request.GET)
    return respond(request, actor, "pages/report/page.html", context, PANELS)


def _difference(versions: list[ShownVersion], shown: ShownVersion, query: QueryDict) -> dict[str, Any]:
    """The comparison that is asked for, as it is read or, with `as=source`, line by line; without one, nothing is compared."""
    others = [version for version in versions if version is not shown]
    against = whole(query.get("against", ""))
    other = next((version for version in others if version.row.version_no == against), None)
    if other is None:
        return {"others": others}
    older, newer = in_order(shown, other)
    context: dict[str, Any] = {"others": others, "against": other, "older": older, "newer": newer}
    rendered = None if query.get("as") == "source" else rendered_difference(older.body, newer.body)
    if rendered is not None:
        return context | {"rendered": rendered}
    return context | {"difference": difference(text_pieces(older.body), text_pieces(newer.body)), "longest": LONGEST}


@page
def report_download(request: HttpRequest, actor: Actor, id: UUID, version: int) -> HttpResponseBase:
    """The stored bytes of one version as a Markdown file."""
    report = access_report(actor=actor, id=id)
    row = ReportVersion.objects.filter(report=report, version_no=version).first()
    if row is None:
        raise Http404
    name = f"{slugify(row.title)[:80] or 'report'}-v{row.version_no}.md"
    return _file(report_body(row).encode(), KINDS["md"], name)


@page
def report_export(request: HttpRequest, actor: Actor, id: UUID, version: int, kind: str) -> HttpResponseBase:
    """One version to take along as Markdown, HTML or PDF."""
    base = PUBLIC_URL or request.build_absolute_uri("/").rstrip("/")
    taken = report_taken(actor=actor, report_id=id, version=version, kind=kind, base=base)
    if isinstance(taken, Refused):
        return HttpResponse(taken.sentence, content_type="text/plain; charset=utf-8", status=taken.status)
    return _file(taken.content, taken.media_type, taken.name)


def _file(content: bytes, kind: str, name: str) -> HttpResponse:
    """A file that is saved and never shown as a page of this console."""
    answer = HttpResponse(content, content_type=kind)
    answer["Content-Disposition"] = f'attachment; filename="{name}"'
    return answer
