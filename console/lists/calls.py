"""The list of tool calls."""

from collections.abc import Sequence

from django.db.models import QuerySet, prefetch_related_objects

from console.lists.cells import Cell, Column
from console.lists.fields import Choice, Flag, Identifier, Moment, Words, by, only, picks
from console.lists.keyset import Order
from console.lists.listing import Empty, Listing, Sort
from receipts.models import ToolCall
from receipts.selectors import calls_visible
from receipts.states import UNSETTLED_CALL, CallStatus, EffectClass
from runs.states import LIVE_RUN


def _of_status(rows: QuerySet[ToolCall], wanted: Sequence[str]) -> QuerySet[ToolCall]:
    """Calls that are not settled are those of live runs or unknown: few among many."""
    if wanted == [CallStatus.UNCERTAIN]:
        return rows.filter(unknown=True)
    if set(wanted) <= UNSETTLED_CALL - {CallStatus.UNCERTAIN}:
        rows = rows.filter(run__status__in=sorted(LIVE_RUN))
    return rows.filter(status__in=wanted)


def _dress(calls: Sequence[ToolCall]) -> None:
    prefetch_related_objects(list(calls), "run")


CALLS = Listing(
    key="calls",
    row="call",
    title="Calls",
    url_name="calls",
    say="Every call that a model proposed: what was sent, what came of it, and what nobody knows.",
    rows=lambda actor: calls_visible(actor).defer("args"),
    fields=(
        Choice("status", "Status", _of_status, picks=picks(*CallStatus), several=True),
        Words("tool", "Tool", by("tool"), "As publish_report."),
        Choice(
            "effect_class",
            "Effect",
            by("effect_class__in"),
            picks=picks(*EffectClass),
            several=True,
        ),
        Identifier("run", "Run", by("run_id"), "Its whole id."),
        Words("external_ref", "External reference", by("external_ref")),
        Flag("unknown", "Of unknown outcome", only(unknown=True)),
        Moment(
            "since",
            "Proposed since",
            by("created_at__gte"),
            "A day as 2026-11-30, or 12 h for 12 hours ago.",
        ),
        Moment("until", "Proposed until", by("created_at__lt"), end_of_day=True),
    ),
    sorts=(
        Sort("newest", "newest first", Order(("id",))),
        Sort("oldest", "oldest first", Order(("id",), descending=False)),
    ),
    columns=(
        Column("step", "Call", lambda call: Cell("link", call.step_name, url=f"/calls/{call.id}/")),
        Column("id", "Id", lambda call: Cell("id", call.id)),
        Column("status", "Status", lambda call: Cell("state", call.status, machine="call")),
        Column("tool", "Tool", lambda call: Cell("text", call.tool, note=f"version {call.tool_version}")),
        Column("effect_class", "Effect", lambda call: Cell("effect", call.effect_class)),
        Column("attempts", "Attempts", lambda call: Cell("number", call.attempts)),
        Column("run", "Run", lambda call: Cell("link", call.run.title, url=f"/runs/{call.run_id}/")),
        Column("created_at", "Proposed", lambda call: Cell("when", call.created_at)),
        Column("error", "Error", lambda call: Cell("text", call.error)),
        Column("external_ref", "External reference", lambda call: Cell("text", call.external_ref)),
        Column("idempotency_key", "Key", lambda call: Cell("digest", call.idempotency_key)),
    ),
    shown=("step", "status", "effect_class", "attempts", "run", "created_at", "error"),
    empty=Empty(
        "No call was proposed yet.",
        "A run's model proposes them; they appear here by themselves.",
        "run-new",
        "New run",
    ),
    dress=_dress,
    under="runs",
    over=lambda call: call.status not in UNSETTLED_CALL,
)
