"""The list of waits: open, decided, used and run out."""

from collections.abc import Sequence

from django.db.models import QuerySet, prefetch_related_objects

from approvals.models import Wait
from approvals.selectors import waits_visible
from approvals.states import Risk, WaitStatus
from console.lists.cells import Cell, Column
from console.lists.fields import Choice, Identifier, Moment, Words, by, picks
from console.lists.keyset import Order
from console.lists.listing import Empty, Listing, Sort
from console.pages.words import SAID
from receipts.models import ToolCall


def _decided_by(rows: QuerySet[Wait], person: str) -> QuerySet[Wait]:
    return rows.filter(decision__actor=person if ":" in person else f"person:{person}")


def _tool(rows: QuerySet[Wait], tool: str) -> QuerySet[Wait]:
    return rows.filter(tool_call__tool=tool)


def _dress(waits: Sequence[Wait]) -> None:
    prefetch_related_objects(list(waits), "run", "decision")
    calls = ToolCall.objects.defer("args").in_bulk([wait.tool_call_id for wait in waits])
    for wait in waits:
        wait.tool_call = calls[wait.tool_call_id]


def _decision(wait: Wait) -> Cell:
    decision = getattr(wait, "decision", None)
    return Cell("person", decision.actor if decision else None, note=SAID[decision.verdict] if decision else "")


def _reason(wait: Wait) -> Cell:
    decision = getattr(wait, "decision", None)
    return Cell("text", decision.reason if decision else wait.status_reason)


WAITS = Listing(
    key="waits",
    row="wait",
    title="Waits",
    url_name="waits",
    say="Every call that a person was asked about: those that are open, and what came of the others.",
    rows=waits_visible,
    fields=(
        Choice(
            "status",
            "Status",
            by("status__in"),
            picks=picks(*WaitStatus),
            several=True,
        ),
        Choice("risk", "Risk", by("risk__in"), picks=picks(*Risk), several=True),
        Words("tool", "Tool", _tool, "As publish_report."),
        Words("person", "Decided by", _decided_by, "A username."),
        Identifier("run", "Run", by("run_id"), "Its whole id."),
        Moment("since", "Asked since", by("opened_at__gte"), "A day as 2026-11-30, or 12 h for 12 hours ago."),
        Moment("until", "Asked until", by("opened_at__lt"), end_of_day=True),
        Moment("due", "Runs out until", by("deadline__lt"), end_of_day=True),
    ),
    sorts=(
        Sort("newest", "newest first", Order(("opened_at", "id"))),
        Sort("oldest", "oldest first", Order(("opened_at", "id"), descending=False)),
    ),
    columns=(
        Column("step", "Call", lambda wait: Cell("link", wait.tool_call.step_name, url=f"/waits/{wait.id}/")),
        Column("id", "Id", lambda wait: Cell("id", wait.id)),
        Column("status", "Status", lambda wait: Cell("state", wait.status, machine="wait")),
        Column("risk", "Risk", lambda wait: Cell("word", wait.risk)),
        Column("effect_class", "Effect", lambda wait: Cell("effect", wait.tool_call.effect_class)),
        Column("run", "Run", lambda wait: Cell("link", wait.run.title, url=f"/runs/{wait.run_id}/")),
        Column("opened_at", "Asked", lambda wait: Cell("when", wait.opened_at)),
        Column("deadline", "Runs out", lambda wait: Cell("when", wait.deadline)),
        Column("decided_by", "Decided by", _decision),
        Column("reason", "Reason", _reason),
        Column("closed_at", "Closed", lambda wait: Cell("when", wait.closed_at)),
        Column("rule", "Asked by", lambda wait: Cell("text", wait.policy_rule)),
    ),
    shown=("step", "status", "risk", "run", "opened_at", "deadline", "decided_by"),
    empty=Empty(
        "Nothing was asked yet.",
        "A call that policy asks a person about appears here by itself.",
        "policies",
        "Policies",
    ),
    dress=_dress,
    topic="inbox",
    under="inbox",
    over=lambda wait: wait.closed_at is not None,
)
