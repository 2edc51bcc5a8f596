"""What every view of the API does: who asks, what may be answered, and how the OpenAPI document says so."""

from collections.abc import Callable
from http import HTTPStatus
from threading import Lock
from typing import Any, ClassVar, TypeVar

from django.db.models import Model, QuerySet
from django.http import HttpResponse, HttpResponsePermanentRedirect
from django.http.response import HttpResponseBase
from django.urls import Resolver404, resolve
from django.utils.functional import cached_property
from django.utils.http import content_disposition_header
from drf_spectacular.utils import OpenApiResponse, extend_schema, inline_serializer
from drf_spectacular.views import SCHEMA_KWARGS, SpectacularJSONAPIView
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from accounts.api import PROBLEM_TYPE, Problem, refused_response, request_actor
from accounts.errors import NotFound, Refused
from accounts.states import Actor
from console.api.paging import Order, page_of
from console.api.parsing import Strict
from console.records import records_of

M = TypeVar("M", bound=Model)
Record = type[serializers.Serializer[Any]]
View = TypeVar("View", bound=Callable[..., HttpResponseBase])

REASONS = {
    400: "Something in the request does not fit; `facts` says what.",
    401: "Nobody is signed in, or the token is not good.",
    403: "The person may not do this.",
    404: "There is nothing at this address, for this person.",
    413: "An input is too big.",
    409: "Refused: the state does not allow it, or something was out of date. Nothing was changed.",
    429: "Too many wrong passwords were given; `facts` say when the next one may be given.",
}


class ApiView(APIView):
    """A view for signed-in members. Nothing that it answers may be cached."""

    @cached_property
    def actor(self) -> Actor:
        """Who is asking, in which tenant. Raises NotFound for a person without a membership."""
        return request_actor(self.request)

    def dispatch(self, request: Any, *args: Any, **kwargs: Any) -> HttpResponseBase:
        response: HttpResponseBase = super().dispatch(request, *args, **kwargs)
        response["Cache-Control"] = "no-store"
        return response

    def page(
        self,
        listed: str,
        rows: QuerySet[M],
        order: Order,
        query: dict[str, Any],
        record: Record,
        load: Callable[[list[M]], object] = list,
    ) -> Response:
        """One page of the list `listed`; `load` fetches what the records of its rows need."""
        shown, cursor = page_of(rows, order, query, listed=listed, tenant_id=self.actor.tenant_id)
        load(shown)
        return Response({"results": records_of(record, shown), "next": cursor})


def answer(outcome: Any | Refused, show: Callable[[], Any], status: int = HTTPStatus.OK) -> Response:
    """The response to an act: its refusal as a problem, or the record as it is afterwards."""
    if isinstance(outcome, Refused):
        return refused_response(outcome)
    return Response(show(), status=status)


def operation(
    name: str,
    shown: Any,
    *,
    body: Any = None,
    query: type[Strict] | None = None,
    can: tuple[int, ...] = (404,),
    statuses: tuple[int, ...] = (200,),
    media_type: str = "application/json",
    parameters: tuple[Any, ...] = (),
) -> Callable[[View], View]:
    """Describe a method for the OpenAPI document: its name, what it shows, what it takes, and how it can fail."""
    problems = {(code, PROBLEM_TYPE): OpenApiResponse(Problem, description=REASONS[code]) for code in (400, 401, *can)}
    described: Callable[[View], View] = extend_schema(
        operation_id=name,
        request=body,
        parameters=[*([query] if query else []), *parameters],
        responses={**{(status, media_type): shown for status in statuses}, **problems},
    )
    return described


def file_response(filename: str, data: bytes) -> HttpResponse:
    """A file as something to be saved, never shown: it came from a person, and may be anything."""
    response = HttpResponse(data, content_type="application/octet-stream")
    response["Content-Disposition"] = content_disposition_header(as_attachment=True, filename=filename)
    return response


def paged(record: Record) -> Any:
    """The shape of one page of records."""
    fields: dict[str, Any] = {"results": record(many=True), "next": serializers.CharField(allow_null=True)}
    return inline_serializer(name=record.__name__.removesuffix("Record") + "Page", fields=fields)


class Document(SpectacularJSONAPIView):
    """The OpenAPI document, written by one request at a time: the library loads what it knows while it writes the first one, and
    two that begin together trip over each other.
    """

    _writing: ClassVar = Lock()

    @extend_schema(**SCHEMA_KWARGS)
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        with self._writing:
            written: Response = super().get(request, *args, **kwargs)  # type: ignore[no-untyped-call]  # of the library
        return written


class Missing(ApiView):
    """Every address that is none of the API's. One that only lacks its last slash is led to the right one."""

    schema = None

    def dispatch(self, request: Any, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if not request.path.endswith("/") and _is_address(f"{request.path_info}/"):
            query = request.META["QUERY_STRING"]
            target = f"{request.path}/" + (f"?{query}" if query else "")
            return HttpResponsePermanentRedirect(target, preserve_request=True)
        return super().dispatch(request, *args, **kwargs)

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        raise NotFound


def _is_address(path: str) -> bool:
    try:
        return resolve(path).url_name != "missing"
    except Resolver404:
        return False
