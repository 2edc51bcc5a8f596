"""Waits over HTTP: list, show, decide."""

from typing import Any
from uuid import UUID

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.states import Actor
from approvals.selectors import access_wait, waits_visible
from approvals.services import Seen, approval_decide
from approvals.states import DecisionVerdict, WaitStatus
from console.api.paging import Order, PageQuery
from console.api.parsing import Strict, Text, Whole, read
from console.api.view import ApiView, answer, operation, paged
from console.records.waits import WaitRecord, wait_rows

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
