"""GET and POST /runs/<id>/tags/: what people call a run, to find it again."""

from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect

from accounts.errors import Refused
from accounts.states import Actor, Permission
from console.pages.acts import off_reason
from console.pages.room import page, respond
from runs.selectors import access_run, tags_of
from runs.states import RUN_TAGS, typed_tags
from runtime.services import run_tag


@page
def run_tags(request: HttpRequest, actor: Actor, id: UUID) -> HttpResponseBase:
    """The tags of a run, and the form that gives it others and takes some away. A refusal keeps what was typed and ticked."""
    run = access_run(actor=actor, id=id)
    refused: Refused | None = None
    typed, ticked = request.POST.get("add", ""), request.POST.getlist("remove")
    if request.method == "POST":
        outcome = run_tag(actor=actor, run_id=id, add=typed_tags(typed), remove=ticked)
        if not isinstance(outcome, Refused):
            said = "The tags are changed." if outcome.changed else "The tags were so already; nothing is changed."
            messages.success(request, said, extra_tags="is-clear")
            return redirect("run", id=run.id)
        refused = outcome
    context = {
        "run": run,
        "tags": [(tag, tag in ticked) for tag in tags_of(run.id)],
        "typed": typed,
        "limit": RUN_TAGS,
        "off": off_reason(actor.may(Permission.REVISE), Permission.REVISE, True, ""),
        "refused": refused,
    }
    return respond(request, actor, "pages/run/tags.html", context, status=refused.status if refused else 200)
