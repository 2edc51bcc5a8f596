"""Who must be asked before a call: what a policy says, how people write one, and the built-in one. Pure Python."""

from approvals.policies.document import TEXT_LIMIT, Document, Fault, Read, Rule, read
from approvals.policies.expression import Unanswerable, condition_fault, holds
from approvals.policies.policy import BUILT_IN, Facts, Policy, version_name
from approvals.policies.ruling import BUILT_IN_VERSION, Demand, Ruling

__all__ = [
    "BUILT_IN",
    "BUILT_IN_VERSION",
    "TEXT_LIMIT",
    "Demand",
    "Document",
    "Facts",
    "Fault",
    "Policy",
    "Read",
    "Rule",
    "Ruling",
    "Unanswerable",
    "condition_fault",
    "holds",
    "read",
    "version_name",
]
