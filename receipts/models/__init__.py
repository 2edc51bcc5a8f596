"""What happened: model calls, tool calls, attempts, results, effects, verdicts, reports and publications."""

from receipts.models.calls import (
    Attempt,
    Claim,
    Effect,
    ModelCall,
    Proposal,
    Reconciliation,
    Result,
    SecondEffect,
    ToolCall,
)
from receipts.models.evidence import Contradiction
from receipts.models.reports import Publication, Report, ReportVersion

__all__ = [
    "Attempt",
    "Claim",
    "Contradiction",
    "Effect",
    "ModelCall",
    "Proposal",
    "Publication",
    "Reconciliation",
    "Report",
    "ReportVersion",
    "Result",
    "SecondEffect",
    "ToolCall",
]
