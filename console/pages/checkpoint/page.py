"""GET /runs/<id>/checkpoints/ and /runs/<id>/checkpoints/<revision>/: read, compare, never restore in place."""

from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import reverse

from accounts.states import Actor
from checkpoints.models import Checkpoint
from checkpoints.selectors import access_checkpoint, head_of
from console.pages.checkpoint.revision import Revision, compared
from console.pages.room import page, panel_asked, respond
from runs.selectors import access_run

ROWS = 100
LIST_PANELS = {"checkpoint-list": "pages/checkpoint/rows.html"}
PANELS = {"checkpoint-live": "pages/checkpoint/live.html"}


@page
def checkpoint_list(request: HttpRequest, actor: Actor, id: UUID) -> HttpResponseBase:
    """The revisions of a run, the newest first; `?before=` turns to older ones."""
    run = access_run(actor=actor, id=id)
    before = _number(request.GET.get("before", ""))
    rows: QuerySet[Checkpoint] = Checkpoint.objects.filter(run=run).defer("body").order_by("-revision")
    found = list((rows.filter(revision__lt=before) if before else rows)[: ROWS + 1])
    here = reverse("checkpoints", args=[id])
    context = {
        "run": run,
        "head": head_of(id),
        "rows": found[:ROWS],
        "self_url": request.get_full_path(),
        "topic": f"run:{id}",
        "newer_url": here if before else "",
        "older_url": f"{here}?before={found[ROWS - 1].revision}" if len(found) > ROWS else "",
    }
    return respond(request, actor, "pages/checkpoint/list.html", context, LIST_PANELS)


@page
def checkpoint_page(request: HttpRequest, actor: Actor, id: UUID, revision: int) -> HttpResponseBase:
    """One revision. `?against=` and `?to=` compare any two, by default this one with its parent; `?view=inline` shows
    what differs under each other.
    """
    run = access_run(actor=actor, id=id)
    saved = access_checkpoint(actor=actor, run_id=id, revision=revision)
    shown = Revision(run, saved)
    context: dict[str, Any] = {
        "run": run,
        "saved": saved,
        "shown": shown,
        "self_url": request.get_full_path(),
        "topic": f"run:{id}",
    }
    if not panel_asked(request, PANELS):
        against = _number(request.GET.get("against", "")) or revision - 1
        to = _number(request.GET.get("to", "")) or revision
        right = saved if to == revision else Checkpoint.objects.filter(run=run, revision=to).first()
        context |= {"against": against, "to": to, "missing": against if right else to}
        context["inline"] = request.GET.get("view") == "inline"
        context["comparison"] = compared(id, right, against) if right and against else None
    return respond(request, actor, "pages/checkpoint/page.html", context, PANELS)


def _number(text: str) -> int:
    """A revision as it was asked for, or 0."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
