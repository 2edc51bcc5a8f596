"""Constraints and assumptions over HTTP: list and withdraw."""

from uuid import UUID

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from checkpoints.models import Commitment
from checkpoints.selectors import access_commitment
from checkpoints.states import CommitmentKind, CommitmentStatus
from console.api.paging import Order, PageQuery
from console.api.parsing import ReasonBody, read
from console.api.view import ApiView, answer, operation, paged
from console.records.commitments import CommitmentRecord
from runs.selectors import runs_visible
from runtime.services import commitment_withdraw

NEWEST_FIRST = Order(("accepted_at", "id"))


class CommitmentQuery(PageQuery):
    """Filters of the list of commitments."""

    kind = serializers.ListField(child=serializers.ChoiceField(choices=list(CommitmentKind)), required=False)
    status = serializers.ListField(child=serializers.ChoiceField(choices=list(CommitmentStatus)), required=False)
    run = serializers.UUIDField(required=False)


class Commitments(ApiView):
    """What the runs of the tenant are bound to and rest on."""

    @operation("commitments_list", paged(CommitmentRecord), query=CommitmentQuery, can=())
    def get(self, request: Request) -> Response:
        """The newest first."""
        query = read(CommitmentQuery, request.query_params)
        rows = Commitment.objects.filter(run__in=runs_visible(self.actor))
        for name in ("kind", "status"):
            if name in query:
                rows = rows.filter(**{f"{name}__in": query[name]})
        if "run" in query:
            rows = rows.filter(run_id=query["run"])
        return self.page("commitments", rows, NEWEST_FIRST, query, CommitmentRecord)


class CommitmentWithdrawal(ApiView):
    """The withdrawal of a commitment at its source."""

    @operation("commitments_withdraw", CommitmentRecord, body=ReasonBody, can=(403, 404, 409))
    def post(self, request: Request, id: UUID) -> Response:
        """Record that it does not hold any more. A run that rests on it sends nothing more with an effect, and is held."""
        said = read(ReasonBody, request.data)
        outcome = commitment_withdraw(actor=self.actor, commitment_id=id, reason=said["reason"])
        return answer(outcome, lambda: CommitmentRecord(access_commitment(actor=self.actor, id=id)).data)
