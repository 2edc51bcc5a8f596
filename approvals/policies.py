"""Who must be asked before a call. Pure Python. One built-in policy: whatever leaves a mark outside needs a person."""

from dataclasses import dataclass

from approvals.states import PolicyOutcome

POLICY_VERSION = "builtin-1"


@dataclass(frozen=True)
class Ruling:
    """What the policy says about one call, and the rule in words for the person who is asked."""

    outcome: PolicyOutcome
    rule: str
    required_role: str = "approver"
    version: str = POLICY_VERSION


RULE_LIMIT = 400


def rule_on(*, tool_known: bool, effect_class: str, local: bool, forbidden_by: str = "") -> Ruling:
    """Rule on one call by what its tool declares and what the run carries. An undeclared tool is denied, and so is what
    a constraint of the run forbids, in whose words `forbidden_by` says it.
    """
    if forbidden_by:
        return Ruling(PolicyOutcome.DENY, f"Rule 0: the run accepted the constraint “{forbidden_by[:RULE_LIMIT]}”.")
    if not tool_known:
        return Ruling(PolicyOutcome.DENY, "Rule 1: the tool is not part of this agent's version.")
    if effect_class == "READ_ONLY":
        return Ruling(PolicyOutcome.ALLOW, "Rule 2: it only reads.")
    if local:
        return Ruling(PolicyOutcome.ALLOW, "Rule 3: its only effect is inside this console.")
    return Ruling(
        PolicyOutcome.REQUIRE_APPROVAL,
        f"Rule 4: it leaves a mark outside this system and its effect class is {effect_class}.",
    )
