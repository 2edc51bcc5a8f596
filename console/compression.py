"""What travels is compressed: pages, the API's answers, styles and scripts (ADR 0076)."""

from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import cast

from django.http import HttpRequest, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.middleware.gzip import GZipMiddleware

TEXTS = ("text/", "application/json", "application/problem+json", "image/svg+xml")


class CompressTexts(GZipMiddleware):
    """Django's GZipMiddleware, which adds random bytes so that a length says nothing of a secret (BREACH), for what gets smaller:
    texts. A part of a file is left as it is, since its place is counted in the bytes of the file.
    """

    def process_request(self, request: HttpRequest) -> None:
        """Take `W/` off what a browser has kept: a packed answer is marked so, and ServeStatic compares to the letter, where RFC 9110
        wants the two taken for the same.
        """
        if "HTTP_IF_NONE_MATCH" in request.META:
            request.META["HTTP_IF_NONE_MATCH"] = request.META["HTTP_IF_NONE_MATCH"].removeprefix("W/")

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        is_text = response.get("Content-Type", "").startswith(TEXTS)
        if not is_text or response.status_code == HTTPStatus.PARTIAL_CONTENT:
            return response
        if isinstance(response, StreamingHttpResponse) and response.is_async:
            response.streaming_content = _whole(cast("AsyncIterator[bytes]", response.streaming_content))
        return super().process_response(request, response)


async def _whole(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """A file in one piece. Django packs each piece of an asynchronous answer by itself, and a browser reads no further than the first."""
    yield b"".join([piece async for piece in pieces])
