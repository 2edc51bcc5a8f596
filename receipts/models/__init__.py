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
from receipts.models.evidence import Attachment, Contradiction, FirstWord, Probe
from receipts.models.reports import Publication, Report, ReportVersion

__all__ = [
    "Attachment",
    "Attempt",
    "Claim",
    "Contradiction",
    "Effect",
    "FirstWord",
    "ModelCall",
    "Probe",
    "Proposal",
    "Publication",
    "Reconciliation",
    "Report",
    "ReportVersion",
    "Result",
    "SecondEffect",
    "ToolCall",
]
