"""A request that brings too much reaches nothing, and nothing of it is kept."""

import asyncio
import json
from typing import Any

import pytest

from console.bodies import MAX_BODY_BYTES, BoundedBodies

MEBIBYTE = b"x" * 1024 * 1024


class Sender:
    """Somebody who sends a body in pieces of a mebibyte, and what they hear. `passed`: the bytes that got through."""

    def __init__(
        self, mebibytes: int, *, declared: bool, path: str = "/sign-in/", leaves_at: int | None = None
    ) -> None:
        self.left, self.leaves_at = mebibytes, leaves_at
        self.heard: list[Any] = []
        self.passed = 0
        headers = [(b"content-length", str(mebibytes * len(MEBIBYTE)).encode())] if declared else []
        scope: Any = {"type": "http", "path": path, "headers": headers}
        middleware: Any = BoundedBodies(self.application)
        asyncio.run(middleware(scope, self.receive, self.send))

    async def application(self, scope: Any, receive: Any, send: Any) -> None:
        while (event := await receive())["type"] == "http.request":
            self.passed += len(event["body"])
            if not event["more_body"]:
                await send({"type": "http.response.start", "status": 200, "headers": []})
                return

    async def receive(self) -> Any:
        if self.left == self.leaves_at:
            return {"type": "http.disconnect"}
        self.left -= 1
        return {"type": "http.request", "body": MEBIBYTE, "more_body": self.left > 0}

    async def send(self, message: Any) -> None:
        self.heard.append(message)


@pytest.mark.parametrize("declared", [True, False])
def test_as_much_as_may_be_sent_gets_through(declared: bool) -> None:
    sender = Sender(MAX_BODY_BYTES // len(MEBIBYTE), declared=declared)
    assert (sender.passed, sender.heard[0]["status"]) == (MAX_BODY_BYTES, 200)


@pytest.mark.parametrize("declared", [True, False])
def test_what_is_more_is_run_out_and_refused_once(declared: bool) -> None:
    sender = Sender(70, declared=declared)
    assert sender.passed <= (0 if declared else MAX_BODY_BYTES) and sender.left == 0
    assert [message["type"] for message in sender.heard] == ["http.response.start", "http.response.body"]
    assert sender.heard[0]["status"] == 413 and b"Nothing was stored." in sender.heard[1]["body"]


def test_the_api_refuses_it_as_a_problem() -> None:
    heard = Sender(70, declared=True, path="/api/v1/runs/").heard
    problem = json.loads(heard[1]["body"])
    assert (dict(heard[0]["headers"])[b"content-type"], problem["code"]) == (
        b"application/problem+json",
        "BODY_TOO_BIG",
    )


def test_who_goes_away_in_between_is_not_waited_for() -> None:
    assert Sender(70, declared=True, leaves_at=3).left == 3
