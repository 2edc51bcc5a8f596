"""Stops and pauses of a tenant, an agent or a thread, over HTTP."""

from typing import Any
from uuid import UUID

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.errors import Refused
from accounts.states import Actor
from console.api.lists import narrowed
from console.api.paging import Order, PageQuery
from console.api.parsing import ReasonBody, Strict, StrictJSONParser, Text, read
from console.api.view import ApiView, answer, operation, paged
from console.lists.scopes import SCOPES
from console.records.scopes import ScopeControlDetail, ScopeControlRecord, ScopeForecast, scope_forecast
from runs.selectors import access_scope_control
from runs.states import ControlKind, ScopeKind, ScopeStatus
from runtime.services import ScopeState, named_scope, scope_abort_on, scope_end, scope_pause, scope_stop

NEWEST_FIRST = Order(("accepted_at", "id"))
ACTS = ("stop", "abort", "pause")


class ScopeQuery(PageQuery):
    """Filters of the list of acts on scopes, as its page takes them. `person` asked for it; `since` and `until` are a day, a moment or
    so long ago (`12 h`).
    """

    status = serializers.ListField(child=serializers.ChoiceField(choices=list(ScopeStatus)), required=False)
    kind = serializers.ListField(child=serializers.ChoiceField(choices=list(ControlKind)), required=False)
    scope = serializers.ListField(child=serializers.ChoiceField(choices=list(ScopeKind)), required=False)
    agent = Text(required=False)
    thread = Text(required=False)
    person = Text(required=False)
    since = Text(required=False)
    until = Text(required=False)


class NamedScope(Strict):
    """A scope: TENANT by nothing, AGENT by its key in `of`, THREAD by its id in `of`."""

    scope = serializers.ChoiceField(choices=list(ScopeKind))
    of = Text(default="")

    def validate(self, said: dict[str, Any]) -> dict[str, Any]:
        if said["scope"] == ScopeKind.TENANT and said["of"]:
            raise serializers.ValidationError({"of": ["A tenant is named by nothing."]})
        return said


class ScopeBody(NamedScope):
    """What is done to a scope, and why. `abort` is a stop that does not wait for what is on the wire."""

    act = serializers.ChoiceField(choices=ACTS)
    reason = Text()


def shown_scope(actor: Actor, id: UUID) -> dict[str, Any]:
    """An act on a scope as it is now. Raises NotFound."""
    return ScopeControlDetail(access_scope_control(actor=actor, id=id)).data


class Scopes(ApiView):
    """Stops and pauses of more than one run."""

    parser_classes = (StrictJSONParser,)

    @operation("scopes_list", paged(ScopeControlRecord), query=ScopeQuery, can=())
    def get(self, request: Request) -> Response:
        """The newest first; `status=STANDING` are those that stand."""
        query = read(ScopeQuery, request.query_params)
        return self.page("scopes", narrowed(SCOPES, self.actor, query), NEWEST_FIRST, query, ScopeControlRecord)

    @operation("scopes_act", ScopeControlDetail, body=ScopeBody, can=(403, 404, 409), statuses=(200, 201))
    def post(self, request: Request) -> Response:
        """Stop, abort or pause a scope. It stands until it is lifted; asking again answers with the act that stands."""
        said = read(ScopeBody, request.data)
        scope = named_scope(actor=self.actor, kind=ScopeKind(said["scope"]), of=said["of"])
        outcome: ScopeState | Refused
        if said["act"] == "pause":
            outcome = scope_pause(actor=self.actor, scope=scope, reason=said["reason"])
        else:
            outcome = scope_stop(actor=self.actor, scope=scope, reason=said["reason"], aborts=said["act"] == "abort")
        if isinstance(outcome, Refused):
            return answer(outcome, dict)
        control_id, new = outcome.control_id, outcome.new
        return answer(outcome, lambda: shown_scope(self.actor, control_id), 201 if new else 200)


class ScopePreview(ApiView):
    """What an act on a scope would meet."""

    @operation("scopes_preview", ScopeForecast, query=NamedScope)
    def get(self, request: Request) -> Response:
        """What lives in a scope now: its runs, what is on the wire, what waits, what is not sent yet. Nothing is written."""
        named = read(NamedScope, request.query_params)
        scope = named_scope(actor=self.actor, kind=ScopeKind(named["scope"]), of=named["of"])
        return Response(ScopeForecast(scope_forecast(self.actor, scope)).data)


class OneScope(ApiView):
    """One act on a scope."""

    @operation("scopes_show", ScopeControlDetail)
    def get(self, request: Request, id: UUID) -> Response:
        """The act, and how far it has got."""
        return Response(shown_scope(self.actor, id))


class ScopeAbort(ApiView):
    """The end of waiting."""

    parser_classes = (StrictJSONParser,)

    @operation("scopes_abort", ScopeControlDetail, body=ReasonBody, can=(403, 404, 409))
    def post(self, request: Request, id: UUID) -> Response:
        """Have a stop that stands not wait for what is on the wire: it is UNCERTAIN from then on. It may still happen."""
        outcome = scope_abort_on(actor=self.actor, control_id=id, **read(ReasonBody, request.data))
        return answer(outcome, lambda: shown_scope(self.actor, id))


class ScopeLift(ApiView):
    """The end of an act on a scope."""

    parser_classes = (StrictJSONParser,)

    @operation("scopes_lift", ScopeControlDetail, body=ReasonBody, can=(403, 404, 409))
    def post(self, request: Request, id: UUID) -> Response:
        """Lift a stop or a pause. What was stopped stays so; runs are started there again. What was paused goes on."""
        outcome = scope_end(actor=self.actor, control_id=id, **read(ReasonBody, request.data))
        return answer(outcome, lambda: shown_scope(self.actor, id))
