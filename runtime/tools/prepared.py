"""Two phases: a tool that only reads prepares a plan; another one carries out exactly this plan, once a person has approved it.

prepare (a call with a result and a revision of its own) → approve (bound to the arguments, which hold the plan and its
digest) → execute → commit (D-035, D-036).
"""

from collections.abc import Collection, Sequence
from typing import Annotated, ClassVar
from uuid import UUID

from pydantic import Field, JsonValue

from runs.canonical import canonical, digest
from runtime.contracts import Arguments, ArgumentsRefused, PriorResult
from runtime.tools.base import PlainTool, expect

FILLED_IN = {"readOnly": True}


class PreparedArguments(Arguments):
    """What is carried out, whole, so that whoever approves sees every byte of it; and the digest of the stored result."""

    plan: Annotated[JsonValue, Field(description="Filled in from what was prepared.", json_schema_extra=FILLED_IN)] = (
        None
    )
    prepared: Annotated[
        str,
        Field(pattern=r"^([0-9a-f]{64})?$", description="Filled in: the plan's digest.", json_schema_extra=FILLED_IN),
    ] = ""


class PreparedTool(PlainTool):
    """A tool that carries out what the tool named by `prepared_by` has prepared. It never runs on anything else."""

    prepared_by: ClassVar[str]

    def complete(self, args: Arguments, results: Sequence[PriorResult]) -> Arguments:
        """Fill in the newest plan and its digest. Refuses a plan of the model's own, and a call before there is one."""
        given = expect(args, PreparedArguments)
        plan = self._plan(results)
        if plan is None:
            raise ArgumentsRefused(f"Nothing is prepared. Call {self.prepared_by} first.")
        filled = {"plan": plan.value, "prepared": digest(canonical(plan.value))}
        if given.plan not in (None, filled["plan"]) or given.prepared not in ("", filled["prepared"]):
            raise ArgumentsRefused("plan and prepared are filled in from what was prepared. Leave them out.")
        return given.model_copy(update=filled)

    def rests_on(self, args: Arguments, results: Sequence[PriorResult]) -> Collection[UUID]:
        """The plan alone: what it rests on was looked at when it was prepared."""
        bound = expect(args, PreparedArguments).prepared
        plans = (result for result in results if result.tool == self.prepared_by and result.ok)
        return [plan.call_id for plan in plans if digest(canonical(plan.value)) == bound]

    def _plan(self, results: Sequence[PriorResult]) -> PriorResult | None:
        plans = [result for result in results if result.tool == self.prepared_by and result.ok]
        return plans[-1] if plans else None
