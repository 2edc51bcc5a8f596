"""The judge: each case right, wrong or undone by what the database holds, with the seconds and requests that it took."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from approvals.models import Wait
from receipts.models import Contradiction, ToolCall
from tests.cases.case import Case, Found, Outcome
from tests.cases.house import OPERATOR
from tests.cases.requests import Took, asked_by, took


@dataclass(frozen=True)
class Judged:
    """What came of one case. `seconds`: from its first page to the act that settles it; None where there was no page."""

    number: int
    case: Case
    found: Found
    requests: int
    seconds: float | None


def judge(cases: Mapping[int, Case], made: Mapping[int, Sequence[UUID]]) -> list[Judged]:
    """Judge the cases that were made. `made`: by number, the runs of a case."""
    asked = took(list(asked_by(OPERATOR)), {number: ids_of(runs) for number, runs in made.items()})
    return [
        _judged(number, cases[number], cases[number].judge(runs), asked[number])
        for number, runs in sorted(made.items())
    ]


def ids_of(runs: Sequence[UUID]) -> list[UUID]:
    """Everything of these runs that an address may name."""
    waits = Wait.objects.filter(run__in=runs).values_list("id", flat=True)
    calls = ToolCall.objects.filter(run__in=runs).values_list("id", flat=True)
    flags = Contradiction.objects.filter(tool_call__run__in=runs).values_list("id", flat=True)
    return [*runs, *waits, *calls, *flags]


def _judged(number: int, case: Case, found: Found, asked: Took) -> Judged:
    seconds = None
    if found.at is not None and asked.opened is not None and found.outcome != Outcome.UNDONE:
        seconds = max(0.0, found.at.timestamp() - asked.opened)
    return Judged(number, case, found, asked.requests, seconds)


def table(judged: Sequence[Judged], failed: Mapping[int, str] = {}) -> str:
    """The result as text: a line a case, and the sums. `failed`: by case, why what happens in it was not brought about, so that
    nobody is measured by it.
    """
    lines = [f"{'':>2}  {'':6}  {'s':>6}  {'asked':>5}  case"]
    lines += [_line(one) for one in judged]
    of = {outcome: sum(one.found.outcome == outcome for one in judged) for outcome in Outcome}
    traps = [one for one in judged if one.case.trap]
    sprung = sum(one.found.outcome == Outcome.WRONG for one in traps)
    times = sorted(one.seconds for one in judged if one.seconds is not None)
    middle = f"; the middle case took {times[len(times) // 2]:.0f} s from its first page." if times else "."
    summed = f"{of[Outcome.RIGHT]} right, {of[Outcome.WRONG]} wrong, {of[Outcome.UNDONE]} undone"
    asked = sum(one.requests for one in judged)
    lines += ["", f"{summed}; {sprung} of {len(traps)} traps sprung.", f"{asked} requests{middle}"]
    lines += [f"Case {number} did not happen as it was prepared: {why}" for number, why in sorted(failed.items())]
    return "\n".join(lines)


def _line(one: Judged) -> str:
    seconds = "" if one.seconds is None else f"{one.seconds:.0f}"
    trap = f" (trap: {one.case.trap})" if one.case.trap else ""
    said = f"{one.number:>2}  {one.found.outcome:6}  {seconds:>6}  {one.requests:>5}  {one.case.title}: {one.found.why}"
    return f"{said}{trap}"
