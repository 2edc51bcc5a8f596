"""Tabs that somebody has open: sockets of this process that cost it next to nothing, so that what is timed is the server."""

import json
import selectors
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import urlsplit

from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.typing import Origin
from websockets.uri import parse_uri

PATIENCE_SECONDS = 60.0
READ_BYTES = 65_536


@dataclass(eq=False)
class Tab:
    """One open line to the server."""

    line: socket.socket
    protocol: ClientProtocol
    heard: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def opened(cls, url: str, cookie: str) -> Self:
        """A line to the web server at `url`, of whoever has this session."""
        place = urlsplit(url)
        line = socket.create_connection((place.hostname, place.port), timeout=PATIENCE_SECONDS)
        protocol = ClientProtocol(
            parse_uri(f"ws://{place.netloc}/ws/live/"), origin=Origin(f"{place.scheme}://{place.netloc}")
        )
        request = protocol.connect()
        request.headers["Cookie"] = f"sessionid={cookie}"
        protocol.send_request(request)
        tab = cls(line, protocol)
        tab._sent()
        while not protocol.events_received():
            tab.take(line.recv(READ_BYTES), parse=False)
        if protocol.handshake_exc is not None:
            raise protocol.handshake_exc
        return tab

    def say(self, message: dict[str, Any]) -> None:
        """Send it."""
        self.protocol.send_text(json.dumps(message).encode())
        self._sent()

    def hear(self) -> dict[str, Any]:
        """The next message, waited for."""
        while not self.heard:
            self.take(self.line.recv(READ_BYTES))
        return self.heard.pop(0)

    def take(self, data: bytes, *, parse: bool = True) -> None:
        """What came over the line."""
        if not data:
            raise ConnectionError("the server closed a line")
        self.protocol.receive_data(data)
        self._sent()  # a ping is answered
        if parse:
            frames = [event for event in self.protocol.events_received() if isinstance(event, Frame)]
            self.heard += [json.loads(bytes(frame.data)) for frame in frames if frame.opcode is Opcode.TEXT]

    def _sent(self) -> None:
        if data := b"".join(self.protocol.data_to_send()):
            self.line.sendall(data)


@contextmanager
def opened_tabs(url: str, cookie: str, topics: Sequence[str], count: int) -> Iterator["Tabs"]:
    """So many tabs, each of which has subscribed; closed at the end."""
    with ExitStack() as open_lines, selectors.DefaultSelector() as selector:
        tabs = Tabs([], selector)
        for _ in range(count):
            tab = Tab.opened(url, cookie)
            open_lines.callback(tab.line.close)
            tab.say({"subscribe": list(topics)})
            while "subscribed" not in tab.hear():
                pass
            tabs.add(tab)
        yield tabs


@dataclass(frozen=True)
class Tabs:
    """All of them, read by one selector."""

    all: list[Tab]
    selector: selectors.BaseSelector

    def add(self, tab: Tab) -> None:
        """One more. The others hear meanwhile what comes: the server takes a line for dead whose pings nobody answers."""
        self.selector.register(tab.line, selectors.EVENT_READ, tab)
        self.all.append(tab)
        self._arrived(0)

    def silence(self, seconds: float = 1.0) -> None:
        """Read what comes until no tab has heard anything for so long; the server's pings go on for ever."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if any(tab.heard for tab in self._arrived(left)):
                until = time.monotonic() + seconds
            for tab in self.all:
                tab.heard.clear()

    def first_and_last(self) -> tuple[float, float]:
        """When the first tab heard something, and when every one of them had, by this machine's clock."""
        silent, times = set(self.all), []
        while silent:
            came = self._arrived(PATIENCE_SECONDS)
            if not came:
                raise TimeoutError(f"{len(silent)} of {len(self.all)} tabs heard nothing")
            times.append(time.time())
            silent -= {tab for tab in came if tab.heard}
        for tab in self.all:
            tab.heard.clear()
        return times[0], times[-1]

    def _arrived(self, seconds: float) -> list[Tab]:
        ready = [key.data for key, _ in self.selector.select(seconds)]
        for tab in ready:
            tab.take(tab.line.recv(READ_BYTES))
        return ready
