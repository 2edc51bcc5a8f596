"""What every API view shares: bearer tokens, who is asking, and refusals as application/problem+json (RFC 9457)."""

from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any, cast

from django.core.exceptions import PermissionDenied, SuspiciousOperation
from django.db import InterfaceError, InternalError, OperationalError
from django.http import Http404
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from psycopg import errors
from rest_framework import serializers
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import (
    APIException,
    AuthenticationFailed,
    MethodNotAllowed,
    NotAcceptable,
    NotAuthenticated,
    ParseError,
    UnsupportedMediaType,
    ValidationError,
)
from rest_framework.exceptions import PermissionDenied as NotPermitted
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.codec import BodyChanged
from accounts.errors import Invalid, NotFound, Refused, TenantUnchosen
from accounts.models import ApiToken, User
from accounts.selectors import TENANT, actor_of, confirmed_at, membership_actor, token_by_digest
from accounts.services import token_digest
from accounts.states import Actor

PROBLEM_TYPE = "application/problem+json"
IDLE_IN_TRANSACTION = "25P03"
TENANT_HEADER = "Signalbox-Tenant"
CODES: dict[type[Exception], str] = {
    NotAuthenticated: "NOT_SIGNED_IN",
    AuthenticationFailed: "NOT_SIGNED_IN",
    NotPermitted: "FORBIDDEN",
    ParseError: "MALFORMED",
    MethodNotAllowed: "METHOD_NOT_ALLOWED",
    NotAcceptable: "NOT_ACCEPTABLE",
    UnsupportedMediaType: "UNSUPPORTED_MEDIA_TYPE",
}


class TokenAuthentication(BaseAuthentication):
    """`Authorization: Bearer TOKEN`. A token belongs to the membership of a person, and acts as that person."""

    # So nobody decides a wait or gives a verdict without a human identity: there are no tokens of machines.
    def authenticate(self, request: Request) -> tuple[User, ApiToken] | None:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            return None
        known = token_by_digest(token_digest(token.strip()))
        if known is None:
            raise AuthenticationFailed("This token is not known here, or it was revoked.")
        return known.membership.user, known

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


class TokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]  # its base class registers it
    """How the OpenAPI document describes tokens."""

    target_class = "accounts.api.TokenAuthentication"
    name = "token"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer"}


def request_actor(request: Request) -> Actor:
    """Who is asking, in which tenant: the membership of the token, or the signed-in person's in the tenant that the header names, or
    that was chosen on the session. Raises NotFound without a membership there, and ValidationError where a person of several
    tenants names none, or a token is used for another tenant than its own.

    A token has no password of its own, so nothing of it counts as given lately.
    """
    token, named = request.auth, request.headers.get(TENANT_HEADER)
    if isinstance(token, ApiToken):
        if named not in (None, token.membership.tenant.slug):
            raise ValidationError({TENANT_HEADER: f"This token belongs to {token.membership.tenant.slug}."})
        return membership_actor(membership=token.membership, username=token.membership.user.username, door="api")
    try:
        actor = actor_of(user=cast("User", request.user), door="api", tenant_slug=named or request.session.get(TENANT))
    except TenantUnchosen as several:
        raise ValidationError({TENANT_HEADER: f"Name the tenant that you act in: {several}."}) from several
    return replace(actor, confirmed_at=confirmed_at(request.session))


class Problem(serializers.Serializer[Any]):
    """Why nothing was done. `code` is stable; `detail` is the sentence for a person; `facts` are what it names."""

    type = serializers.CharField()
    title = serializers.CharField()
    status = serializers.IntegerField()
    code = serializers.CharField()
    detail = serializers.CharField()
    facts = serializers.DictField()


def problem(status: int, code: str, detail: str, facts: dict[str, Any] | None = None) -> Response:
    """A problem+json response."""
    body = {
        "type": f"urn:signalbox:problem:{code}",
        "title": code.replace("_", " ").capitalize(),
        "status": status,
        "code": code,
        "detail": detail,
        "facts": facts or {},
    }
    return Response(body, status=status, content_type=PROBLEM_TYPE)


