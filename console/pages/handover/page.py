"""GET /runs/<id>/handover/: everything a new operator needs, in the order in which they ask."""

from uuid import UUID

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from accounts.states import Actor
from checkpoints.states import CommitmentKind, CommitmentStatus
from console.pages.amounts import budget_lines
from console.pages.handover.facts import (
    next_steps,
    open_things,
    said_by_people,
    standing_effects,
    told_of,
    watched_more,
    watchers_of,
)
from console.pages.room import page, respond
from console.pages.run.rows import run_rows
from console.pages.run.say import RECOVERY, facts_of, head_line
from runs.selectors import access_run
from runs.states import next_acts
from runtime.standing import Standing, standing_of

PANELS = {"handover-live": "pages/handover/live.html"}


@page
def handover_page(request: HttpRequest, actor: Actor, id: UUID) -> HttpResponseBase:
    """What the run is for, where it stands, what is open and unknown, what people said, and what comes next."""
    run = access_run(actor=actor, id=id)
    rows = run_rows(run)
    told = told_of(run)
    lines = standing_of(run)
    terms = [term for term in told.terms if term.status == CommitmentStatus.LIVE]
    context = {
        "run": run,
        "rows": rows,
        "topic": f"run:{id}",
        "self_url": request.path,
        "head_line": head_line(rows),
        "facts": facts_of(rows),
        "policy": RECOVERY[run.recovery_policy],
        "intent": next(iter(told.intents), None),
        "inputs": told.inputs,
        "constraints": [term for term in terms if term.kind == CommitmentKind.CONSTRAINT],
        "assumptions": [term for term in terms if term.kind == CommitmentKind.ASSUMPTION],
        "open": open_things(rows, told),
        "unknown": [line for line in lines if line.standing == Standing.UNKNOWN],
        "effects": standing_effects(lines),
        "said": said_by_people(rows, told),
        "steps": next_steps(rows),
        "acts": next_acts(run.status, run.hold_reason),
        "budget_lines": budget_lines(rows.budgets),
        "watchers": watchers_of(told),
        "watched_more": watched_more(told),
    }
    return respond(request, actor, "pages/handover/page.html", context, PANELS)
