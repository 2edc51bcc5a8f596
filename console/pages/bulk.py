"""GET and POST /bulks/new/, GET /bulks/<id>/: one act on all runs of a filter, shown and counted before, and what came of each."""

from typing import Any
from uuid import UUID

from django.http import HttpRequest, QueryDict
from django.http.response import HttpResponseBase
from django.shortcuts import redirect

from accounts.errors import NotFound, Refused
from accounts.states import Actor
from console.lists.bulk import BulkSet, bulk_set
from console.pages.notice import refusal_notice
from console.pages.room import page, respond
from console.pages.words import needs_role
from runs.models import BulkItem
from runs.selectors import access_bulk, bulk_progress
from runs.states import BulkAct
from runtime.services import BulkAccepted, bulk_accept
from runtime.services.bulk import NEEDS

ROWS = 200
PANELS = {"bulk-live": "pages/bulk/live.html"}
WORDS = {BulkAct.STOP: "Stop", BulkAct.PAUSE: "Pause", BulkAct.RESUME: "Resume"}
FOLLOWS = {
    BulkAct.STOP: "Each is stopped: what is on the wire may answer until its time is up, then the run is closed. Its open waits are cancelled. Stopped runs stay stopped.",
    BulkAct.PAUSE: "Nothing new of them is sent. Their waits stay open, and decisions are stored. Resuming lets them go on.",
    BulkAct.RESUME: "Each is asked to try again; a pause of it is taken back. What still holds it holds it again.",
}


@page
def bulk_new(request: HttpRequest, actor: Actor) -> HttpResponseBase:
    """What the act would be done to, counted and named; POST does it, if it is still the same set."""
    asked = request.POST if request.method == "POST" else request.GET
    try:
        act = BulkAct(asked.get("act", "STOP"))
    except ValueError as unknown:
        raise NotFound from unknown
    query = asked.get("query", "")
    found = bulk_set(actor, act, QueryDict(query))
    refused: Refused | None = None
    if request.method == "POST":
        outcome = _done(request, actor, act, query, found)
        if isinstance(outcome, BulkAccepted):
            return redirect("bulk", id=outcome.bulk_id)
        refused = outcome
    context = _context(actor, act, query, found) | {
        "reason": request.POST.get("reason", ""),
        "refused": refusal_notice(refused, form="#bulk-form") if refused else None,
    }
    return respond(request, actor, "pages/bulk/new.html", context, status=refused.status if refused else 200)


def _done(request: HttpRequest, actor: Actor, act: BulkAct, query: str, found: BulkSet) -> BulkAccepted | Refused:
    count = request.POST.get("count", "")
    return bulk_accept(
        actor=actor,
        act=act,
        reason=request.POST.get("reason", "").replace("\r\n", "\n"),
        query=query,
        run_ids=found.ids,
        shown=request.POST.get("digest", ""),
        count=int(count) if count.isdecimal() and len(count) < 9 else 0,
    )


def _context(actor: Actor, act: BulkAct, query: str, found: BulkSet) -> dict[str, Any]:
    off = ""
    if not actor.may(NEEDS[act]):
        off = needs_role(NEEDS[act])
    elif found.asked.errors:
        off = "The filter can’t be read."
    elif found.too_many:
        off = "They are too many for one act. Narrow the filter."
    elif not found.ids:
        off = "No run passes the filter that this would mean anything to."
    return {
        "act": act,
        "word": WORDS[act],
        "acts": list(WORDS.items()),
        "follows": FOLLOWS[act],
        "query": query,
        "found": found,
        "named": found.named(),
        "rest": max(0, len(found.ids) - len(found.named())),
        "off": off,
        "errors": list(found.asked.errors.values()),
    }


@page
def bulk_page(request: HttpRequest, actor: Actor, id: UUID) -> HttpResponseBase:
    """How far it is, and what came of each run: what was refused first."""
    bulk = access_bulk(actor=actor, id=id)
    items = BulkItem.objects.filter(bulk=bulk).select_related("run")
    context = {
        "bulk": bulk,
        "word": WORDS[BulkAct(bulk.act)],
        "progress": bulk_progress(bulk.id),
        "refused_items": items.filter(status="REFUSED").order_by("place")[:ROWS],
        "others": items.exclude(status="REFUSED").order_by("place")[:ROWS],
        "self_url": request.get_full_path(),
    }
    return respond(request, actor, "pages/bulk/page.html", context, PANELS)
