"""The record that hands a run over: what a new operator needs without asking the one before (C-035)."""

from typing import Any
from uuid import UUID

from rest_framework import serializers

from accounts.states import Actor
from checkpoints.states import CommitmentStatus
from console.pages import signs
from console.pages.handover.facts import (
    Open,
    Said,
    Watcher,
    open_things,
    said_by_people,
    standing_effects,
    told_of,
    watched_more,
    watchers_of,
)
from console.pages.run.rows import run_rows
from console.records.commitments import CommitmentRecord
from console.records.recovery import LineRecord
from console.records.runs import BudgetRecord, GoalRecord, InputRecord
from runs.selectors import access_run
from runs.states import HoldReason, NextAct, RecoveryPolicy, RunStatus, next_acts
from runtime.standing import Standing, standing_of


class OpenRecord(serializers.Serializer[Open]):
    """One thing that is open: what is due and why, the page for it, until when, and who looks at it."""

    what = serializers.CharField()
    why = serializers.CharField()
    page = serializers.CharField(source="url")
    deadline = serializers.DateTimeField(allow_null=True)
    person = serializers.CharField()


class SaidRecord(serializers.Serializer[Said]):
    """What one person did, and the reason in their own words."""

    at = serializers.DateTimeField()
    who = serializers.CharField()
    what = serializers.CharField()
    reason = serializers.CharField()


class WatcherRecord(serializers.Serializer[Watcher]):
    """Somebody who looked at the run or acted on it: how often, and what they did last."""

    who = serializers.CharField()
    times = serializers.IntegerField()
    last = serializers.DateTimeField()
    what = serializers.CharField()


class HandoverRecord(serializers.Serializer[dict[str, Any]]):
    """A run as it is handed over: what it is for and bound to, where it stands, what is open, what nobody knows, what has happened outside
    and stands, what people said and why, and who watched. `means` and `acts_next` say the status in words; `said_more` and `watched_more`
    whether older words and acts are left out.
    """

    run = serializers.UUIDField(source="run.id")
    title = serializers.CharField(source="run.title")
    status = serializers.ChoiceField(source="run.status", choices=list(RunStatus))
    hold_reason = serializers.ChoiceField(source="run.hold_reason", choices=list(HoldReason), allow_null=True)
    recovery_policy = serializers.ChoiceField(source="run.recovery_policy", choices=list(RecoveryPolicy))
    means = serializers.CharField()
    acts_next = serializers.CharField()
    next_acts = serializers.ListField(child=serializers.ChoiceField(choices=list(NextAct)))
    goal = GoalRecord(allow_null=True)
    inputs = InputRecord(many=True)
    commitments = CommitmentRecord(many=True)
    open = OpenRecord(many=True)
    unknown = LineRecord(many=True)
    effects = LineRecord(many=True)
    said = SaidRecord(many=True)
    said_more = serializers.BooleanField(source="said.more")
    budgets = BudgetRecord(many=True)
    watchers = WatcherRecord(many=True)
    watched_more = serializers.BooleanField()


def handover_shown(actor: Actor, run_id: UUID) -> dict[str, Any]:
    """The handover of a run as it is now. Raises NotFound."""
    run = access_run(actor=actor, id=run_id)
    rows, told, lines = run_rows(run), told_of(run), standing_of(run)
    sign = signs.RUN[run.status]
    handover = {
        "run": run,
        "means": sign.means,
        "acts_next": sign.acts_next,
        "next_acts": next_acts(run.status, run.hold_reason),
        "goal": next(iter(told.intents), None),
        "inputs": told.inputs,
        "commitments": [term for term in told.terms if term.status == CommitmentStatus.LIVE],
        "open": open_things(rows, told),
        "unknown": [line for line in lines if line.standing == Standing.UNKNOWN],
        "effects": standing_effects(lines),
        "said": said_by_people(rows, told),
        "budgets": rows.budgets,
        "watchers": watchers_of(told),
        "watched_more": watched_more(told),
    }
    return HandoverRecord(handover).data
