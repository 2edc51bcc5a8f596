"""Who must be asked before a call. Pure Python. One built-in policy: whatever leaves a mark outside needs a person."""

from dataclasses import dataclass

from approvals.states import OnDeadline, PolicyOutcome, Risk

POLICY_VERSION = "builtin-1"


@dataclass(frozen=True)
class Demand:
    """What a rule asks of the people who decide. A wait keeps it as it was when it opened, whatever the policy says later.

    All times are seconds after the wait opened; None is the installation's own for `deadline_seconds` (to decide) and
    `validity_seconds` (for a decision to be used), and never for the others. `escalate_to` is `group:NAME` or `role:NAME`.
    `starter_may_decide` holds only where the tenant lets people decide about their own runs as well.
    """

    quorum: int = 1
    required_role: str = "approver"
    required_group: str = ""
    starter_may_decide: bool = True
    dwell_seconds: int = 0
    step_up: bool = False
    risk: Risk = Risk.NORMAL
    batchable: bool = False
    deadline_seconds: int | None = None
    on_deadline: OnDeadline = OnDeadline.EXPIRE
    validity_seconds: int | None = None
    reminder_seconds: int | None = None
    escalate_seconds: int | None = None
    escalate_to: str = ""


@dataclass(frozen=True)
class Ruling:
    """What the policy says about one call, the rule in words for the person who is asked, and what it asks of them."""

    outcome: PolicyOutcome
    rule: str
    demand: Demand = Demand()
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
