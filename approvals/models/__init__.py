"""Policies, standing grants, waits bound to an exact revision, who looks at them, and what people decided about them."""

from approvals.models.decision import Answer, Decision, Vote
from approvals.models.grant import Grant, GrantUse
from approvals.models.people import Assignment, Delegation, Look
from approvals.models.policy import PolicyActivation, PolicyHead, PolicyVersion
from approvals.models.wait import DEMANDED, PolicyDecision, Wait

__all__ = [
    "DEMANDED",
    "Answer",
    "Assignment",
    "Decision",
    "Delegation",
    "Grant",
    "GrantUse",
    "Look",
    "PolicyActivation",
    "PolicyDecision",
    "PolicyHead",
    "PolicyVersion",
    "Vote",
    "Wait",
]
