"""Policies and who activated them, waits bound to an exact revision, and what people decided about them."""

from approvals.models.policy import PolicyActivation, PolicyHead, PolicyVersion
from approvals.models.wait import DEMANDED, Decision, PolicyDecision, Vote, Wait

__all__ = [
    "DEMANDED",
    "Decision",
    "PolicyActivation",
    "PolicyDecision",
    "PolicyHead",
    "PolicyVersion",
    "Vote",
    "Wait",
]
