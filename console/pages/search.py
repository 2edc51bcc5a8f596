"""GET /search/?q=: everything that a text names, by kind."""

from django.http import HttpRequest, HttpResponseRedirect
from django.http.response import HttpResponseBase

from accounts.states import Actor
from console.lists.fields import TEXT_LIMIT, tail_of
from console.lists.search import NEWEST_CALLS, found, opens
from console.lists.tails import whole_id
from console.pages.room import for_readers, page, respond


@page
@for_readers
def search(request: HttpRequest, actor: Actor) -> HttpResponseBase:
    """A whole id opens what it names. Anything else lists what it names: the end of an id, a key, a reference, a title, a name."""
    text = request.GET.get("q", "").strip()
    fault = _fault(text)
    place = None if fault else opens(actor, text)
    if place:
        return HttpResponseRedirect(place)
    groups = [] if fault else found(actor, text)
    looked_through = 0 if fault or whole_id(text) or not tail_of(text) else NEWEST_CALLS
    context = {"text": text, "groups": groups, "fault": fault, "looked_through": looked_through}
    return respond(request, actor, "pages/search.html", context)


def _fault(text: str) -> str:
    """Why nothing is called so; "" where something may be. Nothing is cut: what is found would be named by another text."""
    if len(text) > TEXT_LIMIT:
        return f"It has {len(text)} characters. What is looked for has at most {TEXT_LIMIT}."
    return "It holds a NUL, which no text here has." if "\0" in text else ""
