"""GET /measures/: how the team decides. Counts and seconds; nobody is ranked."""

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from accounts.states import Actor
from approvals.reports import measures_of
from console.pages.room import for_readers, page, respond

SPANS = (1, 7, 30, 90)


@page
@for_readers
def measures_page(request: HttpRequest, actor: Actor) -> HttpResponseBase:
    """`?days=` says over how many; 30 by default."""
    asked = request.GET.get("days", "")
    days = int(asked) if asked in map(str, SPANS) else 30
    context = {"measures": measures_of(actor=actor, days=days), "spans": SPANS}
    return respond(request, actor, "pages/people/measures.html", context)
