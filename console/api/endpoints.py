"""Endpoints of notices over HTTP: list, add, remove; and what they were told."""

from uuid import UUID

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.selectors import access_endpoint, endpoints_visible, notices_visible
from accounts.states import EndpointKind, NoticeKind, NoticeStatus
from console.api.paging import Order, PageQuery
from console.api.parsing import Strict, Text, read
from console.api.view import ApiView, answer, operation, paged
from console.records.endpoints import EndpointRecord, NoticeRecord
from runtime.services import EndpointAdded, EndpointRequest, endpoint_add, endpoint_drop

NEWEST_FIRST = Order(("created_at", "id"))


class EndpointBody(Strict):
    """Where to hear of things. Without `hears` it is everything. Only mail can be a digest of what is of low risk."""

    kind = serializers.ChoiceField(choices=list(EndpointKind))
    name = Text()
    address = Text(help_text="stored encrypted, and never shown again")
    hears = serializers.ListField(child=serializers.ChoiceField(choices=list(NoticeKind)), required=False)
    whole_tenant = serializers.BooleanField(default=False)
    digest = serializers.BooleanField(default=False)


class NoticeQuery(PageQuery):
    """Filters of the list of notices."""

    status = serializers.ListField(child=serializers.ChoiceField(choices=list(NoticeStatus)), required=False)


class Endpoints(ApiView):
    """One's own endpoints, and those of the tenant."""

    @operation("endpoints_list", paged(EndpointRecord), query=PageQuery, can=())
    def get(self, request: Request) -> Response:
        """The newest first."""
        query = read(PageQuery, request.query_params)
        return self.page("endpoints", endpoints_visible(self.actor), NEWEST_FIRST, query, EndpointRecord)

    @operation("endpoints_add", EndpointRecord, body=EndpointBody, can=(403,), statuses=(201,))
    def post(self, request: Request) -> Response:
        """Add one. The address is resolved and must be a public one; a webhook is asked nothing now."""
        said = read(EndpointBody, request.data)
        wanted = EndpointRequest(
            kind=said["kind"],
            name=said["name"],
            address=said["address"],
            hears=frozenset(said.get("hears", ())),
            whole_tenant=said["whole_tenant"],
            digest=said["digest"],
        )
        outcome = endpoint_add(actor=self.actor, wanted=wanted)
        return answer(outcome, lambda: self._shown(outcome), status=201)

    def _shown(self, outcome: object) -> object:
        if not isinstance(outcome, EndpointAdded):
            raise TypeError(f"{outcome}")
        return EndpointRecord(access_endpoint(actor=self.actor, id=outcome.endpoint_id)).data


class EndpointRemoval(ApiView):
    """The end of an endpoint."""

    @operation("endpoints_remove", EndpointRecord, can=(403, 404, 409))
    def post(self, request: Request, id: UUID) -> Response:
        """Tell it nothing any more. Needs the permission to notify where it is the tenant's."""
        outcome = endpoint_drop(actor=self.actor, endpoint_id=id)
        return answer(outcome, lambda: EndpointRecord(access_endpoint(actor=self.actor, id=id)).data)


class Notices(ApiView):
    """What these endpoints were told, or are to be told."""

    @operation("notices_list", paged(NoticeRecord), query=NoticeQuery, can=())
    def get(self, request: Request) -> Response:
        """The newest first."""
        query = read(NoticeQuery, request.query_params)
        rows = notices_visible(self.actor)
        if "status" in query:
            rows = rows.filter(status__in=query["status"])
        return self.page("notices", rows, NEWEST_FIRST, query, NoticeRecord)
