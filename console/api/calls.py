"""Tool calls over HTTP: list, show, reconcile."""

from typing import Any
from uuid import UUID

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.states import Actor
from console.api.paging import Order, PageQuery
from console.api.parsing import Strict, Text, read
from console.api.view import ApiView, answer, operation, paged
from console.records.calls import CallDetail, CallRecord, call_rows, call_with_parts
from receipts.selectors import access_call, calls_visible
from receipts.states import CallStatus, FollowUp, Verdict
from runtime.services import VerdictRequest, call_reconcile, effect_repeat

NEWEST_FIRST = Order(("created_at", "id"))


class CallQuery(PageQuery):
    """Filters of the list of calls. `status=UNCERTAIN` are those whose outcome nobody knows."""

    status = serializers.ListField(child=serializers.ChoiceField(choices=list(CallStatus)), required=False)
    run = serializers.UUIDField(required=False)


class VerdictBody(Strict):
    """A verdict and its evidence. NOT_EXECUTED takes `then`: RETRY (by an approver) or FAIL."""

    verdict = serializers.ChoiceField(choices=list(Verdict))
    evidence = Text()
    external_ref = Text(default="")
    then = serializers.ChoiceField(choices=list(FollowUp), default=FollowUp.NONE)


def shown_call(actor: Actor, id: UUID) -> dict[str, Any]:
    """The detail of a call as it is now. Raises NotFound."""
    return CallDetail(call_with_parts(access_call(actor=actor, id=id))).data


class Calls(ApiView):
    """The tool calls of the tenant."""

    @operation("calls_list", paged(CallRecord), query=CallQuery, can=())
    def get(self, request: Request) -> Response:
        """The newest first."""
        query = read(CallQuery, request.query_params)
        calls = call_rows(calls_visible(self.actor))
        if "status" in query:
            calls = calls.filter(status__in=query["status"])
        if "run" in query:
            calls = calls.filter(run_id=query["run"])
        return self.page("calls", calls, NEWEST_FIRST, query, CallRecord)


class OneCall(ApiView):
    """One tool call."""

    @operation("calls_show", CallDetail)
    def get(self, request: Request, id: UUID) -> Response:
        """The call with each try, its result and effect, and every verdict on it."""
        return Response(shown_call(self.actor, id))


class RepeatBody(Strict):
    """Why it shall happen once more."""

    reason = Text()


class CallRepeat(ApiView):
    """A second effect."""

    @operation("calls_repeat", CallDetail, body=RepeatBody, can=(403, 404, 409))
    def post(self, request: Request, id: UUID) -> Response:
        """Let the next proposal of this step and these arguments be a call of its own, in every run of the lineage."""
        said = read(RepeatBody, request.data)
        outcome = effect_repeat(actor=self.actor, call_id=id, reason=said["reason"])
        return answer(outcome, lambda: shown_call(self.actor, id))


class CallVerdict(ApiView):
    """The verdict on a call of unknown outcome."""

    @operation("calls_reconcile", CallDetail, body=VerdictBody, can=(403, 404, 409))
    def post(self, request: Request, id: UUID) -> Response:
        """Say whether it happened, and how one knows. Its facts are stored at once."""
        said = read(VerdictBody, request.data)
        verdict = VerdictRequest(
            Verdict(said["verdict"]), said["evidence"], said["external_ref"], FollowUp(said["then"])
        )
        outcome = call_reconcile(actor=self.actor, call_id=id, said=verdict)
        return answer(outcome, lambda: shown_call(self.actor, id))
