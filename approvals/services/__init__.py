"""Writes of the approvals app, by noun: the policy, the wait, and the decision."""

from approvals.services.decide import (
    Decided,
    Seen,
    approval_decide,
    arguments_intact,
    decision_refusal,
    wait_reject_for_another,
)
from approvals.services.policy import (
    PolicyActivated,
    PolicySaved,
    fault_facts,
    faults_refusal,
    policy_activate,
    policy_save,
)
from approvals.services.wait import (
    call_waits_invalidate,
    decided_waits_invalidate,
    ruling_record,
    wait_consume,
    wait_expire,
    wait_lock,
    wait_open,
    wait_refuse,
    waits_cancel,
    waits_invalidate,
    waits_supersede,
)

__all__ = [
    "Decided",
    "PolicyActivated",
    "PolicySaved",
    "Seen",
    "approval_decide",
    "arguments_intact",
    "call_waits_invalidate",
    "decided_waits_invalidate",
    "decision_refusal",
    "fault_facts",
    "faults_refusal",
    "policy_activate",
    "policy_save",
    "ruling_record",
    "wait_consume",
    "wait_expire",
    "wait_lock",
    "wait_open",
    "wait_refuse",
    "wait_reject_for_another",
    "waits_cancel",
    "waits_invalidate",
    "waits_supersede",
]
