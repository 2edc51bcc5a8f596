"""What the tools of this package have in common: the defaults of the Tool protocol."""

from collections.abc import Collection, Sequence
from typing import ClassVar, TypeVar
from uuid import UUID

from runtime.contracts import Arguments, Asks, PriorResult, ReportDraft, ToolContext, ToolOutcome

A = TypeVar("A", bound=Arguments)


class PlainTool:
    """A tool that completes nothing, publishes nothing, can't be probed and rests on all that is known. Subclasses give the rest."""

    publishes: ClassVar[str] = ""
    window_seconds: ClassVar[float] = 0.0
    local: ClassVar[bool] = False
    prepared_by: ClassVar[str] = ""
    look: ClassVar[tuple[tuple[str, str], ...]] = ()
    half_life_seconds: ClassVar[float | None] = None
    asks: ClassVar[Asks | None] = None

    def complete(self, args: Arguments, results: Sequence[PriorResult]) -> Arguments:
        return args

    def rests_on(self, args: Arguments, results: Sequence[PriorResult]) -> Collection[UUID]:
        """Everything that was known when it was proposed; a tool that knows better says less."""
        return [result.call_id for result in results]

    def probe(self, context: ToolContext, args: Arguments) -> ToolOutcome | bool | None:
        return None

    def awaits(self, args: Arguments) -> UUID | None:
        return None

    def draft(self, args: Arguments, results: Sequence[PriorResult]) -> ReportDraft | None:
        return None


def expect(args: Arguments, kind: type[A]) -> A:
    """The arguments as the tool's own class. A wrong class is an error of the caller, not of the model."""
    if not isinstance(args, kind):
        raise TypeError(f"Expected {kind.__name__}, got {type(args).__name__}")
    return args
