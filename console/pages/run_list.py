"""The list of runs with its filters in the URL, and the search box."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlencode
from uuid import UUID

from django.db.models import CharField, Count, Q, QuerySet
from django.db.models.functions import Cast
from django.http import HttpRequest, HttpResponseRedirect, QueryDict
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.utils.dateparse import parse_datetime

from accounts.states import Actor, Permission
from approvals.selectors import waits_visible
from console.pages import signs
from console.pages.room import page, respond
from receipts.models import Report
from receipts.selectors import calls_visible
from runs.models import Agent, Run
from runs.selectors import runs_visible, scope_controls_visible
from runs.states import ENDED_RUN, LIVE_RUN, RunStatus, ScopeStatus

PAGE = 50
TEXT_LIMIT = 200
PANELS = {"run-list": "pages/runs/list.html"}


@dataclass(frozen=True)
class RunFilter:
    """The filters of the list. `ended` stands for all four ends; an unknown status is named in `unknown`."""

    statuses: tuple[str, ...] = ()
    agent: str = ""
    text: str = ""
    before: tuple[datetime, UUID] | None = None
    unknown: tuple[str, ...] = ()

    def query(self, **changed: object) -> str:
        """The query string of this filter with some of it changed, without its place in the pages."""
        now: dict[str, object] = {"status": list(self.statuses), "agent": self.agent, "q": self.text}
        kept = {key: value for key, value in {**now, **changed}.items() if value}
        return f"?{urlencode(kept, doseq=True)}" if kept else "?"


def read_filter(asked: QueryDict) -> RunFilter:
    """The filter that a query string asks for. What it does not understand is left out and named."""
    given = [status.upper() for status in asked.getlist("status") if status]
    known = tuple(status for status in given if status in set(RunStatus))
    return RunFilter(
        statuses=known,
        agent=asked.get("agent", "")[:TEXT_LIMIT],
        text=asked.get("q", "").strip().replace("\0", "")[:TEXT_LIMIT],
        before=_read_place(asked.get("before", "")),
        unknown=tuple(status for status in given if status not in known),
    )


def _read_place(text: str) -> tuple[datetime, UUID] | None:
    moment, _, id_text = text.partition("_")
    try:
        at, run_id = parse_datetime(moment), UUID(id_text)
    except ValueError:
        return None
    return (at, run_id) if at and at.tzinfo else None


def runs_found(actor: Actor, wanted: RunFilter) -> QuerySet[Run]:
    """The actor's runs that pass the filter, the newest first."""
    runs = runs_visible(actor).select_related("agent_version__agent", "head")
    if wanted.statuses:
        runs = runs.filter(status__in=wanted.statuses)
    if wanted.agent:
        runs = runs.filter(agent_version__agent__key=wanted.agent)
    if wanted.text:
        runs = runs.annotate(id_text=Cast("id", CharField()))
        runs = runs.filter(Q(title__icontains=wanted.text) | Q(id_text__icontains=wanted.text.lower()))
    if wanted.before:
        at, run_id = wanted.before
        runs = runs.filter(Q(created_at__lt=at) | Q(created_at=at, id__lt=run_id))
    return runs.order_by("-created_at", "-id")


@dataclass(frozen=True)
class Tab:
    word: str
    lamp: str
    icon: str
    count: int | None
    url: str
    current: bool


def _tabs(actor: Actor, wanted: RunFilter) -> list[Tab]:
    live = runs_visible(actor).filter(status__in=sorted(LIVE_RUN)).values("status").annotate(n=Count("id"))
    counts = {row["status"]: row["n"] for row in live.order_by()}
    tabs = [Tab("All", "", "", None, wanted.query(status=[]), not wanted.statuses)]
    for status in (s for s in RunStatus if s in LIVE_RUN):
        sign = signs.RUN[status]
        url = wanted.query(status=[status.value])
        current = wanted.statuses == (status.value,)
        tabs.append(Tab(status.capitalize(), sign.lamp, sign.icon, counts.get(status, 0), url, current))
    ended = [status.value for status in RunStatus if status in ENDED_RUN]
    tabs.append(Tab("Ended", "neutral", "done", None, wanted.query(status=ended), set(wanted.statuses) == set(ended)))
    return tabs


@page
def run_list(request: HttpRequest, actor: Actor) -> HttpResponseBase:
    """GET /runs/: `?status=` (several), `?agent=`, `?q=` (title or part of an id), `?before=` for older pages."""
    wanted = read_filter(request.GET)
    found: Sequence[Run] = list(runs_found(actor, wanted)[: PAGE + 1])
    shown = found[:PAGE]
    more = f"{exact_micro(shown[-1].created_at)}_{shown[-1].id}" if len(found) > PAGE else ""
    agents = Agent.objects.filter(tenant_id=actor.tenant_id).order_by("key").values_list("key", flat=True)
    context = {
        "runs": shown,
        "wanted": wanted,
        "tabs": _tabs(actor, wanted),
        "agents": list(agents),
        "may_start": actor.may(Permission.START),
        "self_url": request.get_full_path(),
        "older_url": wanted.query(before=more) if more else "",
        "newer_url": wanted.query() if wanted.before else "",
        "standing": scope_controls_visible(actor).filter(status=ScopeStatus.STANDING).count(),
        "filtered": bool(wanted.statuses or wanted.agent or wanted.text),
    }
    return respond(request, actor, "pages/runs/page.html", context, PANELS)


def exact_micro(at: datetime) -> str:
    """ISO 8601 with microseconds: a place in the pages has to be exact."""
    return at.isoformat(timespec="microseconds")


@page
def search(request: HttpRequest, actor: Actor) -> HttpResponseBase:
    """GET /search/?q=: a whole id opens what it names; anything else looks through the runs."""
    text = request.GET.get("q", "").strip().replace("\0", "")[:TEXT_LIMIT]
    found = _named(actor, text)
    return HttpResponseRedirect(found or reverse("runs") + (f"?{urlencode({'q': text})}" if text else ""))


def _named(actor: Actor, text: str) -> str | None:
    try:
        named = UUID(text)
    except ValueError:
        return None
    reports = Report.objects.filter(tenant_id=actor.tenant_id) if actor.may(Permission.READ) else Report.objects.none()
    places = {"run": runs_visible(actor), "call": calls_visible(actor), "wait": waits_visible(actor), "report": reports}
    for name, rows in places.items():
        if rows.filter(id=named).exists():
            return reverse(name, args=[named])
    return None
