"""The store port: everything through which the loop reads and writes the store. The suite uses nothing else to do so.

Whoever puts the store elsewhere has to offer these, and to pass this suite with them. Each act is one of three kinds: a
step of a worker (one statement, sent by `write`), a service in a transaction of its caller that has proved the lease
(`lease_lock`), or a read. What a step writes hangs on the fence; what it starts hangs on `go` as well.
"""

from types import ModuleType

from approvals import selectors as approval_reads
from approvals import services as approval_writes
from checkpoints import selectors as checkpoint_reads
from checkpoints import services as checkpoint_writes
from checkpoints import statements as checkpoint_parts
from receipts import selectors as receipt_reads
from receipts import services as receipt_writes
from receipts import statements as receipt_parts
from runs import leases, wakeups
from runs import selectors as run_reads
from runs import services as run_writes
from runs import statements as run_parts
from runtime import statements as steps

# By concern, the owner of each act and its name there.
PORT: dict[str, dict[ModuleType, tuple[str, ...]]] = {
    "admission": {
        run_writes: ("run_admit", "artifact_store", "message_append"),
        checkpoint_writes: ("contract_open", "checkpoint_first"),
    },
    "lease": {
        leases: (
            *("lease_acquire", "lease_renew", "lease_refence", "lease_lock", "lease_lock_any"),
            *("lease_pass", "lease_release", "lease_held", "leases_end", "lease_given_back"),
        ),
        run_reads: ("runs_to_look_at", "database_now"),
    },
    "head": {
        checkpoint_writes: (
            *("prepare", "snapshot_save", "head_lock", "refused_save_record", "conflict"),
            *("unknown_save_record", "saves_probe", "head_lock_soon"),
        ),
        checkpoint_reads: (
            *("load_head", "load_snapshot", "checkpoint_of", "checkpoint_view", "has_head", "unknown_saves"),
        ),
        checkpoint_parts: ("save_params",),
    },
    "steps": {
        steps: (
            *("ASK_FIRST", "ASK_RETRY", "SEAL_AND_SEND", "SEAL_TURN", "SEAL_ALONE", "DISPATCH_CALLS"),
            *("DISPATCH_AGAIN", "RECORD_READ", "RECORD_RESULT", "RECORD_TASK", "RECORD_ALONE", "write"),
            *("RESTORE", "AWAITED", "GROUND", "LAST_LOOK", "FINISH"),
        ),
        receipt_parts: ("call_params", "dispatch_params"),
        run_parts: ("fence_params", "Purse"),
    },
    "outcomes": {
        receipt_writes: (
            *("attempt_lost", "attempt_refused", "attempt_find", "verdict_store", "call_refuse", "call_fail"),
            *("call_lock", "calls_cancel", "claim_take", "claim_release"),
        ),
        receipt_reads: (
            *("open_attempts", "calls_of", "run_keys", "sealed_turns", "open_turn", "blocking_unknown"),
            *("call_arguments", "result_bytes", "lineage_claims"),
        ),
    },
    "waits": {
        approval_writes: ("wait_open", "wait_consume", "waits_cancel", "waits_supersede", "approval_decide"),
        approval_reads: ("newest_waits",),
        wakeups: ("wakeup_write", "wakeups_consume", "wakeups_cancel", "wakeup_pending"),
    },
    "run": {
        run_writes: (
            *("run_lock", "run_move", "stop_accept", "stop_adopt", "refusal_record"),
            *("budget_reserve", "budget_settle", "budget_release", "budget_hold_unknown", "budget_settle_held"),
        ),
        run_reads: ("run_by_admission", "run_inputs", "messages_of", "artifact_bytes"),
    },
}
