"""Acts on many runs over HTTP: look at the set, act on exactly that one, and read what came of each."""

from typing import Any
from uuid import UUID

from django.http import QueryDict
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.states import Actor
from console.api.paging import Order, PageQuery
from console.api.parsing import Strict, Text, Whole, read
from console.api.view import ApiView, answer, operation, paged
from console.lists.bulk import BulkSet, bulk_set
from console.records.bulk import BulkDetail, BulkPreview, BulkRecord, bulk_detail, bulk_preview
from runs.selectors import access_bulk, bulks_visible
from runs.states import BulkAct
from runtime.services import BulkAccepted, bulk_accept

NEWEST_FIRST = Order(("accepted_at", "id"))


class BulkQuery(Strict):
    """The act, and the filters of the list of runs as its page has them in its address (`status=HELD&agent=…`)."""

    act = serializers.ChoiceField(choices=list(BulkAct))
    query = Text(default="")


class BulkBody(BulkQuery):
    """The act on the set that a preview has shown: its digest, its count, and why."""

    digest = Text()
    count = Whole()
    reason = Text()


def _found(actor: Actor, said: dict[str, Any]) -> BulkSet:
    found = bulk_set(actor, BulkAct(said["act"]), QueryDict(said["query"]))
    if found.asked.errors:
        raise serializers.ValidationError({name: [why] for name, why in found.asked.errors.items()})
    return found


class Bulks(ApiView):
    """The acts on many runs of the tenant."""

    @operation("bulks_list", paged(BulkRecord), query=PageQuery, can=())
    def get(self, request: Request) -> Response:
        """The newest first."""
        query = read(PageQuery, request.query_params)
        return self.page("bulks", bulks_visible(self.actor), NEWEST_FIRST, query, BulkRecord)

    @operation("bulks_accept", BulkDetail, body=BulkBody, can=(403, 409), statuses=(201,))
    def post(self, request: Request) -> Response:
        """Act on the runs that the filter finds, if they are those that were shown. Each run has its own result."""
        said = read(BulkBody, request.data)
        outcome = bulk_accept(
            actor=self.actor,
            act=BulkAct(said["act"]),
            reason=said["reason"],
            query=said["query"],
            run_ids=_found(self.actor, said).ids,
            shown=said["digest"],
            count=said["count"],
        )
        return answer(outcome, lambda: self._shown(outcome), status=201)

    def _shown(self, outcome: object) -> dict[str, Any]:
        if not isinstance(outcome, BulkAccepted):
            raise TypeError(f"{outcome}")
        return bulk_detail(access_bulk(actor=self.actor, id=outcome.bulk_id))


class BulkPreviews(ApiView):
    """What an act on many runs would be done to."""

    @operation("bulks_preview", BulkPreview, query=BulkQuery, can=())
    def get(self, request: Request) -> Response:
        """Counted now, with the digest that the act has to name."""
        said = read(BulkQuery, request.query_params)
        return Response(bulk_preview(BulkAct(said["act"]), _found(self.actor, said)))


class OneBulk(ApiView):
    """One act on many runs."""

    @operation("bulks_show", BulkDetail)
    def get(self, request: Request, id: UUID) -> Response:
        """How far it is, and what came of each run."""
        return Response(bulk_detail(access_bulk(actor=self.actor, id=id)))
