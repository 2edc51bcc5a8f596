"""What a policy says about one call, and what it asks of the people who decide. Pure Python."""

from dataclasses import dataclass
from uuid import UUID

from approvals.states import OnDeadline, PolicyOutcome, Risk

BUILT_IN_VERSION = "builtin-1"
RULE_LIMIT = 400


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
    version: str = BUILT_IN_VERSION
    # Whether a standing grant may stand for the person that is asked, and the one by which a call is let go.
    grants: bool = True
    granted_by: UUID | None = None
    # How many people have to say the same of its outcome, where nobody knows it.
    verdict_people: int = 1

    @property
    def coverable(self) -> bool:
        """Whether a grant may stand for who is asked: one person is, who need not look longer or sign in again for it."""
        asked = self.demand
        plain = asked.quorum == 1 and asked.risk != Risk.HIGH and not asked.step_up and not asked.dwell_seconds
        return self.outcome == PolicyOutcome.REQUIRE_APPROVAL and self.grants and plain


def rule_built_in(*, effect_class: str, local: bool, version: str, said: str = "") -> Ruling:
    """What holds where a tenant has said nothing else: what only reads goes, what leaves a mark outside needs a person.
    `said` is put before it.
    """
    if effect_class == "READ_ONLY":
        return Ruling(PolicyOutcome.ALLOW, f"{said}Rule 2: it only reads.", version=version)
    if local:
        words = f"{said}Rule 3: its only effect is inside this console."
        return Ruling(PolicyOutcome.ALLOW, words, version=version)
    words = f"{said}Rule 4: it leaves a mark outside this system and its effect class is {effect_class}."
    return Ruling(PolicyOutcome.REQUIRE_APPROVAL, words, version=version)
