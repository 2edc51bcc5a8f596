"""Secrets that tools use: the arguments name them, the other side gets them, and nothing here repeats them (D-085)."""

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from uuid import UUID

import pytest
from pytest_django import Settings

from approvals.services import Decided
from receipts.models import Effect
from receipts.selectors import call_arguments, result_bytes
from runs.canonical import canonical, digest, idempotency_key
from runtime.loop import drive
from tests.engine.engine import Engine, call_named, open_wait, run_now
from tests.engine.test_secrets import found_in, rows
from tests.scripted import SCRIPT, calls, done

SECRET = 'correct horse "battery" staple'
NAME = "secret/payment/api"
ARGUMENTS = {"label": "a", "key": {"secretRef": NAME}}
REPEATED = "withheld: it repeats a secret that was sent"


@dataclass
class Remote:
    """An other side that notes the keys it was given. `answer` is how it answers, given the key."""

    url: str = ""
    given: list[str] = field(default_factory=list)
    answer: Callable[[str], tuple[int, dict[str, Any]]] = lambda _: (200, {"kept": True})


@pytest.fixture
def remote(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Remote]:
    remote = Remote()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            key = self.headers["Authorization"].removeprefix("Bearer ")
            remote.given.append(key)
            status, body = remote.answer(key)
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        def log_message(self, format: str, *args: Any) -> None:
            """Quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever).start()
        remote.url = settings.OUTSIDE_URL = f"http://127.0.0.1:{server.server_address[1]}"
        settings.TOOL_SECRETS = {NAME: "env:PAYMENT_KEY", "gone": "env:NOT_SET", "short": "env:SHORT_KEY"}
        monkeypatch.setenv("PAYMENT_KEY", SECRET)
        monkeypatch.setenv("SHORT_KEY", "1234567")
        yield remote
        server.shutdown()


def approved(engine: Engine, arguments: dict[str, Any] = ARGUMENTS) -> UUID:
    run_id = engine.run(calls(("keyed", arguments)), done())
    assert isinstance(engine.decide(open_wait(run_id)), Decided)
    drive(run_id)
    return run_id


def test_the_other_side_gets_the_secret_and_the_records_its_name(engine: Engine, remote: Remote) -> None:
    run_id = approved(engine)
    call = call_named(run_id, "a")
    assert remote.given == [SECRET]
    assert (call.status, run_now(run_id).status) == ("SUCCEEDED", "COMPLETED")
    assert json.loads(call_arguments(call)) == ARGUMENTS
    assert call.args_digest == digest(canonical(ARGUMENTS))
    assert call.idempotency_key == idempotency_key(run_id=run_id, step_name=call.step_name, args=ARGUMENTS)
    assert Effect.objects.get(tool_call=call).payload_digest == call.args_digest
    assert found_in(rows(), [SECRET]) == []


def test_another_secret_under_the_name_is_the_same_call(
    engine: Engine, remote: Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A secret that is replaced while a call waits for its approval: the approval holds, and the new one is sent."""
    run_id = engine.run(calls(("keyed", ARGUMENTS)), done())
    before = call_named(run_id, "a").idempotency_key
    monkeypatch.setenv("PAYMENT_KEY", "the one of tomorrow")
    engine.approve(run_id)
    drive(run_id)
    assert remote.given == ["the one of tomorrow"]
    assert (call_named(run_id, "a").idempotency_key, call_named(run_id, "a").status) == (before, "SUCCEEDED")


ECHOES: dict[str, tuple[int, Callable[[str], dict[str, Any]], str]] = {
    "in its answer": (200, lambda key: {"you sent": [key]}, ""),
    "in a refusal": (400, lambda key: {"reason": f"not with {key}"}, REPEATED),
    "in no clear answer": (500, lambda key: {"reason": f"broke on {key}"}, REPEATED),
}


@pytest.mark.parametrize("where", ECHOES)
def test_an_answer_that_repeats_it_is_withheld_from_people_and_model(
    engine: Engine, remote: Remote, where: str
) -> None:
    status, body, error = ECHOES[where]
    remote.answer = lambda key: (status, body(key))
    run_id = approved(engine)
    call = call_named(run_id, "a")
    said = call.tries.get().error
    assert error in said and SECRET not in said
    if where == "in its answer":
        assert json.loads(result_bytes(call.result)) == {"withheld": REPEATED}
    told = json.dumps([message for request in SCRIPT.requests for message in request.history])
    assert json.dumps(SECRET)[1:-1] not in told
    assert found_in(rows(), [SECRET, json.dumps(SECRET)[1:-1]]) == []


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("secret/of/nobody", "No secret is called secret/of/nobody here. Nothing was sent."),
        ("gone", "The secret gone can't be read. The key reference env:NOT_SET holds nothing. Nothing was sent."),
        ("short", "The secret short is shorter than 8 characters. Nothing was sent."),
    ],
)
def test_a_secret_that_is_not_there_sends_nothing_and_the_model_hears_of_it(
    engine: Engine, remote: Remote, name: str, why: str
) -> None:
    run_id = approved(engine, {"label": "a", "key": {"secretRef": name}})
    call = call_named(run_id, "a")
    assert (remote.given, call.status, call.error) == ([], "FAILED", why)
    assert SCRIPT.requests[-1].history[-1]["value"] == {"error": why}


def test_a_value_in_place_of_the_name_is_refused_to_the_model(engine: Engine, remote: Remote) -> None:
    run_id = engine.run(calls(("keyed", {"label": "a", "key": SECRET})), done())
    assert (remote.given, run_now(run_id).status) == ([], "COMPLETED")
    assert "key: Input should be" in SCRIPT.requests[-1].history[-1]["value"]["error"]
