"""Waits over HTTP: list, show, decide, put another call in the place of one."""

from typing import Any
from uuid import UUID

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.api import refused_response
from accounts.errors import Refused
from accounts.states import Actor
from approvals.selectors import access_wait, waits_visible
from approvals.services import Seen, approval_decide
from approvals.states import DecisionVerdict, WaitStatus
from console.api.calls import shown_call
from console.api.paging import Order, PageQuery
from console.api.parsing import Strict, Text, Whole, read
from console.api.view import ApiView, answer, operation, paged
from console.records.calls import CallDetail
from console.records.waits import WaitRecord, wait_rows
from runtime.services import Written, call_amend

NEWEST_FIRST = Order(("opened_at", "id"))


class WaitQuery(PageQuery):
    """Filters of the list of waits."""

    status = serializers.ListField(child=serializers.ChoiceField(choices=list(WaitStatus)), required=False)
    run = serializers.UUIDField(required=False)


class DecisionBody(Strict):
    """A decision, with exactly what the person was shown. If the wait is bound to anything else, it is refused."""

    verdict = serializers.ChoiceField(choices=list(DecisionVerdict))
    revision = Whole()
    digest = Text()
    args_digest = Text()
    reason = Text()


class AmendBody(Strict):
    """The arguments as they should be, without what the tool fills in itself; what the person was shown; and why."""

    arguments = serializers.DictField()
    revision = Whole()
    digest = Text()
    args_digest = Text()
    reason = Text()


def shown_wait(actor: Actor, id: UUID) -> dict[str, Any]:
    """The record of a wait as it is now. Raises NotFound."""
    return WaitRecord(access_wait(actor=actor, id=id)).data


class Waits(ApiView):
    """The waits of the tenant."""

    @operation("waits_list", paged(WaitRecord), query=WaitQuery, can=())
    def get(self, request: Request) -> Response:
        """The newest first."""
        query = read(WaitQuery, request.query_params)
        waits = wait_rows(waits_visible(self.actor))
        if "status" in query:
            waits = waits.filter(status__in=query["status"])
        if "run" in query:
            waits = waits.filter(run_id=query["run"])
        return self.page("waits", waits, NEWEST_FIRST, query, WaitRecord)


class OneWait(ApiView):
    """One wait."""

    @operation("waits_show", WaitRecord)
    def get(self, request: Request, id: UUID) -> Response:
        """The call that waits, its exact arguments, and the revision and digests that a decision has to name."""
        return Response(shown_wait(self.actor, id))


class WaitDecision(ApiView):
    """The decision of a wait."""

    @operation("waits_decide", WaitRecord, body=DecisionBody, can=(403, 404, 409))
    def post(self, request: Request, id: UUID) -> Response:
        """Approve or reject. There is one decision a wait; who comes second is told who decided what, and when."""
        said = read(DecisionBody, request.data)
        outcome = approval_decide(
            actor=self.actor,
            wait_id=id,
            verdict=DecisionVerdict(said["verdict"]),
            seen=Seen(said["revision"], said["digest"], said["args_digest"]),
            reason=said["reason"],
        )
        return answer(outcome, lambda: shown_wait(self.actor, id))


class WaitAmendment(ApiView):
    """Another call in the place of one that waits."""

    @operation("waits_amend", CallDetail, body=AmendBody, can=(403, 404, 409))
    def post(self, request: Request, id: UUID) -> Response:
        """Reject the call and write it anew. Answers with the person's call; where it needs an approval it is asked about."""
        said = read(AmendBody, request.data)
        seen = Seen(said["revision"], said["digest"], said["args_digest"])
        written = Written(said["arguments"], seen, said["reason"])
        outcome = call_amend(actor=self.actor, wait_id=id, written=written)
        if isinstance(outcome, Refused):
            return refused_response(outcome)
        return Response(shown_call(self.actor, outcome.call_id))
