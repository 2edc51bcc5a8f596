"""Records of what a receipt has moved of its run's budget, and whether that is settled."""

from collections.abc import Sequence

from rest_framework import serializers

from runs.models import BudgetEntry
from runs.states import BudgetEntryKind


class MovementRecord(serializers.Serializer[BudgetEntry]):
    """One movement for one attempt: how much of each unit."""

    attempt_no = serializers.IntegerField()
    kind = serializers.ChoiceField(choices=list(BudgetEntryKind))
    amounts = serializers.DictField(child=serializers.IntegerField())
    at = serializers.DateTimeField()


_CLOSING = frozenset({BudgetEntryKind.SETTLE, BudgetEntryKind.RELEASE})


def settled(entries: Sequence[BudgetEntry]) -> bool:
    """Whether everything that was reserved is spent or given back. What is held for an unknown outcome is not (A-128)."""
    reserved = {entry.attempt_no for entry in entries if entry.kind == BudgetEntryKind.RESERVE}
    return reserved <= {entry.attempt_no for entry in entries if entry.kind in _CLOSING}
