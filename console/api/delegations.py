"""Delegations over HTTP: list, give, end."""

from uuid import UUID

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.api import refused_response
from accounts.errors import Refused
from approvals.selectors import access_delegation, delegations_visible
from approvals.services import DelegationWanted, delegation_end, delegation_give
from console.api.paging import Order, PageQuery
from console.api.parsing import NoBody, Strict, Text, read
from console.api.view import ApiView, answer, operation, paged
from console.records.delegations import DelegationRecord

NEWEST_FIRST = Order(("given_at", "id"))


class DelegationBody(Strict):
    """Who decides with your authority, by their username, until when and why; from now on where nothing else is said."""

    taker = Text()
    starts_at = serializers.DateTimeField(required=False)
    ends_at = serializers.DateTimeField()
    reason = Text()


class Delegations(ApiView):
    """Who decides with whose authority."""

    @operation("delegations_list", paged(DelegationRecord), query=PageQuery, can=())
    def get(self, request: Request) -> Response:
        """The newest first."""
        query = read(PageQuery, request.query_params)
        return self.page("delegations", delegations_visible(self.actor), NEWEST_FIRST, query, DelegationRecord)

    @operation("delegations_give", DelegationRecord, body=DelegationBody, can=(403,), statuses=(201,))
    def post(self, request: Request) -> Response:
        """Have another member decide with your own authority for a time. It can't be given on."""
        said = read(DelegationBody, request.data)
        wanted = DelegationWanted(said["taker"], said["ends_at"], said["reason"], said.get("starts_at"))
        outcome = delegation_give(actor=self.actor, wanted=wanted)
        if isinstance(outcome, Refused):
            return refused_response(outcome)
        given = access_delegation(actor=self.actor, id=outcome.delegation_id)
        return Response(DelegationRecord(given).data, status=201)


class DelegationEnd(ApiView):
    """The end of a delegation before its time."""

    @operation("delegations_end", DelegationRecord, can=(403, 404, 409))
    def post(self, request: Request, id: UUID) -> Response:
        """Take it back, or lay it down. Votes that were given with it stay."""
        read(NoBody, request.data)
        outcome = delegation_end(actor=self.actor, delegation_id=id)
        return answer(outcome, lambda: DelegationRecord(access_delegation(actor=self.actor, id=id)).data)
