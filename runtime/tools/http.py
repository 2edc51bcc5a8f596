"""One HTTP request of a tool, and what its answer proves. No retries, no redirects, no proxies of the surroundings."""

import json
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self

import httpx

from runs.faults import reach
from runtime.contracts import ToolContext, ToolFailed, ToolRefused, ToolRetryable, ToolUnknown
from runtime.retry_after import retry_after

MAX_ANSWER_BYTES = 1024 * 1024
SAID = 200


@dataclass(frozen=True)
class Answer:
    """A complete answer: its status, its body, and the seconds that it asked us to wait, where it did."""

    status: int
    body: bytes
    retry_after: float | None = None

    def object(self) -> dict[str, Any]:
        """The body as a JSON object. Raises ToolUnknown if it is none: sent, and the answer says nothing."""
        try:
            value = json.loads(self.body)
        except ValueError as error:
            raise ToolUnknown(f"The answer ({self.status}) is not JSON.") from error
        if not isinstance(value, dict):
            raise ToolUnknown(f"The answer ({self.status}) is not a JSON object.")
        return value

    def said(self) -> str:
        """What the other side gave as its reason, for a person."""
        return self.body[:SAID].decode("utf-8", "replace").strip() or "no reason given"


Params = dict[str, str | list[str]]


def send(
    context: ToolContext,
    method: str,
    path: str,
    *,
    body: bytes | None = None,
    params: Params | None = None,
    authorization: str | None = None,
) -> Answer:
    """Send one request with the call's idempotency key and read its whole answer within the call's time limit.

    `authorization` is the value of that header, with what `context.secret` gave.

    Raises ToolFailed if no address is set, ToolRetryable if the connection could not be opened or the run was lost before the
    request left (so nothing was sent), and ToolUnknown for everything that goes wrong later.
    """
    if not context.outside_url:
        raise ToolFailed("No outside address is set (SIGNALBOX_OUTSIDE_URL). Nothing was sent.")
    headers = {"Idempotency-Key": context.idempotency_key, "Accept": "application/json"}
    if body is not None:
        headers["Content-Type"] = "application/json"
    if authorization is not None:
        headers["Authorization"] = authorization
    url = context.outside_url.rstrip("/") + path
    limit = _Limit(context.timeout_seconds)
    try:
        with (
            limit,
            httpx.Client(timeout=context.timeout_seconds, trust_env=False, follow_redirects=False) as client,
            client.stream(
                method, url, params=params, content=body, headers=headers, extensions={"trace": _seams(context, limit)}
            ) as response,
        ):
            return Answer(response.status_code, _read(response), retry_after(response.headers))
    except (httpx.ConnectError, httpx.ConnectTimeout) as error:
        raise ToolRetryable(f"No connection to {url}: {error}. Nothing was sent.") from error
    except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
        raise ToolFailed(f"{url} is not an address: {error}. Nothing was sent.") from error
    except httpx.HTTPError as error:
        if limit.passed or isinstance(error, httpx.TimeoutException):
            raise ToolUnknown(f"Sent, but no complete answer within {context.timeout_seconds:g} s.") from error
        raise ToolUnknown(f"Sent, but the connection ended without an answer ({type(error).__name__}).") from error


class _Limit:
    """Ends a connection when the time for the whole answer is over: a timeout of the client starts anew with every piece.

    What has arrived until then can still be read. So a process that was frozen with a complete answer at hand knows what
    happened, however late it is (T38).
    """

    def __init__(self, seconds: float) -> None:
        self.passed = False
        self._connection: socket.socket | None = None
        self._timer = threading.Timer(seconds, self._end)
        self._timer.daemon = True

    def holds_for(self, connection: socket.socket) -> None:
        """The connection that is open now; TLS puts another one in its place."""
        self._connection = connection
        if self.passed:
            self._end()

    def _end(self) -> None:
        self.passed = True
        if self._connection is not None:
            with suppress(OSError):  # it has ended by itself
                socket.socket.shutdown(
                    self._connection, socket.SHUT_RDWR
                )  # as of a plain one: TLS would drop what it holds

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()


def _seams(context: ToolContext, limit: _Limit) -> Callable[[str, dict[str, Any]], None]:
    """What is asked and told between opening a connection and the answer."""

    def seam(event: str, info: dict[str, Any]) -> None:
        if event in ("connection.connect_tcp.complete", "connection.start_tls.complete"):
            limit.holds_for(info["return_value"].get_extra_info("socket"))
        elif event == "http11.send_request_headers.started":
            reach("before_send")
            context.about_to_send()
        elif event == "http11.send_request_body.complete":
            reach("after_send")

    return seam


def _read(response: httpx.Response) -> bytes:
    """The whole body. Raises ToolUnknown if it is too long."""
    body = bytearray()
    for piece in response.iter_bytes():
        body += piece
        if len(body) > MAX_ANSWER_BYTES:
            raise ToolUnknown(f"The answer is longer than {MAX_ANSWER_BYTES} bytes.")
    return bytes(body)


def says_not_executed(answer: Answer) -> bool:
    """True for a 503 in which the other side itself says that it executed nothing: a JSON object with `"executed": false`."""
    try:
        return answer.status == 503 and answer.object().get("executed") is False
    except ToolUnknown:
        return False


def refuse_unless_done(answer: Answer, *, reading: bool, not_done: Callable[[Answer], bool] = lambda _: False) -> None:
    """Turn an answer that isn't a 2xx into its typed outcome.

    429 says: not done now. 401 and 403 say: not for us. Any other 4xx says: not done. Anything else leaves open whether it was
    done, 503 too: what stands between us may answer it for a backend that has executed. `not_done` is how a tool tells a
    refusal that its other side makes before it executes (ADR 0063). A reading changes nothing, so there a 5xx may simply be
    asked again.
    """
    if 200 <= answer.status < 300:
        return
    said = f"{answer.status}: {answer.said()}"
    if answer.status == 429 or (reading and answer.status >= 500) or not_done(answer):
        raise ToolRetryable(f"The other side can't now ({said}).", retry_after=answer.retry_after)
    if answer.status in (401, 403):
        raise ToolRefused(f"The other side does not let us ({said}).")
    if 400 <= answer.status < 500:
        raise ToolFailed(f"The other side refused ({said}).")
    raise ToolUnknown(f"The answer does not say whether it was done ({said}).")
