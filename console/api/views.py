"""Saved views of lists over HTTP: one's own, and those that others share."""

from uuid import UUID

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.api import refused_response
from accounts.errors import Refused
from accounts.selectors import access_view, views_visible
from accounts.services import view_remove, view_save
from console.api.paging import Order, PageQuery
from console.api.parsing import Strict, Text, read
from console.api.view import ApiView, operation, paged
from console.pages.lists.views import ALL, address_of
from console.records.views import ViewRecord

NEWEST_FIRST = Order(("created_at", "id"))


class ViewQuery(PageQuery):
    """Filters of the saved views."""

    listed = serializers.ChoiceField(choices=sorted(ALL), required=False)


class ViewBody(Strict):
    """Which list, its address (`status=HELD&sort=oldest`), what the view is called, and whether others see it."""

    listed = serializers.ChoiceField(choices=sorted(ALL))
    query = Text(default="")
    name = Text()
    shared = serializers.BooleanField(default=False)


class ViewGoes(Strict):
    """What the view is called, as it was seen."""

    name = Text()


class Views(ApiView):
    """The saved views that one may use."""

    @operation("views_list", paged(ViewRecord), query=ViewQuery, can=())
    def get(self, request: Request) -> Response:
        """The newest first."""
        query = read(ViewQuery, request.query_params)
        rows = views_visible(self.actor)
        if "listed" in query:
            rows = rows.filter(listed=query["listed"])
        return self.page("views", rows, NEWEST_FIRST, query, ViewRecord)

    @operation("views_save", ViewRecord, body=ViewBody, can=(403, 409), statuses=(201,))
    def post(self, request: Request) -> Response:
        """Keep a view. What it shows later is what holds then, and what the reader may see."""
        said = read(ViewBody, request.data)
        query = address_of(self.actor, ALL[said["listed"]], said["query"])
        outcome = view_save(
            actor=self.actor, listed=said["listed"], name=said["name"], query=query, shared=said["shared"]
        )
        if isinstance(outcome, Refused):
            return refused_response(outcome)
        return Response(ViewRecord(access_view(actor=self.actor, id=outcome.id)).data, status=201)


class ViewRemoval(ApiView):
    """The end of a saved view."""

    @operation("views_remove", ViewRecord, body=ViewGoes, can=(403, 404))
    def post(self, request: Request, id: UUID) -> Response:
        """Let it go: one's own, or a shared one with the permission to govern."""
        record = ViewRecord(access_view(actor=self.actor, id=id)).data
        outcome = view_remove(actor=self.actor, id=id, name=read(ViewGoes, request.data)["name"])
        return refused_response(outcome) if isinstance(outcome, Refused) else Response(record)
