"""What every act shares: permission and text checks, the audit of what was done and of what was refused."""

import unicodedata
from typing import Any, TypeVar
from uuid import UUID

from accounts.audit import audit_append, audit_refused
from accounts.errors import Invalid, NotAllowed, Refused
from accounts.states import Actor, Permission
from checkpoints.envelope import unfit_text
from checkpoints.errors import SnapshotRefused
from checkpoints.states import NotSaved
from runs.errors import RunEnded
from runs.states import (
    WakeupCause,
)
from runs.wakeups import wakeup_write

T = TypeVar("T")

GOAL_LIMIT = 4000
REASON_LIMIT = 4000
NAME_LIMIT = 200
FILE_NAME_LIMIT = 255


def act_refusal(actor: Actor, permission: Permission, reason: str) -> Refused | None:
    """Why this person may not act so: the permission is missing, or the reason is. None when they may."""
    if not actor.may(permission):
        return NotAllowed({"permission": str(permission), "actor": actor.name})
    return text_refusal("reason", reason, REASON_LIMIT, needed=True)


def text_refusal(name: str, text: str, limit: int, *, needed: bool = False, one_line: bool = False) -> Refused | None:
    """Why a text can't be stored to be read, naming the field; None when it can."""
    why = unfit_text(text, limit, needed=needed)
    if not why and one_line and any(unicodedata.category(character) == "Cc" for character in text):
        why = "it holds a control character; write it on one line."
    return Invalid({"field": name, "reason": why}) if why else None


def save_refusal(outcome: NotSaved) -> SnapshotRefused:
    """What a person is told whose act would have saved a revision that may not be stored."""
    return SnapshotRefused({"reason": outcome.why, "path": outcome.path})


def run_ended(run: Any) -> RunEnded:
    """The refusal of an act on a run that has ended."""
    return RunEnded({"status": run.status, "at": f"{run.ended_at:%Y-%m-%d %H:%M:%S} UTC"})


def wake(run: Any, cause: WakeupCause, key: str) -> None:
    """Store a wakeup of a run, once per key."""
    wakeup_write(tenant_id=run.tenant_id, run_id=run.id, cause=cause, dedupe_key=key)


def audit(
    actor: Actor, action: str, object_type: str, object_id: UUID, detail: dict[str, Any], *, reason: str = ""
) -> None:
    """Audit what was done, last in its transaction; with the reason, where no row of the act holds it."""
    audit_append(actor=actor, action=action, object_type=object_type, object_id=object_id, detail=detail, reason=reason)


def audited(outcome: T | Refused, actor: Actor, action: str, object_type: str, object_id: UUID) -> T | Refused:
    """Pass an outcome on; a refused one is audited first, in a transaction of its own."""
    if isinstance(outcome, Refused):
        audit_refused(actor=actor, action=action, object_type=object_type, object_id=object_id, refused=outcome)
    return outcome
