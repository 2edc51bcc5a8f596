"""What a run may use and has used, what was said to it, and what was refused."""

from typing import ClassVar

from django.contrib.postgres.fields import ArrayField
from django.db import models

from accounts.models import ClockTimestamp, Tenant, among, append_only, no_delete, no_truncate, one_of, rule
from runs.models.identity import Thread
from runs.models.run import Run
from runs.states import (
    BudgetEntryKind,
    BudgetUnit,
    RefusalKind,
)


class Allowance(models.Model):
    """The budgets of a run in one row, since each step moves several: an amount for each unit, in the order of BudgetUnit.

    Null is a unit that is not counted; as a cap it is a unit without one. The view of Budget reads it by unit.
    """

    run = models.OneToOneField(Run, primary_key=True, on_delete=models.PROTECT, related_name="allowance")
    cap = ArrayField(models.BigIntegerField(null=True))
    held_unknown = ArrayField(models.BigIntegerField(null=True))
    reserved = ArrayField(models.BigIntegerField(null=True))
    spent = ArrayField(models.BigIntegerField(null=True))

    class Meta:
        constraints: ClassVar = [
            rule("budget_not_negative", "0 <= ALL (cap || held_unknown || reserved || spent)"),
            rule(
                "budget_of_every_unit", f"cardinality(cap || held_unknown || reserved || spent) = {4 * len(BudgetUnit)}"
            ),
        ]
        triggers: ClassVar = [no_delete(), no_truncate()]

    def __str__(self) -> str:
        return f"allowance of {self.run_id}"


class Budget(models.Model):
    """What a run has of one unit reserved, held for unknown outcomes, and spent, and its cap; without one nothing is refused.

    A view of Allowance. It takes updates too, for whoever writes beside the steps, with the lease's row locked.
    """

    pk = models.CompositePrimaryKey("run_id", "unit")
    run = models.ForeignKey(Run, on_delete=models.DO_NOTHING, related_name="budgets")
    unit = models.CharField(max_length=16)
    cap = models.BigIntegerField(null=True)
    reserved = models.BigIntegerField()
    held_unknown = models.BigIntegerField()
    spent = models.BigIntegerField()

    class Meta:
        managed = False
        db_table = "runs_budget"

    def __str__(self) -> str:
        return f"{self.unit} {self.spent} of {self.cap}"

    @property
    def taken(self) -> int:
        """What can't be reserved any more."""
        return self.reserved + self.held_unknown + self.spent

    @property
    def room(self) -> int:
        """How much of the cap is left, less than nothing after an overrun. Only for a budget with a cap."""
        return (self.cap or 0) - self.taken


class BudgetEntry(models.Model):
    """One movement of a budget, for one attempt of one receipt: how much of each unit it moves; null for units left alone."""

    pk = models.CompositePrimaryKey("receipt_id", "attempt_no", "kind")
    run = models.ForeignKey(Run, on_delete=models.PROTECT, db_index=False)
    receipt_id = models.UUIDField()
    attempt_no = models.IntegerField()
    kind = models.CharField(max_length=16)
    model_calls = models.BigIntegerField(null=True)
    tool_calls = models.BigIntegerField(null=True)
    tokens = models.BigIntegerField(null=True)
    usd_micros = models.BigIntegerField(null=True)
    wall_ms = models.BigIntegerField(null=True)
    at = models.DateTimeField(db_default=ClockTimestamp())

    class Meta:
        constraints: ClassVar = [
            rule("budget_entry_kind_known", among("kind", BudgetEntryKind)),
            rule("budget_entry_moves_something", f"num_nonnulls({', '.join(BudgetUnit)}) > 0"),
        ]
        triggers: ClassVar = [append_only(), no_truncate()]

    def __str__(self) -> str:
        return f"{self.kind} {self.amounts}"

    @property
    def amounts(self) -> dict[str, int]:
        """What it moves, by unit."""
        columns = {
            BudgetUnit.MODEL_CALLS: self.model_calls,
            BudgetUnit.TOOL_CALLS: self.tool_calls,
            BudgetUnit.TOKENS: self.tokens,
            BudgetUnit.USD_MICROS: self.usd_micros,
            BudgetUnit.WALL_MS: self.wall_ms,
        }
        return {str(unit): amount for unit, amount in columns.items() if amount is not None}


class Message(models.Model):
    """What a person said in a thread, or a notice that the model hears with its next request."""

    thread = models.ForeignKey(Thread, on_delete=models.PROTECT, related_name="messages")
    run = models.ForeignKey(Run, on_delete=models.PROTECT)
    seq = models.BigIntegerField()
    role = models.CharField(max_length=16)
    after_turn = models.IntegerField(db_default=0)
    sha256 = models.CharField(max_length=64)
    body = models.BinaryField()
    data_key_id = models.UUIDField()
    at = models.DateTimeField(db_default=ClockTimestamp())

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["thread", "seq"], name="message_seq_once"),
            one_of("role", ["user", "notice"], "message_role_known"),
        ]
        triggers: ClassVar = [append_only(), no_truncate()]

    def __str__(self) -> str:
        return f"{self.role} {self.seq}"


class Refusal(models.Model):
    """A write or a resume that was refused, and why. Never holds the refused content."""

    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT)
    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="refusals")
    kind = models.CharField(max_length=32)
    fence = models.BigIntegerField(null=True)
    expected_revision = models.IntegerField(null=True)
    actual_revision = models.IntegerField(null=True)
    subject_id = models.UUIDField(null=True)
    evidence_digest = models.CharField(max_length=64, null=True)
    detail = models.JSONField(default=dict)
    at = models.DateTimeField(db_default=ClockTimestamp())

    class Meta:
        constraints: ClassVar = [one_of("kind", list(RefusalKind), "refusal_kind_known")]
        triggers: ClassVar = [append_only(), no_truncate()]

    def __str__(self) -> str:
        return self.kind
