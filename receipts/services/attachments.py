"""Files that people put beside a call."""

from receipts.models import Attachment, ToolCall


def attachment_store(call: ToolCall, *, filename: str, sha256: str, size: int, note: str, actor: str) -> Attachment:
    """Put a stored file beside a locked call, once for each digest. Returns the row that is there."""
    given = {"filename": filename, "size": size, "note": note, "added_by": actor, "tenant_id": call.tenant_id}
    row, _ = Attachment.objects.get_or_create(tool_call=call, sha256=sha256, defaults=given)
    return row
