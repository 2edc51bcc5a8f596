"""The oracle: what it did is in its log before it answers, and it misbehaves the first time only, as it is told."""

import json
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from console.environment import BASE_DIR
from tests.matrix.oracle import read_log
from tests.waiting import wait_until

Ask = Callable[..., httpx.Response]


@contextmanager
def running(listener: socket.socket, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    argv = [sys.executable, "-m", "tests.matrix.oracle", "--log", str(log), "--descriptor", str(listener.fileno())]
    process = subprocess.Popen(argv, cwd=BASE_DIR, pass_fds=(listener.fileno(),))
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "oracle.jsonl"


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as opened:
        yield opened


@pytest.fixture
def oracle(listener: socket.socket, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with running(listener, log) as process:
        yield process


@pytest.fixture
def ask(listener: socket.socket, oracle: object) -> Ask:
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"

    def post(key: str, behaviour: str = "ok", tool: str = "once", path: str = "/do") -> httpx.Response:
        asked = {"call": "c", "run": "r", "tool": tool, "attempt": 1, "behaviour": behaviour, "arguments": "{}"}
        headers = {"Idempotency-Key": key}
        with httpx.Client(trust_env=False, timeout=10) as client:
            if path == "/find":
                return client.get(f"{url}{path}", params={"key": key})
            return client.post(f"{url}{path}", json=asked, headers=headers)

    return post


def kinds(log: Path, key: str) -> list[str]:
    return [event["kind"] for event in read_log(log) if event["key"] == key]


def test_what_it_did_is_in_the_log_when_it_answers(ask: Ask, log: Path) -> None:
    assert ask("k").json()["executions"] == 1
    assert kinds(log, "k") == ["asked", "effect"]


def test_it_does_again_what_it_is_asked_again(ask: Ask, log: Path) -> None:
    ask("k"), ask("k")
    assert kinds(log, "k").count("effect") == 2


def test_a_key_of_an_idempotent_tool_is_done_once_under_a_race(ask: Ask, log: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda _: ask("k", tool="again"), range(8)))
    assert sorted(kinds(log, "k")) == ["asked"] * 8 + ["effect"] + ["repeat"] * 7


def test_busy_does_nothing_and_is_busy_once(ask: Ask, log: Path) -> None:
    assert ask("k", "busy").status_code == 503
    assert kinds(log, "k") == ["asked"]
    assert ask("k", "busy").status_code == 200


def test_cut_does_it_and_does_not_answer(ask: Ask, log: Path) -> None:
    with pytest.raises(httpx.RemoteProtocolError):
        ask("k", "cut")
    assert kinds(log, "k") == ["asked", "effect"]


def test_late_does_it_only_when_it_is_let_go(ask: Ask, log: Path) -> None:
    with ThreadPoolExecutor(1) as threads:
        asked = threads.submit(ask, "k", "late")
        wait_until(lambda: ask("k", path="/find").json()["held"], "the request is held back")
        assert ask("k", path="/find").json() == {"executions": 0, "held": 1}
        ask("k", path="/release")
        assert asked.result().json()["executions"] == 1
    assert ask("k", path="/find").json() == {"executions": 1, "held": 0}
    assert kinds(log, "k") == ["asked", "effect"]


def test_who_asks_hears_of_all_that_came_before_even_where_it_is_not_read_yet(
    ask: Ask, log: Path, listener: socket.socket
) -> None:
    body = json.dumps(
        {"call": "c", "run": "r", "tool": "once", "attempt": 1, "behaviour": "ok", "arguments": "{}"}
    ).encode()
    head = f"POST /do HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    with socket.create_connection(listener.getsockname()) as client:
        client.sendall(head + body[:5])
        assert ask("k", path="/find").json() == {"executions": 0, "held": 1}, "nobody can tell"
        with ThreadPoolExecutor(1) as threads:
            asked = threads.submit(ask, "k", path="/find")
            client.sendall(body[5:])
            found = asked.result().json()
        assert found["executions"] + found["held"] >= 1
        client.recv(65536)
    with socket.create_connection(listener.getsockname()):
        pass  # it wanted nothing
    assert ask("k", path="/find").json() == {"executions": 1, "held": 0}


def test_it_dies_after_it_did_it_and_knows_afterwards(
    ask: Ask, log: Path, listener: socket.socket, oracle: subprocess.Popen[bytes]
) -> None:
    with pytest.raises(httpx.HTTPError):
        ask("k", "die")
    oracle.wait(10)
    with running(listener, log):
        assert ask("k", path="/find").json()["executions"] == 1
        assert ask("k", tool="again").json()["executions"] == 1


def test_a_line_that_was_not_finished_is_left_out(log: Path) -> None:
    whole: dict[str, Any] = {"kind": "effect", "key": "k"}
    log.write_bytes(json.dumps(whole).encode() + b'\n{"kind": "eff')
    assert list(read_log(log)) == [whole]


def test_twice_answers_twice(listener: socket.socket, ask: Ask) -> None:
    body = json.dumps(
        {"call": "c", "run": "r", "tool": "once", "attempt": 1, "behaviour": "twice", "arguments": "{}"}
    ).encode()
    head = f"POST /do HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    with socket.create_connection(listener.getsockname()) as client:
        client.settimeout(10)
        client.sendall(head + body)
        received = b""
        while received.count(b'"executions": 1') < 2:
            received += client.recv(65536)
    assert received.count(b"HTTP/1.1 200") == 2
