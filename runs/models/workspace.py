"""A workspace: the long research that several runs may add to."""

from typing import ClassVar

from django.db import models

from accounts.keys import new_id
from accounts.models import ClockTimestamp, Tenant


class Workspace(models.Model):
    """A research of a tenant, by its title. A run that is given one may say how far it got."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT)
    title = models.CharField(max_length=200)
    created_at = models.DateTimeField(db_default=ClockTimestamp())

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "title"], name="workspace_title_once"),
            models.UniqueConstraint(fields=["tenant", "id"], name="workspace_in_tenant"),
        ]

    def __str__(self) -> str:
        return self.title
