"""Reads of workspaces and of long-term memory. Never read back to resume a run (A-017)."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db.models import Count, QuerySet

from accounts.errors import NotFound
from accounts.states import Actor, Permission
from runs.models import MemoryItem, Workspace, WorkspaceProgress
from runs.selectors.run import text_of

RECALLED = 50  # items of a subject that a tool reads, the newest ones


@dataclass(frozen=True)
class Progress:
    """One version of a workspace's progress, with its text.

    `questions` are {"id", "text", "status"}; `bodies` are the ids of report versions that it rests on.
    """

    version: int
    summary: str
    questions: Sequence[dict[str, str]]
    bodies: Sequence[UUID]
    row: WorkspaceProgress


def progress_of(workspace_id: UUID) -> list[Progress]:
    """Every version of a workspace's progress, the newest first."""
    rows = WorkspaceProgress.objects.select_related("source_run").filter(workspace_id=workspace_id)
    return [_progress(row) for row in rows.order_by("-version")]


def progress_latest(workspace_id: UUID) -> Progress | None:
    """The newest version, or None."""
    row = WorkspaceProgress.objects.filter(workspace_id=workspace_id).order_by("-version").first()
    return _progress(row) if row else None


def _progress(row: WorkspaceProgress) -> Progress:
    said = json.loads(text_of(row))
    return Progress(row.version, said["summary"], said["questions"], [UUID(id) for id in said["bodies"]], row)


def progress_report_versions(workspace_id: UUID) -> frozenset[UUID]:
    """The report versions that the workspace's progress was published with."""
    rows = WorkspaceProgress.objects.filter(workspace_id=workspace_id)
    return frozenset(rows.values_list("report_version_id", flat=True))


def workspaces_visible(actor: Actor) -> QuerySet[Workspace]:
    """The workspaces of the actor's tenant with the number of versions; none without the permission to read."""
    if not actor.may(Permission.READ):
        return Workspace.objects.none()
    return Workspace.objects.filter(tenant_id=actor.tenant_id).annotate(versions=Count("progress"))


def access_workspace(*, actor: Actor, id: UUID) -> Workspace:
    """The workspace with this id in the actor's tenant. Raises NotFound."""
    workspace = workspaces_visible(actor).filter(id=id).first()
    if workspace is None:
        raise NotFound
    return workspace


def memory_texts(*, tenant_id: UUID, subject: str) -> tuple[str, ...]:
    """What is remembered about a subject, the oldest of the newest fifty first."""
    rows = MemoryItem.objects.filter(tenant_id=tenant_id, subject=subject).order_by("-at", "-id")[:RECALLED]
    return tuple(memory_text(row) for row in reversed(rows))


def memory_text(item: MemoryItem) -> str:
    """The text of one item."""
    return text_of(item)


def memory_visible(actor: Actor) -> QuerySet[MemoryItem]:
    """What the tenant's agents remember; none without the permission to read."""
    if not actor.may(Permission.READ):
        return MemoryItem.objects.none()
    return MemoryItem.objects.filter(tenant_id=actor.tenant_id)
