"""Writes of tags. Whoever changes those of a run holds its lock."""

from collections.abc import Collection
from typing import Any

from runs.errors import TooManyTags
from runs.models import RunTag
from runs.states import RUN_TAGS


def tags_store(*, run: Any, tags: Collection[str]) -> None:
    """Give a run more tags, in the caller's transaction, under the run's lock or where it is new. Those that it has are left alone."""
    rows = list(RunTag.objects.filter(run_id=run.id))
    taken, has = {row.place for row in rows}, {row.tag for row in rows}
    free = (place for place in range(1, RUN_TAGS + 1) if place not in taken)
    new = sorted(set(tags) - has)
    RunTag.objects.bulk_create(
        RunTag(tenant_id=run.tenant_id, run_id=run.id, tag=tag, place=place)
        for tag, place in zip(new, free, strict=False)
    )


def tags_change(
    *, run: Any, add: Collection[str], remove: Collection[str]
) -> tuple[list[str], list[str]] | TooManyTags:
    """Take tags from a run and give it others, in the caller's transaction, under the run's lock. Returns what came and what went.

    What it has already, or has not, is no change. Refused, with nothing written, where it would have too many.
    """
    has = set(RunTag.objects.filter(run_id=run.id).values_list("tag", flat=True))
    after = (has - set(remove)) | set(add)
    if len(after) > RUN_TAGS:
        return TooManyTags({"limit": RUN_TAGS, "count": len(after)})
    RunTag.objects.filter(run_id=run.id, tag__in=has - after).delete()
    tags_store(run=run, tags=after)
    return sorted(after - has), sorted(has - after)
