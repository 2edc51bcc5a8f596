"""Reads of tags."""

from typing import Any
from uuid import UUID

from django.db.models import Exists, OuterRef, QuerySet

from accounts.statements import fetch
from accounts.states import Actor, Permission
from runs.models import Run, RunTag

# One step along the index for each different tag, however many runs carry it.
_BEGINNING = """
WITH RECURSIVE found(tag) AS (
  (SELECT tag FROM runs_runtag WHERE tenant_id = %(tenant)s AND tag >= %(start)s AND tag < %(end)s ORDER BY tag LIMIT 1)
  UNION ALL
  SELECT (SELECT t.tag FROM runs_runtag t
          WHERE t.tenant_id = %(tenant)s AND t.tag > found.tag AND t.tag < %(end)s ORDER BY t.tag LIMIT 1)
  FROM found WHERE found.tag IS NOT NULL)
SELECT tag FROM found WHERE tag IS NOT NULL LIMIT %(limit)s"""
_LAST = "\x7f"  # behind every character that a tag can hold


def tags_of(run_id: UUID) -> list[str]:
    """The tags of a run, by their letters."""
    return list(RunTag.objects.filter(run_id=run_id).order_by("tag").values_list("tag", flat=True))


def tags_beginning(actor: Actor, text: str, limit: int) -> list[str]:
    """The first tags of the actor's tenant that begin so; none without the permission to read."""
    if not actor.may(Permission.READ):
        return []
    wanted: dict[str, Any] = {"tenant": actor.tenant_id, "start": text, "end": f"{text}{_LAST}", "limit": limit}
    return [tag for (tag,) in fetch(_BEGINNING, wanted)]


def runs_tagged(rows: QuerySet[Run], tag: str) -> QuerySet[Run]:
    """Those of some runs that carry a tag."""
    return rows.filter(Exists(RunTag.objects.filter(tenant=OuterRef("tenant"), run=OuterRef("pk"), tag=tag)))
