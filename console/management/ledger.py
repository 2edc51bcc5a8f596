"""The verb `runs ledger`: what was written about a run on its way, list by list."""

from typing import Any
from uuid import UUID

from console.management.noun import Asked, Noun, Shown, clock, table
from console.records import records_of
from console.records.ledger import LAPSES, REFUSALS, SAVES, TASKS, TRANSITIONS, TURNS, WAKEUPS
from runs.selectors import access_run

LISTS = {
    "transitions": TRANSITIONS,
    "turns": TURNS,
    "tasks": TASKS,
    "wakeups": WAKEUPS,
    "refusals": REFUSALS,
    "saves": SAVES,
    "lapses": LAPSES,
}
# What of each list people are shown; --json has the whole records.
_SHOWN = {
    "transitions": ("at", "from_status", "to_status", "cause", "by", "fence", "detail"),
    "turns": ("created_at", "turn_no", "status", "attempts", "sealed_fence", "request_digest", "response_digest"),
    "tasks": ("at", "base_revision", "call", "fence", "digest"),
    "wakeups": ("created_at", "cause", "status", "consumed_fence", "wait"),
    "refusals": ("at", "kind", "fence", "subject", "expected_revision", "actual_revision"),
    "saves": ("at", "trigger", "expected_revision", "fence", "status", "kind", "path", "why"),
    "lapses": ("at", "step", "observed_at", "half_life_seconds", "call"),
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
    rows = wanted.rows(access_run(actor=asked.actor, id=asked["id"])).order_by(*wanted.order)
    records = records_of(wanted.record, rows)
    shown = _SHOWN[asked["list"]]
    lines = [tuple(_cell(name, record[name]) for name in shown) for record in records]
    heads = tuple(name.replace("_", " ").upper() for name in shown)
    return Shown(records, table(heads, lines, f"There are no {asked['list']} of this run."))


def _cell(name: str, value: Any) -> Any:
    if value is None:
        return ""
    return clock(value) if name in _MOMENTS else value
