"""Retention over HTTP: what of a run's checkpoints goes, and letting it go."""

from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from accounts.api import refused_response
from accounts.errors import Refused
from console.api.parsing import ReasonBody, StrictJSONParser, read
from console.api.view import ApiView, operation
from console.records.retention import RetentionRecord
from runtime.services import retention_of, run_retain


class RunRetention(ApiView):
    """What retention would let go."""

    @operation("runs_retention", RetentionRecord)
    def get(self, request: Request, id: UUID) -> Response:
        """The bodies that the policy of this installation lets go now. Nothing is written."""
        return Response(RetentionRecord(retention_of(actor=self.actor, run_id=id)).data)


class RunRetain(ApiView):
    """The end of old bodies."""

    parser_classes = (StrictJSONParser,)

    @operation("runs_retain", RetentionRecord, body=ReasonBody, can=(403, 404, 409))
    def post(self, request: Request, id: UUID) -> Response:
        """Purge the bodies that the policy lets go. Envelopes, digests, receipts and the audit stay. Asking again is harmless."""
        outcome = run_retain(actor=self.actor, run_id=id, reason=read(ReasonBody, request.data)["reason"])
        return refused_response(outcome) if isinstance(outcome, Refused) else Response(RetentionRecord(outcome).data)
