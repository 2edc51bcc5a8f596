"""The HTTP side: routes, and the ways of misbehaving."""

import json
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from outside import control, pages
from outside.evidence import search
from outside.sheet import look_up
from outside.store import TARGETS, Store, Switch

MAX_BODY = 2 * 1024 * 1024
Answer = tuple[int, dict[str, Any]]


class Refused(Exception):
    """The request is answered with this status and reason; nothing was executed."""

    def __init__(self, status: int, reason: str) -> None:
        self.status = status
        self.reason = reason
        super().__init__(reason)


class Holding:
    """Requests that are made to wait. They go on when their time is over or when the switches are set anew."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._generation = 0
        self._held = dict.fromkeys(TARGETS, 0)

    def hold(self, target: str, seconds: float) -> None:
        with self._changed:
            generation = self._generation
            self._held[target] += 1
            self._changed.wait_for(lambda: self._generation != generation, seconds)
            self._held[target] -= 1

    def release(self) -> None:
        with self._changed:
            self._generation += 1
            self._changed.notify_all()

    def held(self) -> dict[str, int]:
        with self._changed:
            return dict(self._held)


class OutsideServer(ThreadingHTTPServer):
    """The server with its store. A thread per request; threads that hang do not keep it from ending."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, host: str, port: int, store: Path) -> None:
        self.store = Store(store)
        self.holding = Holding()
        super().__init__((host, port), OutsideHandler)

    @property
    def url(self) -> str:
        host, port = self.server_address[:2]
        return f"http://{host!s}:{port}"


