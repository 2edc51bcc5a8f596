"""Identity, eligibility, status, stop requests, budgets, messages, memory, wakeups and refused writes."""

from runs.models.bulk import Bulk, BulkItem
from runs.models.control import ControlRequest, Lease, SweepFailure, SweepMark, Wakeup
from runs.models.identity import Agent, AgentVersion, Artifact, Thread
from runs.models.ledger import Allowance, Budget, BudgetEntry, Message, Refusal
from runs.models.memory import MemoryItem, WorkspaceProgress
from runs.models.run import Run, RunInput, RunTransition
from runs.models.scope import ScopeControl
from runs.models.tag import RunTag
from runs.models.trace import TraceEvent
from runs.models.workspace import Workspace

__all__ = [
    "Agent",
    "AgentVersion",
    "Allowance",
    "Artifact",
    "Budget",
    "BudgetEntry",
    "Bulk",
    "BulkItem",
    "ControlRequest",
    "Lease",
    "MemoryItem",
    "Message",
    "Refusal",
    "Run",
    "RunInput",
    "RunTag",
    "RunTransition",
    "ScopeControl",
    "SweepFailure",
    "SweepMark",
    "Thread",
    "TraceEvent",
    "Wakeup",
    "Workspace",
    "WorkspaceProgress",
]
