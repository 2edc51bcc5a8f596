"""What every page shares: who is asking, which panel is asked for, and the doors of the top bar."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, Concatenate, ParamSpec, cast

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.cache import never_cache

from accounts.errors import NotFound
from accounts.models import User
from accounts.selectors import actor_of, confirmed_at
from accounts.states import Actor

P = ParamSpec("P")
PageView = Callable[Concatenate[HttpRequest, Actor, P], HttpResponseBase]


@dataclass(frozen=True)
class Door:
    """One entry of the top bar. `key` follows `g`; a counted door shows how many things need a person. `rooms`: what lies
    behind it under other addresses.
    """

    url_name: str
    word: str
    key: str
    counted: bool = False
    rooms: tuple[str, ...] = ()


DOORS = (
    Door("overview", "Overview", "o"),
    Door("inbox", "Inbox", "i", counted=True, rooms=("/waits/", "/contradictions/", "/delegations/", "/measures/")),
    Door("runs", "Runs", "r", rooms=("/scopes/", "/bulks/", "/calls/", "/commitments/", "/obligations/")),
    Door("reports", "Reports", "p"),
    Door("policies", "Policies", "y", rooms=("/grants/",)),
    Door("workspaces", "Workspaces", "w", rooms=("/memory/",)),
)


def page(view: PageView[P]) -> Callable[Concatenate[HttpRequest, P], HttpResponseBase]:
    """A page for signed-in members: passes the actor on, never cached, and answers 404 for what is not theirs."""

    @login_required
    @never_cache
    @wraps(view)
    def guarded(request: HttpRequest, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
        try:
            actor = actor_of(user=cast("User", request.user), door="page")
            return view(request, replace(actor, confirmed_at=confirmed_at(request.session)), *args, **kwargs)
        except NotFound as missing:
            raise Http404 from missing

    return cast("Callable[Concatenate[HttpRequest, P], HttpResponseBase]", guarded)


def respond(
    request: HttpRequest,
    actor: Actor,
    template: str,
    context: Mapping[str, Any],
    panels: Mapping[str, str] | None = None,
    status: int = 200,
) -> HttpResponse:
    """The page, or only the panel that htmx asked for by its element id (`panels` maps ids to templates)."""
    chosen = panel_asked(request, panels or {}) or template
    return render(request, chosen, {"actor": actor, **context}, status=status)


def panel_asked(request: HttpRequest, panels: Mapping[str, str]) -> str | None:
    """The template of the panel that htmx asked for, or None: the page as a whole."""
    if request.headers.get("HX-Request") != "true":
        return None
    return panels.get(request.headers.get("HX-Target", ""))


def doors(path: str) -> list[dict[str, Any]]:
    """The entries of the top bar for a page at `path`."""
    shown = [(door, reverse(door.url_name)) for door in DOORS]
    return [
        {
            "word": door.word,
            "url": url,
            "key": door.key,
            "counted": door.counted,
            "current": path == url if url == "/" else path.startswith((url, *door.rooms)),
        }
        for door, url in shown
    ]
