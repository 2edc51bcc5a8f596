"""The runs that an act on a filtered list would be done to."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from django.http import QueryDict

from accounts.states import Actor
from console.lists.listing import Asked
from console.lists.runs import RUNS
from runs.models import Run
from runs.selectors import bulk_digest
from runs.states import BULK_MEANS, BULK_RUNS, BulkAct

NAMED = 20


@dataclass(frozen=True)
class BulkSet:
    """The runs of a filter that an act means something to: all their ids, and the first ones to be named. `left_out` of the filter's runs it
    means nothing to, counted up to one more than the limit of an act.
    """

    act: BulkAct
    ids: Sequence[UUID]
    left_out: int
    asked: Asked

    @property
    def digest(self) -> str:
        return bulk_digest(self.act, self.ids)

    @property
    def too_many(self) -> bool:
        return len(self.ids) > BULK_RUNS

    def named(self) -> list[Run]:
        """The first of them, the newest in front."""
        runs = Run.objects.filter(id__in=self.ids[:NAMED]).select_related("agent_version__agent")
        return sorted(runs, key=lambda run: list(self.ids).index(run.id))


def bulk_set(actor: Actor, act: BulkAct, query: QueryDict) -> BulkSet:
    """The runs that the filters of a query find now, the newest first; none where a filter can't be read."""
    asked = RUNS.asked(actor, query)
    rows = asked.rows().select_related(None).order_by("-created_at", "-id")
    means = rows.filter(status__in=sorted(BULK_MEANS[act])).values_list("id", flat=True)
    others = rows.exclude(status__in=sorted(BULK_MEANS[act])).order_by()[: BULK_RUNS + 1].count()
    return BulkSet(act, list(means[: BULK_RUNS + 1]), others, asked)
