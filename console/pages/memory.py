"""GET /workspaces/, /workspaces/<id>/ and /memory/: how far research got, and what agents remember. Read only.

Neither is an execution checkpoint: they have pages and words of their own (A-070).
"""

from uuid import UUID

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from accounts.states import Actor
from console.pages.few import Few
from console.pages.room import for_readers, page, respond
from receipts.models import ReportVersion
from runs.selectors import access_workspace, memory_text, memory_visible, progress_of, workspaces_visible

ROWS = 200


@page
@for_readers
def workspace_list(request: HttpRequest, actor: Actor) -> HttpResponseBase:
    """The workspaces of the tenant, the newest first."""
    workspaces = Few(workspaces_visible(actor).order_by("-created_at", "-id")[: ROWS + 1], ROWS)
    return respond(request, actor, "pages/memory/workspaces.html", {"workspaces": workspaces})


@page
def workspace_page(request: HttpRequest, actor: Actor, id: UUID) -> HttpResponseBase:
    """Every version of a workspace's progress, the newest first, each with the report version it came with."""
    workspace = access_workspace(actor=actor, id=id)
    progress = progress_of(workspace.id)
    cited = {one.row.report_version_id for one in progress} | {body for one in progress for body in one.bodies}
    versions = ReportVersion.objects.filter(tenant_id=actor.tenant_id).in_bulk(list(cited))
    shown = [
        (one, versions.get(one.row.report_version_id), [versions.get(body) for body in one.bodies]) for one in progress
    ]
    return respond(request, actor, "pages/memory/workspace.html", {"workspace": workspace, "progress": shown})


@page
@for_readers
def memory_list(request: HttpRequest, actor: Actor) -> HttpResponseBase:
    """What the tenant's agents remember, the newest first."""
    kept = Few(memory_visible(actor).order_by("-at", "-id")[: ROWS + 1], ROWS)
    context = {"kept": kept, "items": [(item, memory_text(item)) for item in kept]}
    return respond(request, actor, "pages/memory/memory.html", context)
