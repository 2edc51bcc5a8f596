"""The acts that span owners: start, stop, resume, reconcile, revise the goal, release an obligation.

Pages, the API and the command line call these and nothing else. A refusal is returned, never raised, and is audited in a
transaction of its own after the refused one has ended (ruling 14). Locks go in the order of DESIGN.md ruling 37.
"""

from checkpoints.errors import RunUnreadable
from runtime.cascade import PauseState, StopState
from runtime.descent import Preview
from runtime.services.amend import Amended, Written, call_amend
from runtime.services.attach import Attached, call_attach
from runtime.services.bind import run_bind
from runtime.services.budget import CAP_LIMIT, CapRaised, budget_raise
from runtime.services.bulk import BulkAccepted, bulk_accept, bulk_item_do
from runtime.services.contradict import EvidenceGiven, Flagged, call_contradict, contradiction_settle
from runtime.services.decide import INSTALLED, wait_decide, waits_decide
from runtime.services.descend import SuccessorRequest, fork_preview, fork_preview_of, run_continue, run_fork
from runtime.services.goal import GoalRevised, goal_revise
from runtime.services.grant import GrantRequest, tool_grant
from runtime.services.guards import GOAL_LIMIT, NAME_LIMIT, REASON_LIMIT
from runtime.services.notify import (
    EndpointAdded,
    EndpointChange,
    EndpointKept,
    EndpointRemoved,
    EndpointRequest,
    EndpointTested,
    NoticesPurged,
    endpoint_add,
    endpoint_drop,
    endpoint_edit,
    endpoint_go_on,
    endpoint_hold,
    endpoint_test,
    notices_retain,
)
from runtime.services.pause import run_pause
from runtime.services.probe import Probed, call_probe, can_probe
from runtime.services.reconcile import Reconciled, VerdictRequest, call_reconcile
from runtime.services.rehearse import Rehearsal, Rehearsed, policy_rehearse, policy_rehearse_version
from runtime.services.release import Released, obligation_release
from runtime.services.repeat import Repeatable, effect_repeat
from runtime.services.replay import Replay, ReplayStep, run_replay
from runtime.services.resume import PauseShown, Resumed, run_resume
from runtime.services.retain import Retention, retention_of, retention_of_tenant, run_retain
from runtime.services.scope import (
    ScopeState,
    named_scope,
    paused_with_scope,
    scope_abort_on,
    scope_end,
    scope_pause,
    scope_stop,
)
from runtime.services.settle import Settled, run_end_settled
from runtime.services.start import InputRefused, Started, StartRequest, UnknownAgent, Upload, run_start, typed_text
from runtime.services.stop import run_abort, run_stop
from runtime.services.tag import Tagged, run_tag
from runtime.services.terms import Terms, Withdrawn, commitment_withdraw, lines_of
from runtime.services.upgrade import Upgraded, checkpoint_migrate, run_repin

__all__ = [
    "CAP_LIMIT",
    "GOAL_LIMIT",
    "INSTALLED",
    "NAME_LIMIT",
    "REASON_LIMIT",
    "Amended",
    "Attached",
    "BulkAccepted",
    "CapRaised",
    "EndpointAdded",
    "EndpointChange",
    "EndpointKept",
    "EndpointRemoved",
    "EndpointRequest",
    "EndpointTested",
    "EvidenceGiven",
    "Flagged",
    "GoalRevised",
    "GrantRequest",
    "InputRefused",
    "NoticesPurged",
    "PauseShown",
    "PauseState",
    "Preview",
    "Probed",
    "Reconciled",
    "Rehearsal",
    "Rehearsed",
    "Released",
    "Repeatable",
    "Replay",
    "ReplayStep",
    "Resumed",
    "Retention",
    "RunUnreadable",
    "ScopeState",
    "Settled",
    "StartRequest",
    "Started",
    "StopState",
    "SuccessorRequest",
    "Tagged",
    "Terms",
    "UnknownAgent",
    "Upgraded",
    "Upload",
    "VerdictRequest",
    "Withdrawn",
    "Written",
    "budget_raise",
    "bulk_accept",
    "bulk_item_do",
    "call_amend",
    "call_attach",
    "call_contradict",
    "call_probe",
    "call_reconcile",
    "can_probe",
    "checkpoint_migrate",
    "commitment_withdraw",
    "contradiction_settle",
    "effect_repeat",
    "endpoint_add",
    "endpoint_drop",
    "endpoint_edit",
    "endpoint_go_on",
    "endpoint_hold",
    "endpoint_test",
    "fork_preview",
    "fork_preview_of",
    "goal_revise",
    "lines_of",
    "named_scope",
    "notices_retain",
    "obligation_release",
    "paused_with_scope",
    "policy_rehearse",
    "policy_rehearse_version",
    "retention_of",
    "retention_of_tenant",
    "run_abort",
    "run_bind",
    "run_continue",
    "run_end_settled",
    "run_fork",
    "run_pause",
    "run_repin",
    "run_replay",
    "run_resume",
    "run_retain",
    "run_start",
    "run_stop",
    "run_tag",
    "scope_abort_on",
    "scope_end",
    "scope_pause",
    "scope_stop",
    "tool_grant",
    "typed_text",
    "wait_decide",
    "waits_decide",
]
