"""Evidence against what was accepted about a call, over HTTP: list the flags, raise one, close one."""

from typing import Any
from uuid import UUID

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.states import Actor
from console.api.paging import Order, PageQuery
from console.api.parsing import ReasonBody, Strict, Text, read
from console.api.view import ApiView, answer, operation, paged
from console.records.calls import CallDetail, call_shown
from console.records.contradictions import ContradictionRecord
from receipts.selectors import access_contradiction, contradictions_visible
from receipts.states import Closing, Verdict
from runtime.services import EvidenceGiven, call_contradict, contradiction_settle

NEWEST_FIRST = Order(("raised_at", "id"))


class ContradictionQuery(PageQuery):
    """`open=true` keeps those that nobody has closed."""

    open = serializers.BooleanField(required=False)


class EvidenceBody(Strict):
    """What was seen, and how one knows."""

    says = serializers.ChoiceField(choices=[Verdict.EXECUTED, Verdict.NOT_EXECUTED])
    evidence = Text()
    external_ref = Text(default="")


class ClosingBody(ReasonBody):
    """How the flag is closed, and why."""

    closing = serializers.ChoiceField(choices=list(Closing))


def shown_flag(actor: Actor, id: UUID) -> dict[str, Any]:
    """A flag as it is now. Raises NotFound."""
    return ContradictionRecord(access_contradiction(actor=actor, id=id)).data


class Contradictions(ApiView):
    """The flags of the tenant."""

    @operation("contradictions_list", paged(ContradictionRecord), query=ContradictionQuery, can=())
    def get(self, request: Request) -> Response:
        """The newest first."""
        query = read(ContradictionQuery, request.query_params)
        flags = contradictions_visible(self.actor).select_related("tool_call")
        if "open" in query:
            flags = flags.filter(closed_at__isnull=query["open"])
        return self.page("contradictions", flags, NEWEST_FIRST, query, ContradictionRecord)


class CallContradiction(ApiView):
    """Evidence against what was accepted about a call."""

    @operation("calls_contradict", CallDetail, body=EvidenceBody, can=(403, 404, 409))
    def post(self, request: Request, id: UUID) -> Response:
        """Raise a flag. It flips nothing; a retry that waits is not sent while it is open."""
        said = read(EvidenceBody, request.data)
        given = EvidenceGiven(Verdict(said["says"]), said["evidence"], said["external_ref"])
        return answer(call_contradict(actor=self.actor, call_id=id, said=given), lambda: call_shown(self.actor, id))


class ContradictionClosing(ApiView):
    """The closing of a flag."""

    @operation("contradictions_close", ContradictionRecord, body=ClosingBody, can=(403, 404, 409))
    def post(self, request: Request, id: UUID) -> Response:
        """Close it: SEND_AGAIN (by an approver) or DO_NOT_SEND where a retry waits, else NOTED."""
        said = read(ClosingBody, request.data)
        outcome = contradiction_settle(
            actor=self.actor, contradiction_id=id, closing=Closing(said["closing"]), reason=said["reason"]
        )
        return answer(outcome, lambda: shown_flag(self.actor, id))
