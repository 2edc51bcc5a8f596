"""A real web server that takes notices and behaves as it is told, and the mail server that takes mail."""

import json
import socketserver
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Receiver:
    """What was received. `answer` is the status of the next answers; `location` goes with a redirect; while `slow` is set
    the answer comes a byte at a time and never ends, until `end`; while `flood` is set it never ends either, as fast as it is read.
    """

    url: str
    answer: int = 200
    location: str = ""
    slow: bool = False
    flood: bool = False
    flooded: int = 0
    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    end: threading.Event = field(default_factory=threading.Event)

    def take(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers.get("Content-Length", 0)))
        self.bodies.append(json.loads(body))
        self.headers.append(dict(request.headers))
        if self.slow:
            self._drip(request)
            return
        if self.flood:
            self._pour(request)
            return
        request.send_response(self.answer)
        if self.location:
            request.send_header("Location", self.location)
        request.send_header("Content-Length", "0")
        request.end_headers()

    def _pour(self, request: BaseHTTPRequestHandler) -> None:
        """A body without an end. `flooded` is what went out of it."""
        try:
            request.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n")
            while not self.end.is_set():
                request.wfile.write(b"x" * 65536)
                self.flooded += 65536
        except OSError:
            return

    def _drip(self, request: BaseHTTPRequestHandler) -> None:
        """Header lines without an end: each piece comes soon after the one before."""
        try:
            request.wfile.write(b"HTTP/1.1 200 OK\r\n")
            while not self.end.wait(0.05):
                request.wfile.write(b"X-More: 1\r\n")
        except OSError:
            return


@contextmanager
def receiver(host: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> Iterator[Receiver]:
    """Serve on a free port until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.take(self)

        def do_GET(self) -> None:
            got.take(self)

        def log_message(self, format: str, *args: Any) -> None:
            return

    server = ThreadingHTTPServer((host, 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    got = Receiver(f"http://{host}:{server.server_port}/hook/s3cr3t-path")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield got
    finally:
        got.end.set()
        server.shutdown()
        server.server_close()
        thread.join()


class _Smtp(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        self.wfile.write(b"220 ready\r\n")
        for line in self.rfile:
            verb = line[:4].upper()
            if verb == b"DATA":
                self._take()
            elif verb == b"QUIT":
                self.wfile.write(b"221 bye\r\n")
                return
            else:
                self.wfile.write(b"250 ok\r\n")

    def _take(self) -> None:
        self.wfile.write(b"354 go on\r\n")
        lines = iter(self.rfile.readline, b".\r\n")
        getattr(self.server, "mails").append(b"".join(lines).decode())  # noqa: B009  typeshed does not know it
        self.wfile.write(b"250 taken\r\n")


@contextmanager
def mail_server() -> Iterator[tuple[int, list[str]]]:
    """Take mail on a free port: the port, and what has come."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Smtp) as server:
        mails: list[str] = []
        setattr(server, "mails", mails)  # noqa: B010
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield server.server_address[1], mails
        finally:
            server.shutdown()
            thread.join()
