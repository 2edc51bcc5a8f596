"""Starting a run in the browser: an agent, its files or texts, a goal."""

from uuid import uuid4

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse
from django_htmx.http import HttpResponseClientRedirect

from accounts.errors import Invalid, NotAllowed, Refused
from accounts.states import Actor, Permission
from console.pages.room import page, respond
from console.pages.run.say import RECOVERY
from runs.states import typed_tags
from runtime.contracts import AgentSpec
from runtime.registry import agents
from runtime.services import (
    GOAL_LIMIT,
    NAME_LIMIT,
    Started,
    StartRequest,
    Terms,
    Upload,
    lines_of,
    run_start,
    typed_text,
)

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
    """What the form asks for. An input that was not given is left out, so that the agent names it."""
    files = {name: file for name, file in request.FILES.items() if not isinstance(file, list)}
    uploads = {
        name.removeprefix("file-"): Upload(file.name or "", file.read())
        for name, file in files.items()
        if name.startswith("file-")
    }
    typed = {name: typed_text(text) for name, text in _typed(request).items()}
    return StartRequest(
        agent=request.POST.get("agent", ""),
        inputs=typed | uploads,
        goal=request.POST.get("goal", "").replace("\r\n", "\n"),
        title=request.POST.get("title", "").strip(),
        workspace=request.POST.get("workspace", "").strip(),
        recovery_policy=request.POST.get("recovery_policy", ""),
        key=request.POST.get("key", ""),
        tags=typed_tags(request.POST.get("tags", "")),
        terms=Terms(
            tuple(lines_of(request.POST.get("constraints", ""))),
            tuple(lines_of(request.POST.get("assumptions", ""))),
            tuple(request.POST.getlist("deny")),
        ),
    )


def _typed(request: HttpRequest) -> dict[str, str]:
    """What was typed, by the name of its input. An empty field counts as not given."""
    fields = ((name.removeprefix("text-"), text) for name, text in request.POST.items() if name.startswith("text-"))
    return {name: str(text).replace("\r\n", "\n") for name, text in fields if str(text).strip()}


def _fits(request: HttpRequest) -> Refused | None:
    """Why an upload is not even read, or None."""
    for name in _typed(request):
        if f"file-{name}" in request.FILES:
            return Invalid({"field": name, "reason": "it was typed and given as a file; keep one of the two."})
    for name, file in request.FILES.items():
        if not isinstance(file, list) and (file.size or 0) > FILE_LIMIT:
            limit = FILE_LIMIT // (1024 * 1024)
            reason = f"{file.name} is larger than {limit} MiB, so it was not read."
            return Invalid({"field": name.removeprefix("file-"), "reason": reason})
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
        "inputs": [_given(request, spec, name) for name in spec.input_names],
        "goal": request.POST.get("goal", spec.default_goal),
        "title": request.POST.get("title", ""),
        "workspace": request.POST.get("workspace", ""),
        "tags": request.POST.get("tags", ""),
        "key": request.POST.get("key") or str(uuid4()),
        "constraints": request.POST.get("constraints", ""),
        "assumptions": request.POST.get("assumptions", ""),
        "denied": request.POST.getlist("deny"),
        "policies": [(policy, *said) for policy, said in RECOVERY.items()],
        "policy": request.POST.get("recovery_policy") or spec.recovery_policy,
        "refused": refused,
        "may_start": actor.may(Permission.START),
        "goal_limit": GOAL_LIMIT,
        "title_limit": NAME_LIMIT,
    }
    return respond(request, actor, "pages/runs/new.html", context, PANELS, refused.status if refused else 200)


def _given(request: HttpRequest, spec: AgentSpec, name: str) -> dict[str, object]:
    """One input of the form. A text that was typed is kept; `?sample=1` fills in the agent's sample."""
    sample = spec.text_inputs.get(name, "") if request.GET.get("sample") else ""
    return {
        "name": name,
        "label": spec.input_labels.get(name, name),
        "is_text": name in spec.text_inputs,
        "text": request.POST.get(f"text-{name}", sample),
    }


def _spec(key: str) -> AgentSpec:
    known = agents()
    return known[key].spec if key in known else next(iter(known.values())).spec
