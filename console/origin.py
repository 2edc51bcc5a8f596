"""WebSockets are opened from our own pages only: browsers send cookies along from every page."""

from urllib.parse import urlsplit

from asgiref.typing import ASGI3Application, ASGIReceiveCallable, ASGISendCallable, Scope, WebSocketScope
from channels.security.websocket import WebsocketDenier
from django.conf import settings
from django.http.request import split_domain_port, validate_host

_PAGE_SCHEMES = {"ws": "http", "wss": "https"}
_DEFAULT_PORTS = {"http": 80, "https": 443}


class SameOrigin:
    """ASGI middleware: lets a socket through when its Origin is this very site, or one of CSRF_TRUSTED_ORIGINS."""

    def __init__(self, application: ASGI3Application) -> None:
        self.application = application

    async def __call__(self, scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        is_ours = scope["type"] == "websocket" and _is_allowed(scope)
        application = self.application if is_ours else WebsocketDenier()
        await application(scope, receive, send)


def _is_allowed(scope: WebSocketScope) -> bool:
    headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
    origin, host = headers.get(b"origin", ""), headers.get(b"host", "")
    if origin in settings.CSRF_TRUSTED_ORIGINS:
        return True
    domain, _ = split_domain_port(host)
    if not validate_host(domain, settings.ALLOWED_HOSTS):
        return False
    scheme = _page_scheme(scope["scheme"], headers)
    return _place(origin) is not None and _place(origin) == _place(f"{scheme}://{host}")


def _page_scheme(socket_scheme: str, headers: dict[bytes, str]) -> str:
    """The scheme of our pages as Django sees it: behind a proxy that ends TLS, by the header the settings name."""
    if settings.SECURE_PROXY_SSL_HEADER:
        name, secure_value = settings.SECURE_PROXY_SSL_HEADER
        sent = headers.get(name.removeprefix("HTTP_").replace("_", "-").lower().encode())
        if sent is not None:
            return "https" if sent.split(",")[0].strip() == secure_value else "http"
    return _PAGE_SCHEMES[socket_scheme]


def _place(origin: str) -> tuple[str, str, int] | None:
    """Scheme, host and port of an origin; None for one that is none ("null", say)."""
    try:
        parts = urlsplit(origin)
        port = parts.port or _DEFAULT_PORTS[parts.scheme]
    except (ValueError, KeyError):
        return None
    return (parts.scheme, parts.hostname, port) if parts.hostname else None
