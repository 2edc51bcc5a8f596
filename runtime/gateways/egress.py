"""The only way out for a library that connects by itself: a proxy in this process that checks where it leads.

It opens tunnels (CONNECT) to addresses that `addresses.checked` allows, each to exactly the IP address that was checked, for as
long as one delivery may take. Everything else is refused: plain http, names that lead inside, and whoever lacks the token.
"""

import base64
import select
import socket
import socketserver
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from secrets import compare_digest, token_urlsafe

from runtime.gateways.addresses import AddressRefused, checked

_HEAD_BYTES = 8192
_MOST_BYTES = 1024 * 1024
_PIECE = 16384


class Egress(socketserver.ThreadingTCPServer):
    """A proxy for one delivery. `asked` are the places that were asked for, `refused` why the last one was refused."""

    daemon_threads = True

    def __init__(self, seconds: float) -> None:
        super().__init__(("127.0.0.1", 0), _Tunnel)
        self.deadline = time.monotonic() + seconds
        self.token = token_urlsafe(16)
        self.asked: list[str] = []
        self.refused = ""

    @property
    def url(self) -> str:
        """What a client is given as its proxy."""
        return f"http://signalbox:{self.token}@127.0.0.1:{self.server_address[1]}"

    def left(self) -> float:
        """The seconds that are left, never none."""
        return max(0.001, self.deadline - time.monotonic())


@contextmanager
def egress(seconds: float) -> Iterator[Egress]:
    """Serve until the block ends."""
    with Egress(seconds) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


class _Tunnel(socketserver.StreamRequestHandler):
    server: Egress

    def setup(self) -> None:
        super().setup()
        self.connection.settimeout(self.server.left())

    def handle(self) -> None:
        try:
            place = self._place()
            target = checked(f"https://{place}/")
            with socket.create_connection((str(target.ip), target.port), timeout=self.server.left()) as outside:
                self.wfile.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                self._relay(outside)
        except AddressRefused as error:
            self.server.refused = str(error)
            self._answer(b"403 Forbidden")
        except OSError:
            self._answer(b"502 Bad Gateway")

    def _place(self) -> str:
        """`host:port` of a well-formed request. Raises AddressRefused."""
        verb, _, rest = self.rfile.readline(_HEAD_BYTES).decode("latin-1").partition(" ")
        place = rest.partition(" ")[0]
        self.server.asked.append(place)
        right = False
        while (line := self.rfile.readline(_HEAD_BYTES).strip()) != b"":
            name, _, value = line.decode("latin-1").partition(":")
            right |= name.lower() == "proxy-authorization" and self._knows(value.strip())
        if verb != "CONNECT" or not right:
            raise AddressRefused("Only https is let out.")
        return place

    def _knows(self, value: str) -> bool:
        pair = base64.b64encode(f"signalbox:{self.server.token}".encode()).decode()
        return compare_digest(value, f"Basic {pair}")

    def _relay(self, outside: socket.socket) -> None:
        moved, to = 0, {self.connection: outside, outside: self.connection}
        while moved < _MOST_BYTES and time.monotonic() < self.server.deadline:
            ready, _, _ = select.select(list(to), [], [], self.server.left())
            for one in ready:
                piece = one.recv(_PIECE)
                if not piece:
                    return
                to[one].sendall(piece)
                moved += len(piece)

    def _answer(self, status: bytes) -> None:
        try:
            self.wfile.write(b"HTTP/1.1 " + status + b"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        except OSError:
            return
