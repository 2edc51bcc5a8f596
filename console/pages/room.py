"""What every page shares: who is asking, which panel is asked for, and the doors of the top bar."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import wraps
from http import HTTPStatus
from typing import Any, Concatenate, ParamSpec, cast
from urllib.parse import quote, unquote, urlsplit, urlunsplit
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.cache import never_cache

from accounts.errors import NotFound, TenantUnchosen
from accounts.models import User
from accounts.selectors import TENANT, actor_of, confirmed_at
from accounts.services import form_free, form_send
from accounts.states import Actor, Permission

PAGE_TENANT = "Signalbox-Page-Tenant"
ACTING_IN = "Signalbox-Acting-In"
NO_TENANT = "no tenant"  # of several, none is chosen
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
# What is open to who audits and reads nothing else.
DOORS_OF_AUDITORS = (Door("audit", "Audit", "a"),)


def page(view: PageView[P]) -> Callable[Concatenate[HttpRequest, P], HttpResponseBase]:
    """A page for signed-in members: passes the actor on, never cached, and answers 404 for what is not theirs.

    Whoever is a member of several tenants, or no longer of the one that they chose, is asked for which one they act. What comes
    from a page of another tenant is neither taken nor answered: the tenant may have been changed in another tab.
    """

    @never_cache
    @wraps(view)
    def guarded(request: HttpRequest, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
        if not request.user.is_authenticated:
            return redirect_to_login(_back_to(request))
        actor = _actor(request)
        if actor is None and _is_panel(request):
            return _not_shown(NO_TENANT)
        if actor is None:
            return redirect(f"{reverse('tenant')}?{urlencode({'next': request.get_full_path()})}")
        if (page_of := _page_tenant(request)) not in (None, actor.tenant):
            return _of_another_tenant(request, actor, page_of)
        try:
            return _once(request, lambda: view(request, actor, *args, **kwargs))
        except NotFound as missing:
            raise Http404 from missing

    return cast("Callable[Concatenate[HttpRequest, P], HttpResponseBase]", guarded)


def _once(request: HttpRequest, answer: Callable[[], HttpResponseBase]) -> HttpResponseBase:
    """Answer a request. A form that names its key acts once; what was refused, and so did nothing, may be put right and sent again."""
    key = _form_key(request)
    if key is None:
        return answer()
    if not form_send(key=key):
        said = "That form was sent before, and is not done a second time. Look at what is there before you ask for it anew."
        messages.warning(request, said, extra_tags="is-caution")
        return redirect(request.path)
    try:
        answered = answer()
    except (NotFound, Http404, PermissionDenied):
        form_free(key=key)
        raise
    if answered.status_code != HTTPStatus.FOUND:
        form_free(key=key)
    return answered


def _form_key(request: HttpRequest) -> UUID | None:
    """What the page made up for this one form of it."""
    try:
        return UUID(request.POST.get("form_key", ""))
    except ValueError:
        return None


def _page_tenant(request: HttpRequest) -> str | None:
    """Of which tenant the page is that asks: its forms say it in a field, its panels in a header. None where nothing is said."""
    said: str | None = request.POST.get("page_tenant")
    return unquote(request.headers.get(PAGE_TENANT, "")) or None if said is None else said


def _of_another_tenant(request: HttpRequest, actor: Actor, page_of: str) -> HttpResponse:
    """Say that nothing was done, and offer the tenant of the page."""
    if _is_panel(request):
        return _not_shown(actor.tenant)
    context = {"page_of": page_of, "acts_in": actor.tenant, "back": request.path}
    return render(request, "other_tenant.html", context, status=HTTPStatus.CONFLICT)


def _not_shown(acting_in: str) -> HttpResponse:
    """The answer to a panel whose page is of another tenant: nothing to show, and where one acts, which its page then says."""
    return HttpResponse(status=HTTPStatus.CONFLICT, headers={ACTING_IN: quote(acting_in)})


def _is_panel(request: HttpRequest) -> bool:
    return request.headers.get("HX-Request") == "true"


def for_readers(view: PageView[P]) -> PageView[P]:
    """Inside `page`: who may not read is told so, rather than shown that nothing is there. A form passes: its service refuses it."""

    @wraps(view)
    def guarded(request: HttpRequest, actor: Actor, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
        if request.method in ("GET", "HEAD") and not actor.may(Permission.READ):
            raise PermissionDenied(f"This needs the permission “{Permission.READ}”, which your roles do not hold.")
        return view(request, actor, *args, **kwargs)

    return guarded


def _back_to(request: HttpRequest) -> str:
    """Where to go on after signing in. A form may have gone to an address that shows nothing: then to the page that it was on,
    or to the overview where the browser names none of ours.
    """
    if request.method in ("GET", "HEAD"):
        return request.get_full_path()
    sent_from = urlsplit(request.headers.get("Referer", ""))
    ours = sent_from.netloc == request.get_host()
    return urlunsplit(("", "", sent_from.path, sent_from.query, "")) if ours else reverse("overview")


def _actor(request: HttpRequest) -> Actor | None:
    """Who asks, in the tenant of the session; None where they have to choose one first. Raises Http404 for a member of none."""
    user, chosen = cast("User", request.user), request.session.get(TENANT)
    try:
        actor = actor_of(user=user, door="page", tenant_slug=chosen)
    except TenantUnchosen:
        return None
    except NotFound as missing:
        if chosen is not None and request.session.pop(TENANT):
            return _actor(request)
        raise Http404 from missing
    return replace(actor, confirmed_at=confirmed_at(request.session))


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
    if not _is_panel(request):
        return None
    return panels.get(request.headers.get("HX-Target", ""))


def doors(path: str, actor: Actor | None) -> list[dict[str, Any]]:
    """The entries of the top bar for a page at `path`: those behind which there is something for this person."""
    audits_only = actor is not None and actor.may(Permission.AUDIT) and not actor.may(Permission.READ)
    shown = [(door, reverse(door.url_name)) for door in (DOORS_OF_AUDITORS if audits_only else DOORS)]
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
