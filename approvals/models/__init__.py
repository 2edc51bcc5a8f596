"""Waits bound to an exact revision, and what people decided about them."""

from approvals.models.wait import DEMANDED, Decision, PolicyDecision, Vote, Wait

__all__ = ["DEMANDED", "Decision", "PolicyDecision", "Vote", "Wait"]
