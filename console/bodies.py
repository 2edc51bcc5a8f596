"""How much one request may bring. Django writes a whole body to disk before anybody is asked who sent it."""

import json
from collections.abc import Awaitable, Callable
from http import HTTPStatus

from asgiref.typing import (
    ASGIReceiveCallable,
    ASGIReceiveEvent,
    ASGISendCallable,
    HTTPDisconnectEvent,
    HTTPScope,
    Scope,
)

from accounts.api import PROBLEM_TYPE, problem

MAX_BODY_BYTES = 64 * 1024 * 1024  # several inputs of a run, each as big as one may be
SAY = f"Nothing was stored. What was sent has more than {MAX_BODY_BYTES // (1024 * 1024)} MiB, and no more is taken at once."
_API = "/api/"


class BoundedBodies:
    """ASGI middleware: what is larger than MAX_BODY_BYTES reaches nothing and nobody. It is let run out unread, so that whoever
    sends it hears why.
    """

    def __init__(self, application: Callable[..., Awaitable[None]]) -> None:
        self.application = application

    async def __call__(self, scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        if scope["type"] != "http":
            await self.application(scope, receive, send)
            return
        body = _Body(receive)
        if _declared(scope) > MAX_BODY_BYTES:
            body.over = True
        else:
            await self.application(scope, body.receive, send)
        if body.over:
            await body.run_out()
            await _refuse(scope, send)


class _Body:
    """The body of one request as it comes in."""

    def __init__(self, receive: ASGIReceiveCallable) -> None:
        self._receive = receive
        self._size = 0
        self._more = True
        self.over = False

    async def receive(self) -> ASGIReceiveEvent:
        """The next piece; once it is too much, as if the other side had gone."""
        event = await self._next()
        if self._size <= MAX_BODY_BYTES:
            return event
        self.over = True
        return HTTPDisconnectEvent(type="http.disconnect")

    async def run_out(self) -> None:
        """Read what is left, and keep none of it."""
        while self._more:
            await self._next()

    async def _next(self) -> ASGIReceiveEvent:
        event = await self._receive()
        if event["type"] == "http.request":
            self._size += len(event["body"])
            self._more = event.get("more_body", False)
        else:
            self._more = False
        return event


def _declared(scope: HTTPScope) -> int:
    """The length that the headers name; 0 where they name none."""
    lengths = [value for name, value in scope["headers"] if name == b"content-length"]
    return int(lengths[0]) if lengths and lengths[0].isdigit() else 0


async def _refuse(scope: HTTPScope, send: ASGISendCallable) -> None:
    status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    if scope["path"].startswith(_API):
        refused = problem(status, "BODY_TOO_BIG", SAY, {"limit": MAX_BODY_BYTES})
        said, media_type = json.dumps(refused.data), PROBLEM_TYPE
    else:  # the form of a new run shows it in its place
        said, media_type = f'<p class="notice is-stop" role="alert">{SAY}</p>', "text/html; charset=utf-8"
    body = said.encode()
    headers = {
        "content-type": media_type,
        "content-length": str(len(body)),
        "cache-control": "no-store",
        "content-security-policy": "default-src 'none'",
        "x-content-type-options": "nosniff",
        "hx-reswap": "innerHTML",
    }
    await send(
        {
            "type": "http.response.start",
            "status": status,
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
            "trailers": False,
        }
    )
    await send({"type": "http.response.body", "body": body, "more_body": False})
