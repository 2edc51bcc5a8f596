"""GET and POST /views/ and /views/<id>/remove/: keep a list as one looks at it, under a name, and let it go."""

from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, QueryDict
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse

from accounts.errors import Invalid, NotFound, Refused
from accounts.models import SavedView
from accounts.selectors import access_view
from accounts.services import view_remove, view_save
from accounts.states import Actor
from console.lists.listing import Listing
from console.lists.runs import RUNS
from console.lists.views import VIEWS
from console.pages.lists.page import LISTS, list_response
from console.pages.notice import refusal_notice
from console.pages.room import page, respond

ALL = {**LISTS, RUNS.key: RUNS}


def address_of(actor: Actor, listing: Listing, query: str) -> str:
    """The address of a list as a view keeps it: filters, order and columns, without its place in the pages."""
    return listing.asked(actor, QueryDict(query)).kept()


@page
def view_list(request: HttpRequest, actor: Actor) -> HttpResponseBase:
    """The saved views; POST keeps one and leads back to its list. A refusal is said above them."""
    if request.method != "POST":
        return list_response(request, actor, VIEWS)
    outcome = _kept(request, actor)
    if isinstance(outcome, SavedView):
        messages.success(request, "The view is kept.", extra_tags="is-clear")
        return redirect(f"{reverse(ALL[outcome.listed].url_name)}?{outcome.query}")
    notice = {"refused": refusal_notice(outcome), "back": reverse("views")}
    return respond(request, actor, "pages/lists/view_refused.html", notice, status=outcome.status)


def _kept(request: HttpRequest, actor: Actor) -> SavedView | Refused:
    listing = ALL.get(request.POST.get("listed", ""))
    if listing is None:
        return Invalid({"field": "listed", "reason": f"one of {', '.join(sorted(ALL))}."})
    return view_save(
        actor=actor,
        listed=listing.key,
        name=request.POST.get("name", ""),
        query=address_of(actor, listing, request.POST.get("query", "")),
        shared=request.POST.get("shared") == "yes",
    )


@page
def view_page(request: HttpRequest, actor: Actor, id: UUID) -> HttpResponseBase:
    """One saved view, and the form that lets it go."""
    view = access_view(actor=actor, id=id)
    if view.listed not in ALL:
        raise NotFound
    refused: Refused | None = None
    if request.method == "POST":
        refused = view_remove(actor=actor, id=id, name=request.POST.get("name", ""))
        if refused is None:
            messages.success(request, "The view is gone.", extra_tags="is-clear")
            return redirect("views")
    place = f"{reverse(ALL[view.listed].url_name)}?{view.query}"
    context = {"view": view, "place": place, "refused": refusal_notice(refused) if refused else None}
    return respond(request, actor, "pages/lists/view.html", context, status=refused.status if refused else 200)
