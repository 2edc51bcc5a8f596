"""Starting a run in the browser: an agent, its files, a goal."""

from uuid import uuid4

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse
from django_htmx.http import HttpResponseClientRedirect

from accounts.errors import Invalid, NotAllowed, Refused
from accounts.states import Actor, Permission
from console.pages.room import page, respond
from runtime.contracts import AgentSpec
from runtime.registry import agents
from runtime.services import GOAL_LIMIT, NAME_LIMIT, Started, StartRequest, Upload, run_start

FILE_LIMIT = 8 * 1024 * 1024
PANELS = {"new-refusal": "pages/runs/refusal.html"}


@page
def run_new(request: HttpRequest, actor: Actor) -> HttpResponseBase:
    """GET /runs/new/ shows the form, POST starts the run and leads to it. A refusal keeps what was typed and chosen."""
    if request.method == "POST":
        outcome = run_start(actor=actor, wanted=_wanted(request)) if _fits(request) is None else _fits(request)
        if isinstance(outcome, Started):
            return _led(request, reverse("run", args=[outcome.run_id]))
        return _form(request, actor, outcome)
    refused = None if actor.may(Permission.START) else NotAllowed({"permission": "start", "actor": actor.name})
    return _form(request, actor, refused)


def _wanted(request: HttpRequest) -> StartRequest:
    """What the form asks for. A file that was not chosen is left out, so that the agent names it."""
    files = {name: file for name, file in request.FILES.items() if not isinstance(file, list)}
    return StartRequest(
        agent=request.POST.get("agent", ""),
        inputs={
            name.removeprefix("file-"): Upload(file.name or name, file.read())
            for name, file in files.items()
            if name.startswith("file-")
        },
        goal=request.POST.get("goal", "").replace("\r\n", "\n"),
        title=request.POST.get("title", "").strip(),
        key=request.POST.get("key", ""),
    )


def _fits(request: HttpRequest) -> Refused | None:
    """Why an upload is not even read, or None."""
    for name, file in request.FILES.items():
        if not isinstance(file, list) and (file.size or 0) > FILE_LIMIT:
            limit = FILE_LIMIT // (1024 * 1024)
            reason = f"{file.name} is larger than {limit} MiB, so it was not read."
            return Invalid({"field": name.removeprefix("file-").upper(), "reason": reason})
    return None


def _led(request: HttpRequest, url: str) -> HttpResponse:
    if request.headers.get("HX-Request") == "true":
        return HttpResponseClientRedirect(url)
    return redirect(url)


def _form(request: HttpRequest, actor: Actor, refused: Refused | None) -> HttpResponse:
    spec = _spec(request.POST.get("agent") or request.GET.get("agent") or "")
    context = {
        "specs": [agent.spec for agent in agents().values()],
        "spec": spec,
        "files": [(name, spec.input_labels.get(name, name)) for name in spec.input_names],
        "goal": request.POST.get("goal", spec.default_goal),
        "title": request.POST.get("title", ""),
        "key": request.POST.get("key") or str(uuid4()),
        "refused": refused,
        "may_start": actor.may(Permission.START),
        "goal_limit": GOAL_LIMIT,
        "title_limit": NAME_LIMIT,
    }
    return respond(request, actor, "pages/runs/new.html", context, PANELS, refused.status if refused else 200)


def _spec(key: str) -> AgentSpec:
    known = agents()
    return known[key].spec if key in known else next(iter(known.values())).spec
