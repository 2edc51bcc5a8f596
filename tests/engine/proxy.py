"""A TCP proxy before the database that cuts one connection exactly where a test wants it."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from django.db import connections

T = TypeVar("T")
Match = Callable[[bytes], bool]
Lost = Literal["answer", "request", "both for now"]
EXECUTE_AND_SYNC = b"E\x00\x00\x00\x09\x00\x00\x00\x00\x00S\x00\x00\x00\x04"
READY = b"Z\x00\x00\x00\x05"
PATIENCE_SECONDS = 20.0


def commit(sent: bytes) -> bool:
    """The COMMIT of a transaction, as libpq sends it."""
    return sent[:1] == b"Q" and b"COMMIT" in sent


def statement(sent: bytes) -> bool:
    """The execution of a statement."""
    return sent.endswith(EXECUTE_AND_SYNC)


@dataclass
class _Link:
    """One forwarded connection. `cut`: its client is gone, and nothing of the server's reaches it any more."""

    client: socket.socket
    server: socket.socket
    cut: bool = False


class Proxy:
    """Forwards every connection until one sends what it was told to cut at. Of that one is lost

    - "answer": the server gets the request and answers, and the client never hears of it;
    - "request": the server never gets it, and sees its client go;
    - "both for now": the client is cut off while the request is on its way; `deliver` brings it to the server.
    """

    def __init__(self, database: Path) -> None:
        self._database = str(database)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._match: Match | None = None
        self._lost: Lost = "answer"
        self._down_then = False
        self._held: tuple[_Link, bytes] | None = None
        self.down = False
        self.refused = threading.Event()
        self.happened = threading.Event()
        self._answered = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def port(self) -> int:
        port: int = self._listener.getsockname()[1]
        return port

    def cut(self, match: Match, lost: Lost, *, down: bool = False) -> None:
        """Cut the next connection that sends what matches. `down`: let nobody in from there on."""
        self._lost, self._down_then, self._match = lost, down, match

    def deliver(self) -> None:
        """Bring what was held to the server, and wait until it has answered."""
        assert self._held is not None, "nothing is held"
        link, chunk = self._held
        link.server.sendall(chunk)
        assert self._answered.wait(PATIENCE_SECONDS), "the server did not answer"

    def close(self) -> None:
        """Let nobody in any more."""
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if self.down:
                    _end(client)
                    self.refused.set()
                else:
                    self._link(client)

    def _link(self, client: socket.socket) -> None:
        server = socket.socket(socket.AF_UNIX)
        server.connect(self._database)
        link = _Link(client, server)
        for pump in (self._forward, self._back):
            threading.Thread(target=pump, args=(link,), daemon=True).start()

    def _forward(self, link: _Link) -> None:
        with suppress(OSError):
            while chunk := link.client.recv(1 << 20):
                if self._match is not None and self._match(chunk):
                    self._match = None
                    self._cut(link, chunk)
                    return
                link.server.sendall(chunk)
        _end(link.server)

    def _cut(self, link: _Link, chunk: bytes) -> None:
        self.down = self._down_then
        link.cut = True
        if self._lost == "answer":
            link.server.sendall(chunk)
            return  # the client is cut off where the answer comes
        if self._lost == "request":
            _end(link.server)
        else:
            self._held = (link, chunk)
        _end(link.client)
        self.happened.set()

    def _back(self, link: _Link) -> None:
        answer = b""
        with suppress(OSError):
            while chunk := link.server.recv(1 << 20):
                if not link.cut:
                    link.client.sendall(chunk)
                    continue
                answer += chunk
                if READY in answer:
                    break
        _end(link.client)
        _end(link.server)
        if link.cut:
            self._answered.set()
            self.happened.set()


def _end(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()


def through(proxy: Proxy, act: Callable[[], T]) -> T:
    """Do something in this thread with its database connection going through the proxy."""
    wrapper = connections["default"]
    wrapper.close()
    direct: dict[str, Any] = wrapper.settings_dict
    wrapper.settings_dict = {**direct, "HOST": "127.0.0.1", "PORT": str(proxy.port)}
    try:
        return act()
    finally:
        wrapper.close()
        wrapper.settings_dict = direct


@contextmanager
def proxied(socket_dir: Path) -> Iterator[Proxy]:
    """A proxy before the server whose socket is in this folder."""
    proxy = Proxy(socket_dir / ".s.PGSQL.5432")
    try:
        yield proxy
    finally:
        proxy.close()
