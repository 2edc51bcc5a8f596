"""What people call a run, to find it again."""

from typing import ClassVar

import pgtrigger
from django.db import models
from django.db.models import Q

from accounts.models import Tenant, no_truncate
from runs.models.run import Run
from runs.states import RUN_TAGS, TAG


class RunTag(models.Model):
    """One tag of a run. `place` is one of the run's RUN_TAGS places, so that there are never more; it orders nothing."""

    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, db_index=False)
    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="tags", db_index=False)
    tag = models.CharField(max_length=40, db_collation="C")
    place = models.SmallIntegerField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["run", "tag"], name="run_tag_once"),
            models.UniqueConstraint(fields=["run", "place"], name="run_tag_place_once"),
            models.CheckConstraint(condition=Q(place__gte=1, place__lte=RUN_TAGS), name="run_tags_bounded"),
            models.CheckConstraint(condition=Q(tag__regex=f"^{TAG.pattern}$"), name="run_tag_form"),
        ]
        indexes: ClassVar = [models.Index(fields=["tenant", "tag", "run"], name="run_by_tag")]
        triggers: ClassVar = [pgtrigger.Protect(name="never_changed", operation=pgtrigger.Update), no_truncate()]

    def __str__(self) -> str:
        return self.tag
