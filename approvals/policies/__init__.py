"""Who must be asked before a call: what a policy says, how people write one, and the built-in one. Pure Python."""

from approvals.policies.document import TEXT_LIMIT, Document, Fault, Mask, Read, Rule, read
from approvals.policies.expression import Unanswerable, condition_fault, holds
from approvals.policies.masking import (
    WITHHELD,
    Mark,
    Masked,
    Veiled,
    mark_at,
    place_of,
    texts_at,
    value_without,
    veil,
    without,
)
from approvals.policies.policy import BUILT_IN, Facts, Policy, version_name
from approvals.policies.ruling import BUILT_IN_VERSION, Demand, Ruling

__all__ = [
    "BUILT_IN",
    "BUILT_IN_VERSION",
    "TEXT_LIMIT",
    "WITHHELD",
    "Demand",
    "Document",
    "Facts",
    "Fault",
    "Mark",
    "Mask",
    "Masked",
    "Policy",
    "Read",
    "Rule",
    "Ruling",
    "Unanswerable",
    "Veiled",
    "condition_fault",
    "holds",
    "mark_at",
    "place_of",
    "read",
    "texts_at",
    "value_without",
    "veil",
    "version_name",
    "without",
]
