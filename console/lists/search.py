"""One box for everything that has a name: ids and their ends, keys, external references, agents, threads, tags, titles."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.db.models import Q, QuerySet
from django.urls import reverse

from accounts.statements import fetch, planned_anew
from accounts.states import Actor, Permission
from approvals.selectors import waits_visible
from console.lists.fields import tail_of
from console.lists.runs import runs_named
from console.lists.tails import ends_with, whole_id
from console.pages.few import Few
from console.pages.report.versions import reports_visible
from receipts.models import ReportVersion, ToolCall
from receipts.selectors import calls_visible
from runs.models import Agent, Thread
from runs.selectors import runs_visible, tags_beginning

EACH = 10
NEWEST_CALLS = 10_000  # so many are looked through for the end of an id; the page says so
_KEY = 64

# The ids alone are read, from their index; a join would have the server look each of them up.
_NEWEST = """
SELECT id FROM (SELECT id FROM receipts_toolcall WHERE tenant_id = %(tenant)s ORDER BY id DESC LIMIT %(newest)s) AS newest
WHERE id::text LIKE %(tail)s LIMIT %(limit)s"""


@dataclass(frozen=True)
class Hit:
    """One thing that was found: what it is called, what about it, and where it is."""

    title: str
    note: str
    url: str
    id: Any
    machine: str = ""
    status: str = ""


@dataclass(frozen=True)
class Group:
    """What was found of one kind. `all` leads to the list that shows the others too, where there is one."""

    word: str
    hits: Few[Hit]
    all: str = ""


@planned_anew()
def found(actor: Actor, text: str) -> list[Group]:
    """Everything of the actor's tenant that a text names, by kind, a few of each; nothing without the permission to read."""
    if not text or not actor.may(Permission.READ):
        return []
    return [group for look in _LOOKS for group in look(actor, text) if group.hits]


def opens(actor: Actor, text: str) -> str | None:
    """Where a whole id leads, if it names something here."""
    named = whole_id(text)
    if named is None or not actor.may(Permission.READ):
        return None
    places: dict[str, QuerySet[Any]] = {
        "run": runs_visible(actor),
        "call": calls_visible(actor),
        "wait": waits_visible(actor),
        "report": reports_visible(actor),
    }
    return next((reverse(name, args=[named]) for name, rows in places.items() if rows.filter(id=named).exists()), None)


def _runs(actor: Actor, text: str) -> Iterator[Group]:
    runs = runs_named(runs_visible(actor), text).order_by("-created_at", "-id")[: EACH + 1]
    hits = [
        Hit(
            run.title,
            f"started by {run.created_by.removeprefix('person:')}",
            f"/runs/{run.id}/",
            run.id,
            "run",
            run.status,
        )
        for run in runs
    ]
    yield Group("Runs", Few(hits, EACH), _list("q", text))


def _waits(actor: Actor, text: str) -> Iterator[Group]:
    tail = tail_of(text)
    if not tail:
        return
    waits = waits_visible(actor).filter(ends_with(tail)).select_related("tool_call", "run").defer("tool_call__args")
    yield Group(
        "Waits",
        Few(
            (
                Hit(wait.tool_call.step_name, wait.run.title, f"/waits/{wait.id}/", wait.id, "wait", wait.status)
                for wait in waits[: EACH + 1]
            ),
            EACH,
        ),
    )


def _calls(actor: Actor, text: str) -> Iterator[Group]:
    calls = calls_visible(actor).select_related("run").defer("args")
    named = calls.filter(_names_a_call(actor, text)).order_by()[: EACH + 1]
    yield Group("Calls", Few(map(_call_hit, named), EACH))


def _names_a_call(actor: Actor, text: str) -> Q:
    """By its key, by what the other side calls it, or, of the newest ones, by the end of its id."""
    lower, tail = text.casefold(), tail_of(text)
    if len(lower) == _KEY and tail_of(lower[:36]):
        return Q(idempotency_key=lower) & ~Q(effect_class="READ_ONLY")
    if not tail:
        return Q(external_ref__startswith=text)
    wanted = {"tenant": actor.tenant_id, "newest": NEWEST_CALLS, "tail": f"%{tail}", "limit": EACH + 1}
    return Q(id__in=[id for (id,) in fetch(_NEWEST, wanted)])


def _call_hit(call: ToolCall) -> Hit:
    return Hit(call.step_name, call.external_ref or call.run.title, f"/calls/{call.id}/", call.id, "call", call.status)


def _reports(actor: Actor, text: str) -> Iterator[Group]:
    tail, mine = tail_of(text), reports_visible(actor)
    versions = ReportVersion.objects.filter(tenant_id=actor.tenant_id).order_by("-committed_at")
    named = Q(title__icontains=text)
    if tail:  # read first, since with a question inside the other one no index helps to find the title
        named |= Q(report__in=list(mine.filter(ends_with(tail)).values_list("id", flat=True)[: EACH + 1]))
    seen: dict[Any, Hit] = {}
    for version in versions.filter(named)[: EACH * 2 + 1]:
        report = version.report_id
        seen.setdefault(report, Hit(version.title, f"version {version.version_no}", f"/reports/{report}/", report))
    yield Group("Reports", Few(seen.values(), EACH), f"{reverse('reports')}?{urlencode({'q': text})}")


def _names(actor: Actor, text: str) -> Iterator[Group]:
    agents = Agent.objects.filter(tenant_id=actor.tenant_id, key__icontains=text).order_by("key")[: EACH + 1]
    yield Group("Agents", Few((Hit(one.key, "its runs", _list("agent", one.key), one.id) for one in agents), EACH))
    threads = Thread.objects.filter(tenant_id=actor.tenant_id, key__startswith=text).select_related("agent")[: EACH + 1]
    yield Group(
        "Threads", Few((Hit(one.key, one.agent.key, _list("thread", str(one.id)), one.id) for one in threads), EACH)
    )


def _tags(actor: Actor, text: str) -> Iterator[Group]:
    tags = tags_beginning(actor, text.casefold(), EACH + 1)
    yield Group("Tags", Few((Hit(tag, "its runs", _list("tag", tag), tag) for tag in tags), EACH))


def _list(field: str, value: str) -> str:
    return f"{reverse('runs')}?{urlencode({field: value})}"


_LOOKS: tuple[Callable[[Actor, str], Iterator[Group]], ...] = (_runs, _waits, _calls, _reports, _names, _tags)
