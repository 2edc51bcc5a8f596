"""The effect oracle: an outside world in a process of its own that writes down what it really did before it answers.

`python -m tests.matrix.oracle --log PATH --descriptor FD`. The log is append-only and fsynced, one JSON line an event;
a start on an existing log goes on with it. It imports nothing of the product.

A request says how it is to be treated the first time that its key comes: ok; slow (later than usual); busy (not done);
cut (done, no answer); late (done only after `/release`, whoever still listens); twice (answered twice); die (done, then
the process is gone).
"""

import argparse
import hashlib
import json
import os
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

BEHAVIOURS = ("ok", "slow", "busy", "cut", "late", "twice", "die")
SLOW_SECONDS = 0.15
LATEST_SECONDS = 30.0
Address = tuple[str, int]
READ_SECONDS = 1.0  # in which what came earlier is read before a question is answered


class Log:
    """The file, and what it says about each key."""

    def __init__(self, path: Path) -> None:
        self._lock = threading.RLock()
        self.asked: Counter[str] = Counter()
        self.executed: Counter[str] = Counter()
        for entry in read_log(path):
            self._count(entry)
        self._file = path.open("ab", buffering=0)

    def write(self, kind: str, about: dict[str, Any]) -> int:
        """Append one event and have it on the disk. Returns how often the key has had that kind."""
        with self._lock:
            entry = {"kind": kind, "at": datetime.now(UTC).isoformat(), **about}
            self._file.write(json.dumps(entry).encode() + b"\n")
            os.fsync(self._file.fileno())
            return self._count(entry)

    def execute_once(self, about: dict[str, Any]) -> bool:
        """For a key that the other side executes once only: whether this request was the one."""
        with self._lock:
            first = self.executed[about["key"]] == 0
            self.write("effect" if first else "repeat", about)
        return first

    def _count(self, entry: dict[str, Any]) -> int:
        counted = {"asked": self.asked, "effect": self.executed}.get(entry["kind"])
        if counted is None:
            return 0
        counted[entry["key"]] += 1
        return counted[entry["key"]]


def read_log(path: Path) -> Iterator[dict[str, Any]]:
    """The events in order. A line that its writer did not finish was never answered, and is left out."""
    if path.exists():
        for line in path.read_bytes().split(b"\n")[:-1]:
            yield json.loads(line)


class OracleServer(ThreadingHTTPServer):
    """The server, its log, and the requests that it holds back."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, descriptor: int, log: Path) -> None:
        super().__init__(("127.0.0.1", 0), OracleHandler, bind_and_activate=False)
        self.socket.close()
        self.socket = socket.socket(fileno=descriptor)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = "127.0.0.1", self.server_address[1]
        self.log = Log(log)
        self.released = threading.Condition()
        self.holding: Counter[str] = Counter()
        self.unread: dict[Address, int] = {}
        self.arrived = 0
        self.generation = 0

    def process_request(self, request: Any, client_address: Any) -> None:
        """Number the connections as they come: who asks about a key hears of everything that came before."""
        with self.released:
            self.arrived += 1
            self.unread[client_address] = self.arrived
        super().process_request(request, client_address)

    def read(self, client: Address) -> int:
        """It is known what a connection wants, or that it wants nothing. Its number."""
        with self.released:
            number = self.unread.pop(client, 0)
            self.released.notify_all()
        return number

    def all_read_before(self, number: int) -> bool:
        """Wait until all that came before is read. False: something is not, so nobody can tell what it will do."""
        with self.released:
            return self.released.wait_for(lambda: min(self.unread.values(), default=number) >= number, READ_SECONDS)

    def take(self, key: str) -> None:
        """A request is here, and not executed yet."""
        with self.released:
            self.holding[key] += 1

    def hold(self) -> None:
        """Wait for `/release`."""
        with self.released:
            generation = self.generation
            self.released.wait_for(lambda: self.generation != generation, LATEST_SECONDS)

    def let_go(self, key: str) -> None:
        """It is executed."""
        with self.released:
            self.holding[key] -= 1


class OracleHandler(BaseHTTPRequestHandler):
    """One request."""

    server: OracleServer
    protocol_version = "HTTP/1.1"
    timeout = 60

    def finish(self) -> None:
        """Whatever it wanted, it wants nothing more."""
        self.server.read(self.client_address)
        super().finish()

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet: the log says what happened."""

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        key = parse_qs(parts.query).get("key", [""])[0]
        told = self.server.all_read_before(self.server.read(self.client_address))
        # Held first: what is executed meanwhile is then counted once or twice, and never missed.
        held = self.server.holding[key] + (not told)
        found = {"executions": self.server.log.executed[key], "held": held}
        self._answer(200 if parts.path == "/find" else 404, found)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        if self.path == "/release":
            with self.server.released:
                self.server.generation += 1
                self.server.released.notify_all()
            self._answer(200, {})
        elif self.path == "/do":
            self._do(json.loads(body))
        else:
            self._answer(404, {})

    def _do(self, asked: dict[str, Any]) -> None:
        about = {
            "key": self.headers["Idempotency-Key"],
            "digest": hashlib.sha256(asked["arguments"].encode()).hexdigest(),
            **{name: asked[name] for name in ("call", "run", "tool", "attempt")},
        }
        self.server.take(about["key"])
        self.server.read(self.client_address)
        first = self.server.log.write("asked", about) == 1
        behaviour = asked["behaviour"] if first else "ok"
        if behaviour == "busy":
            self.server.let_go(about["key"])
            self._answer(503, {"reason": "Busy. Nothing was done.", "executed": False})
            return
        if behaviour == "slow":
            threading.Event().wait(SLOW_SECONDS)
        if behaviour == "late":
            self.server.hold()
        done = self._execute(about)
        self.server.let_go(about["key"])
        self._reply(behaviour, done)

    def _execute(self, about: dict[str, Any]) -> dict[str, Any]:
        log = self.server.log
        if about["tool"] == "look":
            log.write("reading", about)
        elif about["tool"] == "again":
            log.execute_once(about)
        else:
            log.write("effect", about)
        return {"ref": f"{about['tool']}-{about['key'][:12]}", "executions": log.executed[about["key"]]}

    def _reply(self, behaviour: str, done: dict[str, Any]) -> None:
        if behaviour == "die":
            os._exit(1)
        if behaviour == "cut":
            self.close_connection = True
            with suppress(OSError):
                self.connection.shutdown(socket.SHUT_RDWR)
            return
        self._answer(200, done)
        if behaviour == "twice":
            self._answer(200, done)

    def _answer(self, status: int, value: dict[str, Any]) -> None:
        body = json.dumps(value).encode()
        try:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        except OSError:
            self.close_connection = True  # whoever asked has gone; what was done is in the log


def main() -> None:
    """Serve until killed."""
    parser = argparse.ArgumentParser(prog="oracle", description=__doc__)
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--descriptor", type=int, required=True, help="a listening socket")
    given = parser.parse_args()
    OracleServer(given.descriptor, given.log).serve_forever(poll_interval=0.1)


if __name__ == "__main__":
    main()
