"""Obligations over HTTP: list and release."""

from uuid import UUID

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from checkpoints.models import Obligation
from checkpoints.selectors import access_obligation
from checkpoints.states import ObligationStatus
from console.api.paging import Order, PageQuery
from console.api.parsing import ReasonBody, read
from console.api.view import ApiView, answer, operation, paged
from console.records.obligations import ObligationRecord
from runs.selectors import runs_visible
from runtime.services import obligation_release

NEWEST_FIRST = Order(("promised_at", "id"))


class ObligationQuery(PageQuery):
    """Filters of the list of obligations."""

    status = serializers.ListField(child=serializers.ChoiceField(choices=list(ObligationStatus)), required=False)
    run = serializers.UUIDField(required=False)


class Obligations(ApiView):
    """What the runs of the tenant promised."""

    @operation("obligations_list", paged(ObligationRecord), query=ObligationQuery, can=())
    def get(self, request: Request) -> Response:
        """The newest first."""
        query = read(ObligationQuery, request.query_params)
        rows = Obligation.objects.filter(run__in=runs_visible(self.actor))
        if "status" in query:
            rows = rows.filter(status__in=query["status"])
        if "run" in query:
            rows = rows.filter(run_id=query["run"])
        return self.page("obligations", rows, NEWEST_FIRST, query, ObligationRecord)


class ObligationRelease(ApiView):
    """The release of an obligation."""

    @operation("obligations_release", ObligationRecord, body=ReasonBody, can=(403, 404, 409))
    def post(self, request: Request, id: UUID) -> Response:
        """Let the run complete without it. Needs a reconciler or an approver."""
        said = read(ReasonBody, request.data)
        outcome = obligation_release(actor=self.actor, obligation_id=id, reason=said["reason"])
        return answer(outcome, lambda: ObligationRecord(access_obligation(actor=self.actor, id=id)).data)
