"""Endpoints of notices over HTTP: list, add, remove; and what they were told."""

from typing import Any
from uuid import UUID

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.api import refused_response
from accounts.errors import Refused
from accounts.selectors import access_endpoint, endpoints_visible, notices_visible
from accounts.states import HEARD, Actor, EndpointKind, NoticeStatus
from console.api.paging import Order, PageQuery
from console.api.parsing import NoBody, ReasonBody, Strict, Text, Whole, read
from console.api.view import ApiView, answer, operation, paged
from console.records.endpoints import EndpointRecord, NoticeRecord, PurgedRecord
from runtime.services import (
    EndpointAdded,
    EndpointChange,
    EndpointRequest,
    endpoint_add,
    endpoint_drop,
    endpoint_edit,
    endpoint_go_on,
    endpoint_hold,
    endpoint_test,
    notices_retain,
)

NEWEST_FIRST = Order(("created_at", "id"))


class EndpointBody(Strict):
    """Where to hear of things. Without `hears` it is everything. Only mail can be a digest of what is of low risk."""

    kind = serializers.ChoiceField(choices=list(EndpointKind))
    name = Text()
    address = Text(help_text="stored encrypted, and never shown again")
    hears = serializers.ListField(child=serializers.ChoiceField(choices=HEARD), required=False)
    whole_tenant = serializers.BooleanField(default=False)
    digest = serializers.BooleanField(default=False)
    signed_with = Text(required=False, help_text="a secret by which a webhook can tell that a notice comes from here")


class EndpointChangeBody(Strict):
    """What is to be another; what is not named stays. `hears` without any is everything; `signed_with` null has nothing signed.
    `version`: the one that the person was reading; a later one is not written over.
    """

    name = Text(required=False)
    address = Text(required=False, help_text="stored encrypted, and never shown again")
    hears = serializers.ListField(child=serializers.ChoiceField(choices=HEARD), required=False)
    digest = serializers.BooleanField(required=False)
    signed_with = Text(required=False, allow_null=True)
    version = Whole(required=False)


class NoticeQuery(PageQuery):
    """Filters of the list of notices."""

    endpoint = serializers.UUIDField(required=False)

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
            signed_with=said.get("signed_with", ""),
        )
        outcome = endpoint_add(actor=self.actor, wanted=wanted)
        return answer(outcome, lambda: self._shown(outcome), status=201)

    def _shown(self, outcome: object) -> object:
        if not isinstance(outcome, EndpointAdded):
            raise TypeError(f"{outcome}")
        return EndpointRecord(access_endpoint(actor=self.actor, id=outcome.endpoint_id)).data


class OneEndpoint(ApiView):
    """One endpoint."""

    @operation("endpoints_show", EndpointRecord)
    def get(self, request: Request, id: UUID) -> Response:
        """What it is called, what it hears of, and whether it is paused."""
        return Response(_shown(self.actor, id))


class EndpointChanging(ApiView):
    """The change of an endpoint."""

    @operation("endpoints_change", EndpointRecord, body=EndpointChangeBody, can=(403, 404, 409))
    def post(self, request: Request, id: UUID) -> Response:
        """Change it. A new address is resolved and must be a public one. The same permissions as for adding it."""
        said = read(EndpointChangeBody, request.data)
        wanted = EndpointChange(
            name=said.get("name"),
            address=said.get("address"),
            signed_with=(said["signed_with"] or "") if "signed_with" in said else None,
            hears=frozenset(said["hears"]) if "hears" in said else None,
            digest=said.get("digest"),
            seen=said.get("version"),
        )
        outcome = endpoint_edit(actor=self.actor, endpoint_id=id, wanted=wanted)
        return answer(outcome, lambda: _shown(self.actor, id))


class EndpointPause(ApiView):
    """A pause of an endpoint."""

    @operation("endpoints_pause", EndpointRecord, can=(403, 404, 409))
    def post(self, request: Request, id: UUID) -> Response:
        """Tell it nothing until it is resumed; what happens meanwhile is not told later."""
        read(NoBody, request.data)
        return answer(endpoint_hold(actor=self.actor, endpoint_id=id), lambda: _shown(self.actor, id))


class EndpointResume(ApiView):
    """The end of a pause of an endpoint."""

    @operation("endpoints_resume", EndpointRecord, can=(403, 404, 409))
    def post(self, request: Request, id: UUID) -> Response:
        """Tell it again."""
        read(NoBody, request.data)
        return answer(endpoint_go_on(actor=self.actor, endpoint_id=id), lambda: _shown(self.actor, id))


class EndpointTest(ApiView):
    """A test of an endpoint."""

    @operation("endpoints_test", NoticeRecord, can=(403, 404, 409), statuses=(202,))
    def post(self, request: Request, id: UUID) -> Response:
        """Send it a test by the way that every notice takes, once. The list of notices says what came of it."""
        read(NoBody, request.data)
        outcome = endpoint_test(actor=self.actor, endpoint_id=id)
        if isinstance(outcome, Refused):
            return refused_response(outcome)
        return Response(NoticeRecord(notices_visible(self.actor).get(id=outcome.notice_id)).data, status=202)


def _shown(actor: Actor, id: UUID) -> Any:
    return EndpointRecord(access_endpoint(actor=actor, id=id)).data


class EndpointRemoval(ApiView):
    """The end of an endpoint."""

    @operation("endpoints_remove", EndpointRecord, can=(403, 404, 409))
    def post(self, request: Request, id: UUID) -> Response:
        """Tell it nothing any more. Needs the permission to notify where it is the tenant's."""
        read(NoBody, request.data)
        outcome = endpoint_drop(actor=self.actor, endpoint_id=id)
        return answer(outcome, lambda: EndpointRecord(access_endpoint(actor=self.actor, id=id)).data)


class Notices(ApiView):
    """What these endpoints were told, or are to be told."""

    @operation("notices_list", paged(NoticeRecord), query=NoticeQuery, can=())
    def get(self, request: Request) -> Response:
        """The newest first."""
        query = read(NoticeQuery, request.query_params)
        rows = notices_visible(self.actor)
        if "endpoint" in query:
            rows = rows.filter(endpoint_id=query["endpoint"])
        if "status" in query:
            rows = rows.filter(status__in=query["status"])
        return self.page("notices", rows, NEWEST_FIRST, query, NoticeRecord)


class NoticePurge(ApiView):
    """The end of what was told long ago."""

    @operation("notices_purge", PurgedRecord, body=ReasonBody, can=(403,))
    def post(self, request: Request) -> Response:
        """Delete for good what was told longer ago than this installation keeps it, of the whole tenant, and removed endpoints that
        have nothing left. What waits to be told stays.
        """
        outcome = notices_retain(actor=self.actor, reason=read(ReasonBody, request.data)["reason"])
        return answer(outcome, lambda: PurgedRecord(outcome).data)
