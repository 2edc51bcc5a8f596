"""What the tools of this package have in common: the defaults of the Tool protocol."""

from collections.abc import Sequence
from typing import ClassVar, TypeVar

from runtime.contracts import Arguments, PriorResult, ReportDraft, ToolContext, ToolOutcome

A = TypeVar("A", bound=Arguments)


class PlainTool:
    """A tool that completes nothing, publishes nothing and can't be probed. Subclasses give the rest."""

    publishes: ClassVar[str] = ""
    window_seconds: ClassVar[float] = 0.0
    local: ClassVar[bool] = False
    look: ClassVar[tuple[tuple[str, str], ...]] = ()

    def complete(self, args: Arguments, results: Sequence[PriorResult]) -> Arguments:
        return args

    def probe(self, context: ToolContext, args: Arguments) -> ToolOutcome | bool | None:
        return None

    def draft(self, args: Arguments, results: Sequence[PriorResult]) -> ReportDraft | None:
        return None


def expect(args: Arguments, kind: type[A]) -> A:
    """The arguments as the tool's own class. A wrong class is an error of the caller, not of the model."""
    if not isinstance(args, kind):
        raise TypeError(f"Expected {kind.__name__}, got {type(args).__name__}")
    return args
