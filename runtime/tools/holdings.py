"""t1 to t3 of the fund comparison: reading the two disclosures and computing their overlap. Nothing is sent."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, ClassVar, Literal

from pydantic import Field

from receipts.states import EffectClass
from runtime.contracts import Arguments, PriorResult, ToolContext, ToolFailed, ToolOutcome
from runtime.tools import identifiers, stored
from runtime.tools.base import PlainTool, expect
from runtime.tools.disclosure import Disclosure, DisclosureRefused, read
from runtime.tools.disclosure.decimals import plain, total
from runtime.tools.overlap import Overlap, overlap

WHOLE = Decimal(100)
FAR_ABOVE_WHOLE = Decimal(110)


class ReadDisclosureArguments(Arguments):
    input: Literal["a", "b"] = Field(description="Which of the two uploaded disclosures to read.")


class ReadDisclosure(PlainTool):
    """Reads one uploaded disclosure: its holdings, its lines without a ticker, and what was concluded on the way."""

    key: ClassVar[str] = "read_disclosure"
    version: ClassVar[str] = "1"
    description: ClassVar[str] = "Read one of the uploaded holdings disclosures and check every line of it."
    effect_class: ClassVar[EffectClass] = EffectClass.READ_ONLY
    timeout_seconds: ClassVar[float] = 20.0
    arguments: ClassVar[type[Arguments]] = ReadDisclosureArguments

    def step_label(self, args: Arguments) -> str:
        return expect(args, ReadDisclosureArguments).input

    def run(self, context: ToolContext, args: Arguments) -> ToolOutcome:
        """The disclosure as JSON, decimals as strings. Raises ToolFailed for a file that can't be read."""
        name = expect(args, ReadDisclosureArguments).input
        if name not in context.inputs:
            raise ToolFailed(f"The run has no input {name}.")
        try:
            disclosure = read(context.inputs[name])
        except DisclosureRefused as refusal:
            raise ToolFailed(str(refusal.of(f"disclosure {name.upper()}"))) from refusal
        return ToolOutcome(disclosure_value(name, disclosure))


def disclosure_value(name: str, disclosure: Disclosure) -> dict[str, Any]:
    """A disclosure as the JSON that is stored and that the model may read."""
    return {
        "input": name,
        "fund": disclosure.fund,
        "as_of": disclosure.as_of,
        "encoding": disclosure.encoding,
        "delimiter": disclosure.delimiter,
        "synthetic": disclosure.synthetic,
        "line_count": len(disclosure.lines),
        "total_weight": plain(disclosure.total_weight),
        "holdings": [
            {"ticker": x.ticker, "name": x.name, "weight": plain(x.weight), "lines": list(x.lines)}
            for x in disclosure.holdings
        ],
        "without_ticker": [
            {"line": x.line, "name": x.name, "weight": plain(x.weight)} for x in disclosure.without_ticker
        ],
        "notes": list(disclosure.notes),
    }


class ComputeOverlapArguments(Arguments):
    """None: the two stored readings are what is compared."""


class ComputeOverlap(PlainTool):
    """Computes the weight overlap from the stored readings. A pure function of them."""

    key: ClassVar[str] = "compute_overlap"
    version: ClassVar[str] = "1"
    description: ClassVar[str] = (
        "Compute the weight overlap of the two disclosures that were read: over the tickers that both hold, the sum of "
        "the smaller weight, and what each fund holds alone."
    )
    effect_class: ClassVar[EffectClass] = EffectClass.READ_ONLY
    timeout_seconds: ClassVar[float] = 20.0
    arguments: ClassVar[type[Arguments]] = ComputeOverlapArguments

    def complete(self, args: Arguments, results: Sequence[PriorResult]) -> Arguments:
        """Changes nothing; refuses a comparison of files that were not read."""
        stored.disclosure(results, "a")
        stored.disclosure(results, "b")
        return args

    def step_label(self, args: Arguments) -> str:
        return "a-b"

    def run(self, context: ToolContext, args: Arguments) -> ToolOutcome:
        """The overlap as JSON, decimals as strings."""
        a = stored.disclosure(context.results, "a").value
        b = stored.disclosure(context.results, "b").value
        return ToolOutcome(overlap_value(overlap(_weights(a), _weights(b)), a, b))


def overlap_value(result: Overlap, a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, Any]:
    """An overlap as the JSON that is stored; `a` and `b` are the values of the two readings.

    `warnings` say why the number may be wrong. They are the first of the `notes`.
    """
    warnings = _warnings(result, a, b)
    names = {x["ticker"]: x["name"] for side in (b, a) for x in side["holdings"]}
    return {
        "overlap": plain(result.weight),
        "shared_count": len(result.shared),
        "shared": [
            {"ticker": x.ticker, "name": names[x.ticker], "a": plain(x.a), "b": plain(x.b), "smaller": plain(x.smaller)}
            for x in result.shared
        ],
        "a": _alone(a, result.only_a, names),
        "b": _alone(b, result.only_b, names),
        "warnings": warnings,
        "notes": [*warnings, *_notes(result, a, b)],
    }


def _alone(side: Mapping[str, Any], only: Sequence[tuple[str, Decimal]], names: Mapping[str, str]) -> dict[str, Any]:
    return {
        "fund": side["fund"],
        "as_of": side["as_of"],
        "only_count": len(only),
        "only_weight": plain(total(weight for _, weight in only)),
        "only": [{"ticker": ticker, "name": names[ticker], "weight": plain(weight)} for ticker, weight in only],
    }


def _warnings(result: Overlap, a: Mapping[str, Any], b: Mapping[str, Any]) -> list[str]:
    warnings = []
    if result.weight > WHOLE:
        warnings.append(
            f"The overlap is {plain(result.weight)} %, more than a whole fund. That needs two leveraged funds; "
            "else lines count twice. Check both files."
        )
    sides = {f"{side['fund']} ({name})" if side["fund"] else name: side for name, side in (("A", a), ("B", b))}
    for name, side in sides.items():
        held = total(max(Decimal(x["weight"]), Decimal(0)) for x in (*side["holdings"], *side["without_ticker"]))
        if held > FAR_ABOVE_WHOLE:
            warnings.append(
                f"The weights of {name} add up to {plain(held)} % (those below zero left out), far above 100 %. A leveraged "
                "fund can do that, but so does a file that counts lines twice. Check the file."
            )
    funds = (identifiers.Fund(name, {x["ticker"] for x in side["holdings"]}) for name, side in sides.items())
    return [*warnings, *identifiers.doubts(*funds)]


def _notes(result: Overlap, a: Mapping[str, Any], b: Mapping[str, Any]) -> list[str]:
    notes = []
    if a["as_of"] != b["as_of"]:
        notes.append(f"The disclosures are of different days: {a['as_of'] or 'unsaid'} and {b['as_of'] or 'unsaid'}.")
    notes += [f"{ticker} is held short by at least one fund. It is not a shared holding." for ticker in result.short]
    notes += [
        f"{in_a} (A) and {in_b} (B) differ only in punctuation. They were not matched."
        for in_a, in_b in result.look_alikes
    ]
    return notes


def _weights(side: Mapping[str, Any]) -> dict[str, Decimal]:
    return {x["ticker"]: Decimal(x["weight"]) for x in side["holdings"]}
