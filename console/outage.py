"""What a person reads when the store can't answer: the database is silent, stored bytes were changed, or nobody can store that."""

import logging
from collections.abc import Callable
from http import HTTPStatus
from threading import Lock, Thread
from typing import Any

from django.db import DataError, connection
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render

from accounts.api import silence_of, store_is_silent
from accounts.codec import BodyChanged
from console.uploads import UnreadablePart

logger = logging.getLogger(__name__)


class AnswerOutages:
    """Middleware: a page of its own for each of the three, instead of the one for a fault of ours."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        if response.status_code == HTTPStatus.SERVICE_UNAVAILABLE:
            sessions_renew(connection)
        return response

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        if store_is_silent(error):
            logger.error("the database does not answer %s: %s", request.path, error)
            context = {"silence": silence_of(error)}
            return render(request, "503.html", context, status=HTTPStatus.SERVICE_UNAVAILABLE)
        if isinstance(error, BodyChanged):
            logger.error("stored bytes behind %s were changed", request.path)
            return render(request, "changed.html", status=HTTPStatus.INTERNAL_SERVER_ERROR)
        if isinstance(error, DataError) and _holds_nul(request):
            return render(request, "400.html", status=HTTPStatus.BAD_REQUEST)
        return None


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """What the project answers to a request that can't be read (handler400); of a form it says which part."""
    place = str(exception) if isinstance(exception, UnreadablePart) else ""
    return render(request, "400.html", {"place": place}, status=HTTPStatus.BAD_REQUEST)


def sessions_renew(database: Any) -> Thread | None:
    """Have the pool look at the sessions that nobody uses, beside the request, and open others for those that are gone: else each
    one that a restart has ended would tell somebody that the database is silent, long after it is back. One look at a
    time; None where one is under way, or where there is no pool.
    """
    if database.pool is None or not _RENEWING.acquire(blocking=False):
        return None

    def look() -> None:
        try:
            database.pool.check()
        finally:
            _RENEWING.release()

    looking = Thread(target=look, name="sessions-renew", daemon=True)
    looking.start()
    return looking


_RENEWING = Lock()


def _holds_nul(request: HttpRequest) -> bool:
    """Whether an address or a form holds what PostgreSQL takes in no text."""
    return any("\0" in value for sent in (request.GET, request.POST) for _, values in sent.lists() for value in values)
