"""Ruling on one call by a policy: the rules that no policy can lift, then the tenant's rules in their order, then the built-in.

Pure Python: everything that the answer depends on is in the facts, so that the same call can be ruled on again.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal, InvalidOperation
from functools import cached_property
from typing import Any
from zoneinfo import ZoneInfo

from approvals.policies.document import DAYS, Document, Hours, Rule, matches_one
from approvals.policies.expression import Unanswerable, holds
from approvals.policies.masking import Mark, mark_at
from approvals.policies.ruling import BUILT_IN_VERSION, RULE_LIMIT, Ruling, rule_built_in
from approvals.states import PolicyOutcome
from runs.canonical import bounded


@dataclass(frozen=True)
class Facts:
    """One call as policy sees it. `args`: its canonical bytes. `at`: the database's time. `tool_known`: whether the tool is
    part of the agent's version. `forbidden_by`: the constraint of the run that denies it, in its words, or "".
    """

    tool: str
    tool_known: bool
    effect_class: str
    local: bool
    args: bytes = b"{}"
    agent: str = ""
    environment: str = ""
    at: datetime | None = None
    forbidden_by: str = ""

    @cached_property
    def arguments(self) -> Mapping[str, Any]:
        """The arguments, with exact numbers."""
        parsed: Mapping[str, Any] = json.loads(self.args, parse_float=Decimal, parse_int=Decimal)
        return parsed

    @cached_property
    def named(self) -> Mapping[str, Any]:
        """What a written condition may name."""
        return {
            "tool": self.tool,
            "effect": self.effect_class,
            "agent": self.agent,
            "environment": self.environment,
            "args": self.arguments,
        }


@dataclass(frozen=True)
class Policy:
    """A version of a tenant's policy, ready to be asked. Number 0 is the built-in one, without rules of its own. `unreadable`:
    why its rules can't be read here, or "". Nothing is known of them then, so nothing goes.
    """

    number: int = 0
    document: Document | None = None
    unreadable: str = ""

    @property
    def version(self) -> str:
        """How waits and records name it."""
        return version_name(self.number)

    @cached_property
    def rules(self) -> tuple[Rule, ...]:
        """Its rules in their order."""
        return self.document.rule if self.document else ()

    @cached_property
    def needs_clock(self) -> bool:
        """Whether what it says depends on the time."""
        return any(rule.hours for rule in self.rules)

    @property
    def masks_anything(self) -> bool:
        """Whether it masks something of some tool."""
        return bool(self.unreadable or (self.document and self.document.mask))

    def marks(self, *, tool: str, agent: str) -> tuple[Mark, ...]:
        """The arguments of a tool of an agent that it masks, beside those that the tool marks itself; all where it can't be read."""
        if self.unreadable:
            return (mark_at("*"),)
        masks = self.document.mask if self.document else ()
        about = [mask for mask in masks if matches_one(mask.tools, tool) and matches_one(mask.agents, agent)]
        return tuple(mark for mask in about for mark in mask.marks)

    def rule_on(self, facts: Facts) -> Ruling:
        """What it says of a call: the first rule that is about it. One that can't be asked of the call denies it."""
        if facts.forbidden_by:
            said = f"Rule 0: the run accepted the constraint “{bounded(facts.forbidden_by, RULE_LIMIT)}”."
            return Ruling(PolicyOutcome.DENY, said, version=self.version)
        if not facts.tool_known:
            said = "Rule 1: the tool is not part of this agent's version."
            return Ruling(PolicyOutcome.DENY, said, version=self.version)
        if self.unreadable:
            said = f"Policy {self.version} can't be read here, so every call is denied: {bounded(self.unreadable, RULE_LIMIT)}."
            return Ruling(PolicyOutcome.DENY, said, version=self.version)
        for number, rule in enumerate(self.rules, start=1):
            try:
                if self._is_about(rule, facts):
                    return self._says(rule, number)
            except Unanswerable as why:
                said = f"Rule {number} “{rule.name}” can't be asked of it, so it is denied: {bounded(str(why), 200)}."
                return Ruling(PolicyOutcome.DENY, said, version=self.version)
        return self._built_in(facts)

    def _says(self, rule: Rule, number: int) -> Ruling:
        said = f"Rule {number} of policy {self.version}: {rule.name}"
        return Ruling(
            rule.outcome, said, rule.demand, self.version, grants=rule.grants, verdict_people=rule.verdict_people
        )

    def _built_in(self, facts: Facts) -> Ruling:
        said = "No rule of the policy is about it. Built in: " if self.rules else ""
        kind, local = facts.effect_class, facts.local
        return rule_built_in(effect_class=kind, local=local, version=self.version, said=said)

    def _is_about(self, rule: Rule, facts: Facts) -> bool:
        return (
            matches_one(rule.tools, facts.tool)
            and (not rule.effects or facts.effect_class in rule.effects)
            and matches_one(rule.agents, facts.agent)
            and matches_one(rule.environments, facts.environment)
            and (rule.hours is None or within(rule.hours, facts.at))
            and (rule.amount_over is None or self._costs_over(rule.amount_over, facts))
            and (not rule.condition or holds(rule.condition, facts.named))
        )

    def _costs_over(self, limit: Decimal, facts: Facts) -> bool:
        """Whether the amount of a call is over a limit. A tool of which the policy names no amount has none."""
        path = self.document.amounts.get(facts.tool) if self.document else None
        return path is not None and amount_at(facts.arguments, path) > limit


BUILT_IN = Policy()


def version_name(number: int) -> str:
    """The name of a version by its number."""
    return f"v{number}" if number else BUILT_IN_VERSION


def amount_at(arguments: Any, path: str) -> Decimal:
    """The amount at a path with dots. Raises Unanswerable where there is none."""
    found = arguments
    for name in path.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    try:
        amount = Decimal(found) if isinstance(found, str | Decimal) else Decimal("NaN")
    except InvalidOperation:
        amount = Decimal("NaN")
    if not amount.is_finite():
        raise Unanswerable(f"its argument {path} holds no amount")
    return amount


def within(hours: Hours, at: datetime | None) -> bool:
    """Whether a moment is within these hours. The part after midnight belongs to the day on which they began."""
    if at is None:
        raise Unanswerable("the time is not known")
    there = at.astimezone(ZoneInfo(hours.zone))
    now, today = there.time(), DAYS[there.weekday()]
    if hours.start < hours.to:
        return today in hours.days and hours.start <= now < hours.to
    yesterday = DAYS[(there - timedelta(days=1)).weekday()]
    return (today in hours.days and now >= hours.start) or (yesterday in hours.days and now < hours.to)
