"""t5: the outside reference sheet, asked what the lines without a ticker are."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Annotated, Any, ClassVar

from pydantic import Field

from receipts.states import EffectClass
from runs.canonical import bounded
from runtime.contracts import Arguments, ArgumentsRefused, PriorResult, ToolContext, ToolOutcome, ToolUnknown
from runtime.tools import stored
from runtime.tools.base import PlainTool, expect
from runtime.tools.http import refuse_unless_done, send

MAX_LINES = 50
MAX_TEXT = 300


class FetchReferenceArguments(Arguments):
    lines: Annotated[
        list[str],
        Field(
            max_length=MAX_LINES,
            description="Filled in from stored results. Leave it out.",
            json_schema_extra={"readOnly": True},
        ),
    ] = []


class FetchReference(PlainTool):
    """Reads the reference sheet for the names that have no ticker, at most 50, the heaviest first."""

    key: ClassVar[str] = "fetch_reference"
    version: ClassVar[str] = "1"
    description: ClassVar[str] = "Ask the reference sheet what the lines without a ticker are."
    effect_class: ClassVar[EffectClass] = EffectClass.READ_ONLY
    timeout_seconds: ClassVar[float] = 10.0
    arguments: ClassVar[type[Arguments]] = FetchReferenceArguments
    half_life_seconds: ClassVar[float | None] = 24 * 3600.0

    def complete(self, args: Arguments, results: Sequence[PriorResult]) -> Arguments:
        """Fill in the names. Refuses a list of the model's own, and a reading of nothing."""
        given = expect(args, FetchReferenceArguments).lines
        lines = _lines(results)
        if given and given != lines:
            raise ArgumentsRefused("lines is filled in from stored results. Leave it out.")
        if not lines:
            raise ArgumentsRefused("Every line has a ticker, so there is nothing to ask. Go on.")
        return FetchReferenceArguments(lines=lines)

    def step_label(self, args: Arguments) -> str:
        return "sheet"

    def run(self, context: ToolContext, args: Arguments) -> ToolOutcome:
        """The sheet's answer for each line, covered or not."""
        lines = expect(args, FetchReferenceArguments).lines
        answer = send(context, "GET", "/reference", params={"lines": lines})
        refuse_unless_done(answer, reading=True)
        return ToolOutcome({"answers": _answers(answer.object(), lines)}, target="reference sheet")


def _lines(results: Sequence[PriorResult]) -> list[str]:
    """The names without a ticker of both disclosures, each once, by weight."""
    weights: dict[str, Decimal] = {}
    for name in ("a", "b"):
        for line in stored.disclosure(results, name).value["without_ticker"]:
            weights[line["name"]] = max(weights.get(line["name"], Decimal(0)), abs(Decimal(line["weight"])))
    return sorted(weights, key=lambda name: (-weights[name], name))[:MAX_LINES]


def _answers(value: dict[str, Any], lines: Sequence[str]) -> list[dict[str, Any]]:
    """Exactly one well-formed answer a line, or the whole answer counts as unusable (ToolUnknown)."""
    answers = value.get("answers")
    if not isinstance(answers, list) or len(answers) != len(lines):
        raise ToolUnknown("The sheet's answer does not have one entry for each line.")
    return [_entry(entry, line) for entry, line in zip(answers, lines, strict=True)]


def _entry(entry: object, line: str) -> dict[str, Any]:
    if not isinstance(entry, dict) or entry.get("line") != line or not isinstance(entry.get("covered"), bool):
        raise ToolUnknown(f"The sheet's answer for \"{line}\" can't be read.")
    kind, text = entry.get("kind", ""), entry.get("text", "")
    if not isinstance(kind, str) or not isinstance(text, str):
        raise ToolUnknown(f"The sheet's answer for \"{line}\" can't be read.")
    return {"line": line, "covered": entry["covered"], "kind": bounded(kind, MAX_TEXT), "text": bounded(text, MAX_TEXT)}
