"""A WebSocket is opened from our own pages only."""

import asyncio
from typing import Any

import pytest
from django.test import override_settings

from console.origin import SameOrigin

# A refused socket closes the old database connections of its thread, where there are any.
pytestmark = pytest.mark.django_db

Headers = dict[str, str]


def is_let_through(headers: Headers, scheme: str = "ws") -> bool:
    """Whether the application behind the middleware was reached; if not, the socket must have been closed."""
    reached: list[str] = []
    sent: list[dict[str, Any]] = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        reached.append(scope["path"])

    messages = iter(({"type": "websocket.connect"}, {"type": "websocket.disconnect", "code": 1006}))

    async def receive() -> dict[str, Any]:
        return next(messages)

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    pairs = [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()]
    scope: Any = {"type": "websocket", "path": "/live/", "scheme": scheme, "headers": pairs}
    middleware: Any = SameOrigin(application)
    asyncio.run(middleware(scope, receive, send))
    assert reached or [message["type"] for message in sent] == ["websocket.close"]
    return bool(reached)


@pytest.mark.parametrize(
    ("headers", "scheme"),
    [
        ({"Host": "localhost:8000", "Origin": "http://localhost:8000"}, "ws"),
        ({"Host": "127.0.0.1", "Origin": "http://127.0.0.1"}, "ws"),
        ({"Host": "127.0.0.1", "Origin": "http://127.0.0.1:80"}, "ws"),
        ({"Host": "localhost", "Origin": "https://localhost"}, "wss"),
        ({"Host": "[::1]:8000", "Origin": "http://[::1]:8000"}, "ws"),
    ],
)
def test_our_own_pages_open_sockets(headers: Headers, scheme: str) -> None:
    with override_settings(ALLOWED_HOSTS=["localhost", "127.0.0.1", "[::1]"]):
        assert is_let_through(headers, scheme)


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "localhost:8000"},
        {"Host": "localhost:8000", "Origin": "null"},
        {"Host": "localhost:8000", "Origin": "http://localhost:9000"},
        {"Host": "localhost:8000", "Origin": "http://localhost"},
        {"Host": "localhost:8000", "Origin": "https://localhost:8000"},
        {"Host": "localhost:8000", "Origin": "http://evil.example"},
        {"Host": "localhost:8000", "Origin": "http://localhost:8000.evil.example"},
        {"Host": "localhost:8000", "Origin": "http://localhost:99999"},
        {"Host": "localhost:8000", "Origin": "//localhost:8000"},
        {"Host": "evil.example", "Origin": "http://evil.example"},
        {"Host": "", "Origin": ""},
    ],
)
def test_other_pages_do_not(headers: Headers) -> None:
    with override_settings(ALLOWED_HOSTS=["localhost", "127.0.0.1"]):
        assert not is_let_through(headers)


def test_a_trusted_origin_may() -> None:
    with override_settings(ALLOWED_HOSTS=["box.example"], CSRF_TRUSTED_ORIGINS=["https://desk.example"]):
        assert is_let_through({"Host": "box.example", "Origin": "https://desk.example"}, "wss")
        assert not is_let_through({"Host": "box.example", "Origin": "http://desk.example"}, "wss")


def test_behind_a_proxy_the_page_is_where_the_proxy_says() -> None:
    proxied = {"Host": "box.example", "Origin": "https://box.example", "X-Forwarded-Proto": "https"}
    header = ("HTTP_X_FORWARDED_PROTO", "https")
    with override_settings(ALLOWED_HOSTS=["box.example"], SECURE_PROXY_SSL_HEADER=header):
        assert is_let_through(proxied)
        assert not is_let_through({**proxied, "X-Forwarded-Proto": "http"})
    with override_settings(ALLOWED_HOSTS=["box.example"], SECURE_PROXY_SSL_HEADER=None):
        assert not is_let_through(proxied)
