"""GET /runs/<id>/checkpoints/ and /runs/<id>/checkpoints/<revision>/: read, compare, never restore in place."""

from typing import Any
from uuid import UUID

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from accounts.states import Actor
from checkpoints.selectors import access_checkpoint, head_of
from console.lists.checkpoints import checkpoints_of
from console.pages.checkpoint.revision import Revision, compared
from console.pages.lists.page import list_response
from console.pages.numbers import whole
from console.pages.room import page, panel_asked, respond
from runs.selectors import access_run

PANELS = {"checkpoint-live": "pages/checkpoint/live.html"}


@page
def checkpoint_list(request: HttpRequest, actor: Actor, id: UUID) -> HttpResponseBase:
    """The revisions of a run, as `console.lists.checkpoints` lists them."""
    run = access_run(actor=actor, id=id)
    more = {"run": run, "head": head_of(id)}
    return list_response(request, actor, checkpoints_of(run), template="pages/checkpoint/list.html", more=more)


@page
def checkpoint_page(request: HttpRequest, actor: Actor, id: UUID, revision: int) -> HttpResponseBase:
    """One revision. `?against=` and `?to=` compare any two, by default this one with its parent; `?view=inline` shows
    what differs under each other.
    """
    saved = access_checkpoint(actor=actor, run_id=id, revision=revision)
    run = saved.run
    shown = Revision(run, saved)
    context: dict[str, Any] = {
        "run": run,
        "saved": saved,
        "shown": shown,
        "self_url": request.get_full_path(),
        "topic": f"run:{id}",
    }
    if not panel_asked(request, PANELS):
        against = whole(request.GET.get("against", "")) or revision - 1
        to = whole(request.GET.get("to", "")) or revision
        right, left = shown.at(to), shown.at(against) if against else None
        context |= {"against": against, "to": to, "missing": against if right else to}
        context["inline"] = request.GET.get("view") == "inline"
        context["comparison"] = compared(right, left) if right and left and right != left else None
    return respond(request, actor, "pages/checkpoint/page.html", context, PANELS)
