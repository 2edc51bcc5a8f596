"""Put a file beside a call, as evidence for whoever says what is known of it."""

from dataclasses import dataclass
from uuid import UUID

from django.db import transaction

from accounts.errors import Invalid, NotAllowed, Refused
from accounts.states import Actor, Permission
from receipts.errors import AttachmentsFull, AttachmentThere, AttachmentTooBig, NeverSent
from receipts.selectors import access_call, attachments_of
from receipts.services import attachment_store, call_lock
from receipts.states import ATTACHMENT_BYTES, ATTACHMENTS
from runs.canonical import bounded, digest
from runs.live import hint_changed
from runs.services import artifact_store
from runtime.services.guards import FILE_NAME_LIMIT, NAME_LIMIT, REASON_LIMIT, audit, audited, text_refusal
from runtime.services.start import Upload


@dataclass(frozen=True)
class Attached:
    """The file is beside the call, now or from before."""

    attachment_id: UUID
    call_id: UUID
    sha256: str


def call_attach(*, actor: Actor, call_id: UUID, file: Upload, note: str = "") -> Attached | Refused:
    """Store a file beside a call that was sent: at most 1 MiB, ten a call, encrypted with the tenant's key, by its SHA-256. It says
    nothing of the call by itself. The same bytes beside the same call are stored once; with another name or note they are refused,
    since nobody would read those. Needs the permission to reconcile. Raises NotFound.
    """
    access_call(actor=actor, id=call_id)
    outcome: Attached | Refused | None = _refusal(actor, file, note)
    if outcome is None:
        with transaction.atomic():
            outcome = _attach(actor, call_id, file, note.strip())
    return audited(outcome, actor, "call.attach", "call", call_id)


def _attach(actor: Actor, call_id: UUID, file: Upload, note: str) -> Attached | Refused:
    call = call_lock(call_id)
    if not call.attempts:
        return NeverSent()
    beside = attachments_of(call)
    same = next((one for one in beside if one.sha256 == digest(file.data)), None)
    if same is not None and (same.filename, same.note) == (file.filename, note):
        return Attached(same.id, call_id, same.sha256)
    if same is not None:
        by, at = same.added_by.partition(":")[2], f"{same.added_at:%Y-%m-%d %H:%M:%S} UTC"
        return AttachmentThere({"filename": same.filename, "by": by, "at": at})
    if len(beside) >= ATTACHMENTS:
        return AttachmentsFull({"count": len(beside)})
    sha256 = artifact_store(tenant_id=call.tenant_id, data=file.data, media_type="application/octet-stream")
    row = attachment_store(
        call, filename=file.filename, sha256=sha256, size=len(file.data), note=note, actor=actor.label
    )
    audit(actor, "call.attach", "call", call_id, {"attachment": str(row.id), "sha256": sha256, "size": len(file.data)})
    hint_changed(tenant_id=call.tenant_id, run_id=call.run_id)
    return Attached(row.id, call_id, sha256)


def _refusal(actor: Actor, file: Upload, note: str) -> Refused | None:
    if not actor.may(Permission.RECONCILE):
        return NotAllowed({"permission": "reconcile", "actor": actor.name})
    if not file.data:
        return Invalid({"field": "file", "reason": "it is empty, or none was chosen."})
    if len(file.data) > ATTACHMENT_BYTES:
        return AttachmentTooBig({"filename": bounded(file.filename, NAME_LIMIT), "limit": ATTACHMENT_BYTES})
    return text_refusal("file name", file.filename, FILE_NAME_LIMIT, needed=True, one_line=True) or text_refusal(
        "note", note, REASON_LIMIT
    )