class OutsideHandler(BaseHTTPRequestHandler):
    """One request."""

    server: OutsideServer
    protocol_version = "HTTP/1.1"
    timeout = 60

    def do_GET(self) -> None:
        self._route(
            {
                "/": self._home,
                "/style.css": lambda: self._send(200, "text/css", pages.STYLE),
                "/reference": self._reference,
                "/evidence": self._evidence,
                "/wiki/posts": self._look_up,
                "/control": lambda: self._json(200, self.server.store.state()),
                "/counts": self._counts,
            },
            {"/wiki/pages/": self._page},
        )

    def do_POST(self) -> None:
        self._route({"/wiki/posts": self._post, "/control": self._control}, {})

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet: the counts say what happened."""

    def _route(self, exact: dict[str, Callable[[], None]], prefixes: dict[str, Callable[[str], None]]) -> None:
        path = urlsplit(self.path).path
        try:
            self._found(path, exact, prefixes)()
        except Refused as refused:
            self.close_connection = True
            self._json(refused.status, {"reason": refused.reason, "executed": False})

    def _found(
        self, path: str, exact: dict[str, Callable[[], None]], prefixes: dict[str, Callable[[str], None]]
    ) -> Callable[[], None]:
        if path in exact:
            return exact[path]
        for prefix, page in prefixes.items():
            if path.startswith(prefix):
                return partial(page, unquote(path.removeprefix(prefix)))
        raise Refused(404, "There is no such page.")

    # ── the sheet, the evidence collection and the wiki ──

    def _reference(self) -> None:
        key = self.headers.get("Idempotency-Key", "")
        lines = self._query().get("lines", [])

        def read() -> Answer:
            total = self.server.store.record_reading(key, lines)
            return 200, {"answers": [look_up(line) for line in lines], "read": total}

        self._misbehave("reference", key, read)

    def _evidence(self) -> None:
        key = self.headers.get("Idempotency-Key", "")
        query = self._query().get("q", [""])[0].strip()
        if not query:
            raise Refused(400, "A search needs words: q is empty.")

        def find() -> Answer:
            total = self.server.store.record_search(key, query)
            return 200, {"query": query, "passages": [asdict(found) for found in search(query)], "searched": total}

        self._misbehave("evidence", key, find)

    def _post(self) -> None:
        key = self.headers.get("Idempotency-Key", "").strip()
        posted = self._object(self._body())
        title, body = posted.get("title"), posted.get("body")
        if not key:
            raise Refused(400, "The header Idempotency-Key is missing.")
        if not (isinstance(title, str) and title.strip() and isinstance(body, str)):
            raise Refused(400, "A post needs a title and a body.")

        def execute() -> Answer:
            store = self.server.store
            post = store.execute_post(key, title, body, store.option("deduplicate"))
            return 201, {"id": f"post-{post.id}", "page": post.page, "executions": store.executions(key)}

        self._misbehave("wiki", key, execute)

    def _look_up(self) -> None:
        if not self.server.store.option("lookup"):
            raise Refused(404, "This wiki can't be asked for a key.")
        key = self._query().get("key", [""])[0]
        posts = self.server.store.posts(key=key)
        found = {"id": f"post-{posts[0].id}", "page": posts[0].page} if posts else {}
        self._json(200, {"key": key, "executions": len(posts), **found})

    def _misbehave(self, target: str, key: str, execute: Callable[[], Answer]) -> None:
        switch = self.server.store.take_switch(target, key)
        if switch.mode == "refuse":
            raise Refused(403, "Refused, as it was told to. Nothing was executed.")
        if switch.mode == "busy":
            raise Refused(503, "Busy, as it was told to. Nothing was executed.")
        if switch.mode == "drop":
            self._drop(switch, execute)
        elif switch.mode == "gateway":
            self._gateway(switch, execute)
        elif switch.mode == "hang":
            self._hang(target, switch, execute)
        else:
            if switch.mode == "twice":
                execute()
            self._json(*execute())

    def _drop(self, switch: Switch, execute: Callable[[], Answer]) -> None:
        if switch.execute_when == "before":
            execute()
        self._cut()
        if switch.execute_when == "after":
            execute()

    def _gateway(self, switch: Switch, execute: Callable[[], Answer]) -> None:
        """What a proxy answers for a backend that ended while it worked: not its words, and nothing of what it did."""
        if switch.execute_when == "before":
            execute()
        self._send(503, "text/plain", "upstream connect error or disconnect/reset before headers")

    def _hang(self, target: str, switch: Switch, execute: Callable[[], Answer]) -> None:
        answer = execute() if switch.execute_when == "before" else None
        self.server.holding.hold(target, switch.hang_seconds)
        if switch.execute_when == "after":
            answer = execute()
        if answer is None:
            self._cut()
        else:
            self._json(*answer)

    def _cut(self) -> None:
        """End the connection without an answer."""
        self.close_connection = True
        with suppress(OSError):  # the other side may have gone already
            self.connection.shutdown(socket.SHUT_RDWR)

    # ── control and pages ──

    def _counts(self) -> None:
        self._json(200, self.server.store.counts() | {"held": self.server.holding.held()})

    def _control(self) -> None:
        form = self.headers.get("Content-Type", "").startswith("application/x-www-form-urlencoded")
        body = self._body()
        origin = self.headers.get("Origin")
        if origin and origin.partition("://")[2] != self.headers.get("Host"):
            raise Refused(403, "This was sent from another site.")
        wanted = _from_form(body.decode("utf-8", "replace")) if form else self._object(body)
        try:
            control.apply(self.server.store, wanted)
        except control.ControlRefused as refused:
            raise Refused(400, str(refused)) from refused
        self.server.holding.release()
        if form:
            self._send(303, "text/plain", "", {"Location": "/"})
        else:
            self._json(200, self.server.store.state())

    def _home(self) -> None:
        store = self.server.store
        self._send(200, "text/html", pages.home(store.counts(), store.state(), store.posts()))

    def _page(self, page: str) -> None:
        posts = self.server.store.posts(page=page)
        if not posts:
            raise Refused(404, "The wiki has no such page.")
        self._send(200, "text/html", pages.wiki_page(posts))

    # ── bytes ──

    def _query(self) -> dict[str, list[str]]:
        return parse_qs(urlsplit(self.path).query)

    def _body(self) -> bytes:
        length = self.headers.get("Content-Length", "")
        if not length.isdigit():
            raise Refused(411, "The header Content-Length is missing.")
        if int(length) > MAX_BODY:
            raise Refused(413, f"A body has at most {MAX_BODY} bytes.")
        return self.rfile.read(int(length))

    def _object(self, body: bytes) -> dict[str, Any]:
        try:
            value = json.loads(body)
        except ValueError as error:
            raise Refused(400, f"The body is not JSON: {error}.") from error
        if not isinstance(value, dict):
            raise Refused(400, "The body is not a JSON object.")
        return value

    def _json(self, status: int, value: dict[str, Any]) -> None:
        self._send(status, "application/json", json.dumps(value, ensure_ascii=False))

    def _send(self, status: int, kind: str, text: str, headers: dict[str, str] | None = None) -> None:
        body = text.encode()
        policy = "default-src 'none'; style-src 'self'; img-src data:; form-action 'self'; base-uri 'none'"
        all_headers = {"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", **(headers or {})}
        try:
            self.send_response(status)
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            for name, value in all_headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True  # the other side gave up waiting; what was executed is counted


def _from_form(text: str) -> dict[str, Any]:
    """The settings of one of the two forms: unchecked boxes are not sent, and an empty number means all."""
    fields = {name: values[-1] for name, values in parse_qs(text, keep_blank_values=True).items()}
    if "options" in fields:
        return {name: name in fields for name in ("deduplicate", "lookup")}
    wanted: dict[str, Any] = {name: fields[name] for name in ("for", "mode") if name in fields}
    try:
        wanted["times"] = int(fields["times"]) if fields.get("times") else None
        wanted["hang_seconds"] = float(fields.get("hang_seconds") or 30)
    except ValueError as error:
        raise Refused(400, "A number was expected.") from error
    return wanted
