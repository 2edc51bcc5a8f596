"""GET /reports/, /reports/<id>/ and /reports/<id>/<version>.md: read a report, compare its versions, take it along."""

from typing import Any
from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.utils.text import slugify

from accounts.states import Actor
from console.pages.report.versions import ShownVersion, chosen, compared, reports_visible, versions_of
from console.pages.room import page, panel_asked, respond
from receipts.models import ReportVersion
from receipts.selectors import access_report, report_body

ROWS = 50
LIST_PANELS = {"report-list": "pages/report/rows.html"}
PANELS = {"report-live": "pages/report/live.html"}


@page
def report_list(request: HttpRequest, actor: Actor) -> HttpResponseBase:
    """The reports of the tenant, the newest first; `?before=` (an id) turns to older ones."""
    before = _id(request.GET.get("before", ""))
    rows = reports_visible(actor).select_related("thread__agent").order_by("-id")
    found = list((rows.filter(id__lt=before) if before else rows)[: ROWS + 1])
    shown = found[:ROWS]
    versions = versions_of(shown)
    here = reverse("reports")
    context = {
        "reports": [(report, versions[report.id]) for report in shown],
        "self_url": request.get_full_path(),
        "newer_url": here if before else "",
        "older_url": f"{here}?before={shown[-1].id}" if len(found) > ROWS else "",
    }
    return respond(request, actor, "pages/report/list.html", context, LIST_PANELS)


@page
def report_page(request: HttpRequest, actor: Actor, id: UUID) -> HttpResponseBase:
    """One report: `?version=` shows one version, `?against=` compares it with another one."""
    report = access_report(actor=actor, id=id)
    versions = versions_of([report])[report.id]
    asked = _number(request.GET.get("version", ""))
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
        context |= _difference(versions, shown, _number(request.GET.get("against", "")))
    return respond(request, actor, "pages/report/page.html", context, PANELS)


def _difference(versions: list[ShownVersion], shown: ShownVersion, against: int) -> dict[str, Any]:
    """The comparison that is asked for; without one, nothing is compared."""
    others = [version for version in versions if version is not shown]
    other = next((version for version in others if version.row.version_no == against), None)
    if other is None:
        return {"others": others}
    older, newer, difference = compared(shown, other)
    return {"others": others, "against": other, "older": older, "newer": newer, "difference": difference}


@page
def report_download(request: HttpRequest, actor: Actor, id: UUID, version: int) -> HttpResponseBase:
    """The stored bytes of one version as a Markdown file."""
    report = access_report(actor=actor, id=id)
    row = ReportVersion.objects.filter(report=report, version_no=version).first()
    if row is None:
        raise Http404
    answer = HttpResponse(report_body(row).encode(), content_type="text/markdown; charset=utf-8")
    name = slugify(row.title)[:80] or "report"
    answer["Content-Disposition"] = f'attachment; filename="{name}-v{row.version_no}.md"'
    return answer


def _number(text: str) -> int:
    """A version as it was asked for, or 0."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


def _id(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
