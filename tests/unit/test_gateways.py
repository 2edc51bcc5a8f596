"""Both gateways: the agent's own planner, and a provider that speaks chat completions over real HTTP."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from pytest_django import Settings

from runs.canonical import canonical
from runtime.agents.fund_comparison import FundComparison
from runtime.contracts import (
    ContextOverflow,
    ModelFailed,
    ModelRefused,
    ModelRequest,
    ModelRetryable,
    ModelUnknown,
    ProposedCall,
)
from runtime.gateways import gateway
from runtime.gateways.openai_compatible import OpenAICompatibleGateway
from runtime.gateways.scripted import ScriptedGateway
from runtime.gateways.secrets import SecretMissing, resolve
from runtime.gateways.translation import UNREADABLE, shortened
from runtime.hosts import try_model
from runtime.retry_after import retry_after
from runtime.tools.finish import FINISH
from runtime.tools.registry import tool_spec
from tests.unit.chat_server import ChatServer, chat_server

HISTORY: tuple[dict[str, Any], ...] = (
    {"role": "user", "text": "Be quick."},
    {
        "role": "assistant",
        "text": "I read both.",
        "calls": [
            {"id": "t1-0", "tool": "read_disclosure", "arguments": {"input": "a"}},
            {"id": "t1-1", "tool": "a made-up name!", "arguments": {}},
        ],
    },
    {"role": "tool", "id": "t1-0", "tool": "read_disclosure", "ok": True, "value": {"fund": "ARKK"}},
    {"role": "notice", "text": "M. Okafor revised the goal."},
    {"role": "assistant", "text": "", "calls": []},
)


def request(timeout_seconds: float = 10.0, history: tuple[dict[str, Any], ...] = ()) -> ModelRequest:
    spec = FundComparison.spec
    return ModelRequest(
        agent=spec.key,
        model="test-model",
        instructions=spec.instructions,
        goal=spec.default_goal,
        turn_no=1,
        inputs=spec.input_names,
        history=history,
        tools=(*(tool_spec(tool) for tool in spec.tools), FINISH),
        timeout_seconds=timeout_seconds,
    )


@pytest.fixture
def chat() -> Iterator[ChatServer]:
    with chat_server() as running:
        yield running


def openai(chat: ChatServer, key: str = "") -> OpenAICompatibleGateway:
    return OpenAICompatibleGateway(chat.url, key)


# ── which gateway ────────────────────────────────────────────────────────────


def test_the_settings_name_the_gateway(settings: Settings) -> None:
    settings.MODEL_GATEWAY = "scripted"
    assert isinstance(gateway(), ScriptedGateway)
    settings.MODEL_GATEWAY = "openai"
    assert isinstance(gateway(), OpenAICompatibleGateway)
    settings.MODEL_GATEWAY = "oracle"
    with pytest.raises(ImproperlyConfigured, match="oracle"):
        gateway()


def test_the_scripted_gateway_follows_the_plan_of_the_agent_that_asks() -> None:
    scripted = ScriptedGateway(["runtime.agents.fund_comparison.FundComparison"])
    assert scripted.ask(request()).proposals == (ProposedCall("read_disclosure", {"input": "a"}),)
    with pytest.raises(ModelFailed, match="fund_comparison"):
        ScriptedGateway([]).ask(request())


# ── what the provider answers ────────────────────────────────────────────────


def test_tool_calls_text_and_usage_are_read(chat: ChatServer) -> None:
    chat.calls(("read_disclosure", '{"input": "a"}'), ("compute_overlap", ""))
    turn = openai(chat).ask(request())
    assert turn.proposals == (ProposedCall("read_disclosure", {"input": "a"}), ProposedCall("compute_overlap", {}))
    assert (turn.input_tokens, turn.output_tokens, turn.response_id) == (123, 45, "chatcmpl-1")
    chat.says({"content": "All done."})
    turn = openai(chat).ask(request())
    assert (turn.text, turn.proposals) == ("All done.", ())


@pytest.mark.parametrize(
    "written",
    [
        "{not json",
        '["a"]',
        '"text"',
        '{"a": NaN}',
        '{"a": 1, "a": 2}',
        '{"a": "\\u0000"}',
        '{"a": "\\ud800"}',
        "{" * 5000,
        '{"a":' * 62 + "1" + "}" * 62,
        '{"a": 1e400}',
        '{"a": ' + "9" * 400 + "}",
    ],
)
def test_arguments_that_cannot_be_used_are_kept_as_text(chat: ChatServer, written: str) -> None:
    chat.calls(("read_disclosure", written))
    [proposal] = openai(chat).ask(request()).proposals
    assert proposal.arguments[UNREADABLE].startswith(written[:10])
    canonical(proposal.arguments)


def test_arguments_that_are_as_deep_as_a_stored_turn_lets_them_be_are_the_models_own(chat: ChatServer) -> None:
    """One level more is refused to the model; it is no reason to end the run."""
    chat.calls(("read_disclosure", '{"a":' * 61 + "1" + "}" * 61))
    asking = try_model(openai(chat), request())
    assert asking.turn is not None and UNREADABLE not in asking.turn.proposals[0].arguments
    chat.calls(("read_disclosure", '{"a":' * 62 + "1" + "}" * 62))
    asking = try_model(openai(chat), request())
    assert asking.turn is not None and UNREADABLE in asking.turn.proposals[0].arguments


def test_text_that_no_store_takes_is_written_out(chat: ChatServer) -> None:
    chat.says({"content": "a\0b\ud800c"})
    assert openai(chat).ask(request()).text == "a\\x00b\\ud800c"


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (429, ModelRetryable),
        (503, ModelRetryable),
        (400, ModelFailed),
        (401, ModelRefused),
        (403, ModelRefused),
        (404, ModelFailed),
        (500, ModelUnknown),
        (502, ModelUnknown),
        (0, ModelUnknown),
    ],
)
def test_each_try_is_one_request_and_its_outcome_is_typed(
    chat: ChatServer, status: int, error: type[Exception]
) -> None:
    chat.status = status
    chat.body = b'{"error": {"message": "no", "type": "x", "code": "y"}}'
    with pytest.raises(error):
        openai(chat).ask(request())
    assert len(chat.requests) == 1


def test_a_busy_provider_says_how_long_to_wait(chat: ChatServer) -> None:
    chat.status, chat.headers = 429, {"Retry-After": "7"}
    with pytest.raises(ModelRetryable) as busy:
        openai(chat).ask(request())
    assert busy.value.retry_after == 7


@pytest.mark.parametrize(
    "error",
    [
        {"message": "This model's maximum context length is 8192 tokens.", "code": None},
        {"message": "too much", "code": "context_length_exceeded"},
        {"message": "prompt is too long: 9000 tokens > 8192", "type": "invalid_request_error"},
    ],
)
def test_a_request_that_is_too_long_is_a_class_of_its_own(chat: ChatServer, error: dict[str, Any]) -> None:
    """A-135: neither a failure to save nor a refusal of anything else."""
    chat.status, chat.body = 400, json.dumps({"error": error}).encode()
    with pytest.raises(ContextOverflow):
        openai(chat).ask(request())


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "120"}, 120.0),
        ({"Retry-After": " 0 "}, 0.0),
        ({"Retry-After": "Wed, 21 Oct 2026 07:28:30 GMT", "Date": "Wed, 21 Oct 2026 07:28:00 GMT"}, 30.0),
        ({"Retry-After": "Wed, 21 Oct 2026 07:27:00 GMT", "Date": "Wed, 21 Oct 2026 07:28:00 GMT"}, 0.0),
        ({"Retry-After": "Wed, 21 Oct 2026 07:28:30 GMT"}, None),
        ({"Retry-After": "-5"}, None),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "9" * 400}, 999_999_999.0),
        ({}, None),
    ],
)
def test_what_an_answer_asks_to_wait_is_read_without_our_clock(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers) == seconds


def test_no_answer_in_time_is_unknown(chat: ChatServer) -> None:
    chat.status = -1
    with pytest.raises(ModelUnknown, match="No "):
        openai(chat).ask(request(timeout_seconds=0.5))
    assert len(chat.requests) == 1


@pytest.mark.parametrize(
    "body", [b"", b"not json", b"[]", b"{}", b'{"choices": []}', b'{"id": 1, "choices": [{}]}', b"\xff\xfe"]
)
def test_garbage_is_unknown(chat: ChatServer, body: bytes) -> None:
    chat.body = body
    with pytest.raises(ModelUnknown):
        openai(chat).ask(request())
    assert len(chat.requests) == 1


def test_where_no_connection_opens_it_may_be_tried_again() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    with pytest.raises(ModelRetryable, match="Nothing was sent"):
        OpenAICompatibleGateway(url, "").ask(request())


# ── what the provider is asked ───────────────────────────────────────────────


def test_the_conversation_on_the_wire(chat: ChatServer) -> None:
    chat.says({"content": "ok"})
    openai(chat).ask(request(history=HISTORY))
    [sent] = chat.requests
    assert sent["model"] == "test-model"
    roles = [message["role"] for message in sent["messages"]]
    assert roles == ["system", "user", "user", "assistant", "tool", "tool", "user"]
    assert FundComparison.spec.default_goal in sent["messages"][1]["content"]
    assistant, answered, unanswered, notice = sent["messages"][3:]
    assert [call["id"] for call in assistant["tool_calls"]] == ["t1-0", "t1-1"]
    assert assistant["tool_calls"][1]["function"]["name"] == "a_made-up_name_"
    assert json.loads(answered["content"]) == {"ok": True, "value": {"fund": "ARKK"}}
    assert "No result is known" in unanswered["content"]
    assert notice["content"] == "Notice: M. Okafor revised the goal."
    assert [tool["function"]["name"] for tool in sent["tools"]][-1] == "finish"
    published = next(tool["function"] for tool in sent["tools"] if tool["function"]["name"] == "publish_report")
    assert "body" not in published["parameters"]["properties"]


def test_long_lists_are_shortened_for_the_model_only() -> None:
    value = {"holdings": list(range(100)), "short": [1, 2]}
    assert shortened(value) == {"holdings": [*range(40), "and 60 more, stored"], "short": [1, 2]}
    assert len(value["holdings"]) == 100


# ── the key ──────────────────────────────────────────────────────────────────


def test_the_key_is_looked_up_by_reference(chat: ChatServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    chat.says({"content": "ok"})
    monkeypatch.setenv("A_KEY_OF_TESTS", "from-env")
    (tmp_path / "key").write_text("from-file\n")
    monkeypatch.setenv("OPENAI_API_KEY", "never-used")
    for reference in ("env:A_KEY_OF_TESTS", f"file:{tmp_path / 'key'}", ""):
        openai(chat, reference).ask(request())
    assert chat.keys == ["Bearer from-env", "Bearer from-file", "Bearer no-key"]


@pytest.mark.parametrize("reference", ["env:NO_SUCH_VARIABLE", "file:/nowhere/key", "sk-secret", "env:", "file:"])
def test_a_reference_that_names_no_key_sends_nothing(chat: ChatServer, reference: str) -> None:
    with pytest.raises(SecretMissing):
        resolve(reference)
    with pytest.raises(ModelFailed) as failed:
        openai(chat, reference).ask(request())
    assert "sk-secret" not in str(failed.value)
    assert chat.requests == []
