"""Standing grants over HTTP: list, show, give, revoke."""

from uuid import UUID

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.api import refused_response
from accounts.errors import Refused
from approvals.selectors import access_grant
from approvals.services import grant_revoke
from console.api.lists import narrowed
from console.api.paging import Order, PageQuery
from console.api.parsing import ReasonBody, Strict, Text, Whole, read
from console.api.view import ApiView, answer, operation, paged
from console.lists.grants import GRANTS, WORDS
from console.records.grants import GrantRecord, GrantSummary
from runtime.services import GrantRequest, tool_grant

NEWEST_FIRST = Order(("given_at", "id"))


class GrantQuery(PageQuery):
    """Filters of the list of grants, as its page takes them. `person` gave it; `since` and `until`, of when it was given, are a day, a
    moment or so long ago (`12 h`).
    """

    state = serializers.ListField(child=serializers.ChoiceField(choices=list(WORDS)), required=False)
    agent = Text(required=False)
    tool = Text(required=False)
    person = Text(required=False)
    since = Text(required=False)
    until = Text(required=False)


class GrantBody(Strict):
    """One tool of one agent; a condition as policies write it, or ""; for how many hours and uses; and why."""

    agent = Text()
    tool = Text()
    condition = Text(required=False, default="")
    hours = Whole()
    max_uses = Whole()
    reason = Text()


class Grants(ApiView):
    """The standing grants of the tenant."""

    @operation("grants_list", paged(GrantSummary), query=GrantQuery, can=())
    def get(self, request: Request) -> Response:
        """The newest first, also those that are over."""
        query = read(GrantQuery, request.query_params)
        return self.page("grants", narrowed(GRANTS, self.actor, query), NEWEST_FIRST, query, GrantSummary)

    @operation("grants_give", GrantRecord, body=GrantBody, can=(403,), statuses=(201,))
    def post(self, request: Request) -> Response:
        """Allow a tool in advance. It stands for your approval where policy asks one person that you could be."""
        said = read(GrantBody, request.data)
        reason = said.pop("reason")
        given = tool_grant(actor=self.actor, wanted=GrantRequest(**said), reason=reason)
        if isinstance(given, Refused):
            return refused_response(given)
        return Response(GrantRecord(access_grant(actor=self.actor, id=given.grant_id)).data, status=201)


class OneGrant(ApiView):
    """One standing grant."""

    @operation("grants_show", GrantRecord)
    def get(self, request: Request, id: UUID) -> Response:
        """Its scope, and every call that was sent by it."""
        return Response(GrantRecord(access_grant(actor=self.actor, id=id)).data)


class GrantRevocation(ApiView):
    """The end of a grant before its time."""

    @operation("grants_revoke", GrantRecord, body=ReasonBody, can=(403, 404, 409))
    def post(self, request: Request, id: UUID) -> Response:
        """Nothing is sent by it from then on. What was sent stays sent."""
        said = read(ReasonBody, request.data)
        done = grant_revoke(actor=self.actor, grant_id=id, reason=said["reason"])
        return answer(done, lambda: GrantRecord(access_grant(actor=self.actor, id=id)).data)
