"""Policies and who activated them, waits bound to an exact revision, who looks at them, and what people decided about them."""

from approvals.models.decision import Decision, Vote
from approvals.models.people import Assignment, Delegation, Look
from approvals.models.policy import PolicyActivation, PolicyHead, PolicyVersion
from approvals.models.wait import DEMANDED, PolicyDecision, Wait

__all__ = [
    "DEMANDED",
    "Assignment",
    "Decision",
    "Delegation",
    "Look",
    "PolicyActivation",
    "PolicyDecision",
    "PolicyHead",
    "PolicyVersion",
    "Vote",
    "Wait",
]
