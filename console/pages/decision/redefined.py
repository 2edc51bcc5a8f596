"""A tool that was defined anew since a call of it was approved last: what it said then that it does, and what it says now."""

from collections.abc import Sequence
from dataclasses import dataclass

from console.pages.decision.earlier import Earlier, approved_in
from console.pages.diff import Difference, difference, text_pieces
from receipts.models import ToolCall


@dataclass(frozen=True)
class Redefined:
    """The tool as it was approved last, and how its own description differs now. None: what it said then is not stored."""

    then: ToolCall
    texts: Difference | None


def redefined(call: ToolCall, earlier: Sequence[Earlier], says: str) -> Redefined | None:
    """How the tool of a call differs from the one that was approved last, of the same step where one was; None where it is the
    same. `says`: what it says now.
    """
    approved = approved_in(earlier)
    same = [one for one in approved if one.call.step_name == call.step_name] or approved
    if not same or same[0].call.tool_hash == call.tool_hash:
        return None
    then = same[0].call
    before = then.run.agent_version.tool_texts.get(call.tool, "")
    return Redefined(then, difference(text_pieces(before), text_pieces(says)) if before and says else None)
