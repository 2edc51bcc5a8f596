"""The verb `runs ledger`: what was written about a run on its way, list by list."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from rest_framework import serializers

from checkpoints.models import Lapse, SaveAttempt, TaskWrite
from console.management.noun import Asked, Noun, Shown, clock, table
from console.records import records_of
from console.records.ledger import (
    LapseRecord,
    RefusalRecord,
    SaveRecord,
    TaskRecord,
    TransitionRecord,
    TurnRecord,
    WakeupRecord,
    turn_rows,
)
from runs.models import Refusal, Run, RunTransition, Wakeup
from runs.selectors import access_run


@dataclass(frozen=True)
class _List:
    """A list: its rows in order, their record, and what of it people are shown."""

    rows: Callable[[Run], Any]
    record: type[serializers.Serializer[Any]]
    shown: tuple[str, ...]


LISTS = {
    "transitions": _List(
        lambda run: RunTransition.objects.filter(run=run).order_by("id"),
        TransitionRecord,
        ("at", "from_status", "to_status", "cause", "by", "fence", "detail"),
    ),
    "turns": _List(
        lambda run: turn_rows(run).order_by("turn_no"),
        TurnRecord,
        ("created_at", "turn_no", "status", "attempts", "sealed_fence", "request_digest", "response_digest"),
    ),
    "tasks": _List(
        lambda run: TaskWrite.objects.filter(run=run).order_by("id"),
        TaskRecord,
        ("at", "base_revision", "call", "fence", "digest"),
    ),
    "wakeups": _List(
        lambda run: Wakeup.objects.filter(run=run).order_by("created_at", "id"),
        WakeupRecord,
        ("created_at", "cause", "status", "consumed_fence", "wait"),
    ),
    "refusals": _List(
        lambda run: Refusal.objects.filter(run=run).order_by("id"),
        RefusalRecord,
        ("at", "kind", "fence", "subject", "expected_revision", "actual_revision"),
    ),
    "saves": _List(
        lambda run: SaveAttempt.objects.filter(run=run).order_by("at", "save_id"),
        SaveRecord,
        ("at", "trigger", "expected_revision", "fence", "status", "kind", "path", "why"),
    ),
    "lapses": _List(
        lambda run: Lapse.objects.filter(run=run).order_by("at", "tool_call_id"),
        LapseRecord,
        ("at", "step", "observed_at", "half_life_seconds", "call"),
    ),
}
_MOMENTS = ("at", "created_at", "observed_at")


def add_verbs(noun: Noun) -> None:
    """Add the verb to the noun."""
    verb = noun.verb(
        "ledger", ledger, "What was written about the run on its way, in the order in which it was written."
    )
    verb.add_argument("id", type=UUID)
    verb.add_argument("list", choices=sorted(LISTS))


def ledger(asked: Asked) -> Shown:
    """One list of a run."""
    wanted = LISTS[asked["list"]]
    records = records_of(wanted.record, wanted.rows(access_run(actor=asked.actor, id=asked["id"])))
    lines = [tuple(_cell(name, record[name]) for name in wanted.shown) for record in records]
    heads = tuple(name.replace("_", " ").upper() for name in wanted.shown)
    return Shown(records, table(heads, lines, f"There are no {asked['list']} of this run."))


def _cell(name: str, value: Any) -> Any:
    if value is None:
        return ""
    return clock(value) if name in _MOMENTS else value