def refused_response(refused: Refused) -> Response:
    """A service's refusal as problem+json."""
    return problem(refused.status, refused.code, refused.sentence, refused.facts)


def problem_response(error: Exception, context: dict[str, Any]) -> Response | None:
    """DRF's exception handler: what was raised, as problem+json. None for what is a fault of ours.

    A missing object and a foreign one give the same body.
    """
    if isinstance(error, NotFound | Http404):
        return problem(404, "NOT_FOUND", "There is nothing at this address.")
    if isinstance(error, ValidationError):
        return _invalid(error)
    if isinstance(error, PermissionDenied):
        return problem(403, "FORBIDDEN", "This is not permitted.")
    if isinstance(error, SuspiciousOperation):
        return problem(400, "MALFORMED", "The request could not be read.")
    return _of_framework(error) if isinstance(error, APIException) else _of_the_store(error)


def store_is_silent(error: Exception) -> bool:
    """Whether an error means that the store did not answer, or has ended a session that stood still inside a transaction.

    Then nothing of the transaction under way is known to be stored; asking again is right.
    """
    ended = isinstance(error, InternalError) and getattr(error.__cause__, "sqlstate", None) == IDLE_IN_TRANSACTION
    return ended or isinstance(error, OperationalError | InterfaceError)


@dataclass(frozen=True)
class Silence:
    """Why the store gave no answer: a stable code, what a person reads first, and what comes of it."""

    code: str
    head: str
    say: str


SILENT = Silence("DATABASE_SILENT", "The database does not answer", "")
SILENCES = {
    errors.DiskFull.sqlstate: Silence(
        "DATABASE_FULL",
        "The database has no room left",
        "It answers, and can store nothing until whoever runs this installation has made room on its disk.",
    ),
    errors.TooManyConnections.sqlstate: Silence(
        "DATABASE_CROWDED",
        "The database takes no more sessions",
        "All that it may have are taken. Whoever runs this installation can see by whom (pg_stat_activity).",
    ),
    errors.LockNotAvailable.sqlstate: Silence(
        "DATABASE_BUSY",
        "Somebody else keeps what this needs",
        "Another session of the database holds it for longer than it may be waited for.",
    ),
}


def silence_of(error: Exception) -> Silence:
    """Why the store gave no answer, for an error of which `store_is_silent` says that it means this."""
    return SILENCES.get(getattr(error.__cause__, "sqlstate", None) or "", SILENT)


def _of_the_store(error: Exception) -> Response | None:
    if store_is_silent(error):
        silence = silence_of(error)
        said = (f"{silence.head}.", silence.say, "Nothing that you sent is known to be stored.")
        return problem(503, silence.code, " ".join(part for part in said if part))
    if isinstance(error, BodyChanged):
        return problem(
            500, "BODY_CHANGED", "The stored bytes were changed after they were written, so they are not shown."
        )
    return None


def _of_framework(error: APIException) -> Response:
    code = CODES.get(type(error)) or HTTPStatus(error.status_code).name
    answer = problem(error.status_code, code, str(error.detail))
    sign_in = getattr(error, "auth_header", None)
    if sign_in:
        answer["WWW-Authenticate"] = sign_in
    return answer


def _invalid(error: ValidationError) -> Response:
    """The first field that does not fit as the sentence, all of them in the facts."""
    found = error.detail if isinstance(error.detail, dict) else {"body": error.detail}
    field, reason = _first(found)
    field = "body" if field == "non_field_errors" else field
    refused = Invalid({"field": field, "reason": reason})
    return problem(400, refused.code, refused.sentence, {"field": field, "reason": reason, "fields": found})


def _first(found: Any, path: str = "") -> tuple[str, str]:
    if isinstance(found, dict):
        key, inner = next(iter(found.items()))
        return _first(inner, f"{path}.{key}" if path else str(key))
    if isinstance(found, list) and found:
        return _first(found[0], path)
    return path, str(found)
