"""The list of runs: the list as every other one, with the statuses of live runs as tabs above it."""

from dataclasses import dataclass

from django.db import connection
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from accounts.states import Actor, Permission
from console.lists.fields import COUNT_LIMIT
from console.lists.listing import Asked, said_count
from console.lists.runs import RUNS
from console.pages import signs
from console.pages.lists.page import list_response
from console.pages.room import page
from runs.selectors import scope_controls_visible
from runs.states import ENDED_RUN, LIVE_RUN, RunStatus, ScopeStatus


@dataclass(frozen=True)
class Tab:
    word: str
    lamp: str
    icon: str
    count: str
    lit: bool
    url: str
    current: bool


# Each status is counted up to one more than the limit, by the index that its list reads.
_COUNTS = """
SELECT status, (SELECT count(*) FROM (SELECT FROM runs_run r WHERE r.tenant_id = %(tenant)s AND r.status = s.status LIMIT %(limit)s) AS few)
FROM unnest(%(statuses)s::text[]) AS s(status)"""


def _live_counts(actor: Actor) -> dict[str, int]:
    if not actor.may(Permission.READ):
        return {}
    with connection.cursor() as cursor:
        cursor.execute(_COUNTS, {"tenant": actor.tenant_id, "statuses": sorted(LIVE_RUN), "limit": COUNT_LIMIT + 1})
        return dict(cursor.fetchall())


def _tabs(asked: Asked) -> list[Tab]:
    counts, wanted = _live_counts(asked.actor), set(asked.values.get("status", []))
    tabs = [Tab("All", "", "", "", False, f"?{asked.kept(status=[])}", not wanted)]
    for status in (s for s in RunStatus if s in LIVE_RUN):
        sign, count = signs.RUN[status], counts.get(status, 0)
        url = f"?{asked.kept(status=[status.value])}"
        current = wanted == {status.value}
        tabs.append(Tab(status.capitalize(), sign.lamp, sign.icon, said_count(count), count > 0, url, current))
    ended = [status.value for status in RunStatus if status in ENDED_RUN]
    tabs.append(Tab("Ended", "neutral", "done", "", False, f"?{asked.kept(status=ended)}", wanted == set(ended)))
    return tabs


@page
def run_list(request: HttpRequest, actor: Actor) -> HttpResponseBase:
    """GET /runs/: the filters of `console.lists.runs`, `sort`, `columns`, `after` for the next page, `format` for a file."""
    more = {
        "tabs": _tabs(RUNS.asked(actor, request.GET)),
        "may_start": actor.may(Permission.START),
        "may_act": any(actor.may(one) for one in (Permission.STOP, Permission.PAUSE, Permission.RESUME)),
        "standing": scope_controls_visible(actor).filter(status=ScopeStatus.STANDING).count(),
    }
    return list_response(request, actor, RUNS, template="pages/runs/page.html", more=more)
