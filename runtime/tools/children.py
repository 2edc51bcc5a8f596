"""How an agent has children: one tool starts a child run, another one waits for its end (A-074, A-161)."""

from typing import ClassVar
from uuid import UUID

from pydantic import Field

from accounts.keys import new_id
from receipts.states import EffectClass
from runtime.contracts import Arguments, ChildDraft, ToolContext, ToolFailed, ToolOutcome, ToolPending
from runtime.tools.base import PlainTool, expect

UUID_FORM = "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"


class SpawnChildArguments(Arguments):
    agent: str = Field(max_length=100, description="The key of the child's agent.")
    label: str = Field(
        pattern="^[a-z0-9-]{1,64}$", description="A name for this child. Another child needs another one."
    )
    goal: str = Field(min_length=1, max_length=4000, description="What the child is to do.")


class SpawnChild(PlainTool):
    """Starts a child run. It is admitted together with the call's result, so a missing result means that there is none."""

    key: ClassVar[str] = "spawn_child"
    version: ClassVar[str] = "1"
    description: ClassVar[str] = "Start a child run with a goal of its own. It works beside this run."
    effect_class: ClassVar[EffectClass] = EffectClass.QUERYABLE
    timeout_seconds: ClassVar[float] = 10.0
    arguments: ClassVar[type[Arguments]] = SpawnChildArguments
    local: ClassVar[bool] = True

    def step_label(self, args: Arguments) -> str:
        return expect(args, SpawnChildArguments).label

    def run(self, context: ToolContext, args: Arguments) -> ToolOutcome:
        """The child to be admitted, under an id that the agent can wait for."""
        asked = expect(args, SpawnChildArguments)
        child = ChildDraft(new_id(), asked.agent, asked.goal)
        value = {"child": str(child.run_id), "agent": asked.agent, "label": asked.label}
        return ToolOutcome(value, external_ref=str(child.run_id), target=f"run:{child.run_id}", child=child)

    def probe(self, context: ToolContext, args: Arguments) -> ToolOutcome | bool | None:
        """The child is committed with the result: no result, no child."""
        return False


class AwaitChildArguments(Arguments):
    child: str = Field(pattern=UUID_FORM, description="The id that spawn_child gave.")


class AwaitChild(PlainTool):
    """Waits until a child run has ended, and says how. The run holds no worker meanwhile."""

    key: ClassVar[str] = "await_child"
    version: ClassVar[str] = "1"
    description: ClassVar[str] = "Wait until a child run has ended, and hear what it said at its end."
    effect_class: ClassVar[EffectClass] = EffectClass.READ_ONLY
    timeout_seconds: ClassVar[float] = 10.0
    arguments: ClassVar[type[Arguments]] = AwaitChildArguments
    local: ClassVar[bool] = True

    def step_label(self, args: Arguments) -> str:
        return expect(args, AwaitChildArguments).child

    def awaits(self, args: Arguments) -> UUID | None:
        return UUID(expect(args, AwaitChildArguments).child)

    def run(self, context: ToolContext, args: Arguments) -> ToolOutcome:
        """How the child ended. Raises ToolPending while it lives."""
        id = UUID(expect(args, AwaitChildArguments).child)
        report = context.child(id)
        if report is None:
            raise ToolFailed(f"there is no child {id} of this run")
        if not report.ended and not report.own:
            raise ToolFailed(f"child {id} is another run's, and has not ended")
        if not report.ended:
            raise ToolPending(f"child {id} is {report.status}")
        return ToolOutcome({"child": str(id), "status": report.status, "said": report.said})
