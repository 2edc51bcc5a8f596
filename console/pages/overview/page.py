"""The overview and its two panels."""

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect

from accounts.states import Actor, Permission
from console.pages import signs
from console.pages.overview.charts import charts
from console.pages.overview.day import last_day
from console.pages.overview.line import line_of
from console.pages.overview.needs import counts_of, needs
from console.pages.overview.parts import parts
from console.pages.overview.stuck import shown_as, stuck
from console.pages.room import page, respond
from runs.states import RunStatus

PANELS = {"overview-live": "pages/overview/live.html"}

# Where each status stands on the line: x in percent, and whether it is on the main track or on the siding.
STATIONS = [
    (RunStatus.QUEUED, 7, False),
    (RunStatus.RUNNING, 25, False),
    (RunStatus.WAITING, 42, True),
    (RunStatus.HELD, 57, True),
    (RunStatus.STOPPING, 76, False),
]


@page
def overview(request: HttpRequest, actor: Actor) -> HttpResponseBase:
    """GET /: what needs a person, the line, what is stuck, the last 24 hours. Who reads none of it is led to what they audit."""
    if actor.may(Permission.AUDIT) and not actor.may(Permission.READ):
        return redirect("audit")
    needed = needs(actor)
    day = last_day(actor)
    line = line_of(actor, day)
    found = stuck(actor)
    context = {
        "counts": counts_of(needed),
        "needs": needed,
        "line": line,
        "stations": [
            {
                "status": status,
                "sign": signs.RUN[status],
                "x": x,
                "y": 158 if siding else 62,
                "n": line.live.get(status, 0),
            }
            for status, x, siding in STATIONS
        ],
        "stuck": found,
        "stuck_as": shown_as(found),
        "others": [one for one in found if one.icon != "held"],
        "charts": charts(day),
    }
    return respond(request, actor, "pages/overview/page.html", context, PANELS)


@page
def overview_parts(request: HttpRequest, actor: Actor) -> HttpResponseBase:
    """GET /parts/: how the parts of the installation are, measured now. Asks the broker, so the page does not wait.

    What falls silent sends no hint: where `shown` is not what is stuck by now, the panel above is told to ask for itself.
    """
    answer = respond(request, actor, "pages/overview/parts.html", {"parts": list(parts(actor))})
    if request.GET.get("shown", "") not in ("", shown_as(stuck(actor))):
        answer["HX-Trigger"] = "live:runs"
    return answer
