"""A policy in words: what its rules are about, what they ask of people, and where a text is faulty."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from approvals.policies import Demand, Document, Fault, Mask, Rule
from approvals.states import OnDeadline, PolicyOutcome

OUTCOME = {
    PolicyOutcome.ALLOW: "goes",
    PolicyOutcome.DENY: "is denied",
    PolicyOutcome.REQUIRE_APPROVAL: "asks people",
}
LAMP = {PolicyOutcome.ALLOW: "neutral", PolicyOutcome.DENY: "stop", PolicyOutcome.REQUIRE_APPROVAL: "caution"}
TWO_FOR_VERDICT = "two say the same of an unknown outcome"
ICON = {PolicyOutcome.ALLOW: "done", PolicyOutcome.DENY: "stop", PolicyOutcome.REQUIRE_APPROVAL: "person"}


@dataclass(frozen=True)
class RuleSaid:
    """One rule as a row: its number and name, what it is about, what happens, and what it asks."""

    number: int
    name: str
    about: tuple[str, ...]
    outcome: PolicyOutcome
    asks: tuple[str, ...]

    @property
    def then(self) -> str:
        return OUTCOME[self.outcome]

    @property
    def lamp(self) -> str:
        return LAMP[self.outcome]

    @property
    def icon(self) -> str:
        return ICON[self.outcome]


@dataclass(frozen=True)
class FaultSaid:
    """A fault with the line that it is about, as it was written."""

    fault: Fault
    quoted: str


def rules_said(document: Document) -> list[RuleSaid]:
    """The rules of a policy in their order."""
    return [
        RuleSaid(number, rule.name, tuple(_about(rule, document)), rule.outcome, _asks(rule))
        for number, rule in enumerate(document.rule, start=1)
    ]


def masks_said(document: Document) -> list[str]:
    """What a policy masks, each as a sentence."""
    return [_mask_said(mask) for mask in document.mask]


def _mask_said(mask: Mask) -> str:
    of = [f"of {' or '.join(mask.tools)}" if mask.tools else "of every tool"]
    of += [f"of {' or '.join(mask.agents)}"] if mask.agents else []
    whom = f", shown to the {mask.shown_to.replace(':', ' ')} among those only" if mask.shown_to else ""
    seen = ", and who sees it is recorded" if mask.audited else ""
    return f"{', '.join(mask.arguments)} {' '.join(of)}: masked for everybody but who decides on the call{whom}{seen}."


def faults_said(text: str, faults: Sequence[Fault]) -> list[FaultSaid]:
    """Every fault beside its line."""
    lines = text.splitlines()
    return [
        FaultSaid(fault, lines[fault.line - 1].strip() if fault.line and fault.line <= len(lines) else "")
        for fault in faults
    ]


def _about(rule: Rule, document: Document) -> Iterator[str]:
    """The conditions of a rule, each as a phrase; all of them have to hold."""
    listed = {"tool": rule.tools, "agent": rule.agents, "environment": rule.environments}
    for word, names in listed.items():
        if names:
            yield f"{word} {' or '.join(names)}"
    if rule.effects:
        yield f"effect {' or '.join(rule.effects)}"
    if rule.hours:
        days = "" if len(rule.hours.days) == 7 else f" on {', '.join(rule.hours.days)}"
        yield f"{rule.hours.start:%H:%M} to {rule.hours.to:%H:%M} in {rule.hours.zone}{days}"
    if rule.amount_over is not None:
        named = ", ".join(f"{tool}: {path}" for tool, path in document.amounts.items())
        yield f"amount over {rule.amount_over} ({named or 'no tool has one'})"
    if rule.condition:
        yield rule.condition


def _asks(rule: Rule) -> tuple[str, ...]:
    asked = demand_said(rule.demand, grants=rule.grants) if rule.then == "ask" else ()
    return (*asked, TWO_FOR_VERDICT) if rule.verdict_people > 1 else asked


def demand_said(demand: Demand, *, grants: bool = True) -> tuple[str, ...]:
    """What is asked of people, each as a phrase."""
    people = "one" if demand.quorum == 1 else f"{demand.quorum} different"
    who = f"{people} {demand.required_role}{'s' if demand.quorum > 1 else ''}"
    said = {
        who + (f" of {demand.required_group}" if demand.required_group else ""): True,
        "not the starter": not demand.starter_may_decide,
        f"{demand.risk.lower()} risk": demand.risk != "NORMAL",
        f"seen for {time_said(demand.dwell_seconds)}": demand.dwell_seconds,
        "signed in again": demand.step_up,
        "may be approved together": demand.batchable,
        f"within {time_said(demand.deadline_seconds)}": demand.deadline_seconds,
        "no answer counts as no": demand.on_deadline == OnDeadline.REJECT,
        f"used within {time_said(demand.validity_seconds)}": demand.validity_seconds,
        f"reminded after {time_said(demand.reminder_seconds)}": demand.reminder_seconds,
        f"after {time_said(demand.escalate_seconds)} to {demand.escalate_to}": demand.escalate_seconds,
        "no grant stands for it": not grants,
    }
    return tuple(words for words, holds in said.items() if holds)


def time_said(seconds: int | None) -> str:
    """A time as a policy writes it, in the largest unit that fits."""
    for size, unit in ((24 * 3600, "d"), (3600, "h"), (60, "m")):
        if seconds and seconds % size == 0:
            return f"{seconds // size} {unit}"
    return f"{seconds or 0} s"
