"""Between the loop's plain messages and those of pydantic-ai."""

import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from pydantic_ai import messages as pydantic_ai
from pydantic_ai.messages import ModelMessage, ModelRequestPart, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.tools import ToolDefinition

from runs.canonical import NotCanonical, check, parse, storable
from runtime.contracts import ModelRequest, ModelTurn, ProposedCall, ToolSpec

LIST_ITEMS = 40
DEPTH_IN_TURN = 3  # a turn is stored as an object with a list of objects, and there the arguments stand
UNREADABLE = "unreadable_arguments"
UNREADABLE_CHARACTERS = 4000
NO_ANSWER = {"ok": False, "value": {"error": "No result is known for this call."}}


# ── to the model ─────────────────────────────────────────────────────────────


def messages(request: ModelRequest) -> list[ModelMessage]:
    """The conversation as pydantic-ai messages: instructions, goal, then every turn with the answers to all its calls.

    Providers refuse a history in which a call has no answer, so a call of unknown outcome gets one that says so.
    """
    answers = {message["id"]: message for message in request.history if message["role"] == "tool"}
    opening = f"Goal: {request.goal}\nInputs: {', '.join(request.inputs)}{_terms(request)}"
    parts: list[ModelRequestPart] = [
        pydantic_ai.SystemPromptPart(request.instructions),
        pydantic_ai.UserPromptPart(opening),
    ]
    result: list[ModelMessage] = [pydantic_ai.ModelRequest(parts)]
    for message in request.history:
        result.extend(_translated(message, answers, request.lapsed))
    return result


def _terms(request: ModelRequest) -> str:
    """What the run is bound to and rests on, a line each."""
    heads = (("Keep to these constraints:", request.constraints), ("You may assume:", request.assumptions))
    lines = [line for head, said in heads if said for line in (head, *(f"- {statement}" for statement in said))]
    return "".join(f"\n{line}" for line in lines)


def tools(specs: tuple[ToolSpec, ...]) -> list[ToolDefinition]:
    """The tools as pydantic-ai definitions. Not `strict`: arguments are checked here, whatever a provider promises."""
    return [
        ToolDefinition(name=x.key, parameters_json_schema=x.schema, description=x.description, strict=False)
        for x in specs
    ]


def _translated(
    message: dict[str, Any], answers: Mapping[str, dict[str, Any]], lapsed: Collection[str]
) -> Iterator[ModelMessage]:
    if message["role"] == "user":
        yield pydantic_ai.ModelRequest([pydantic_ai.UserPromptPart(message["text"])])
    elif message["role"] == "notice":
        yield pydantic_ai.ModelRequest([pydantic_ai.UserPromptPart(f"Notice: {message['text']}")])
    elif message["role"] == "assistant":
        text = [TextPart(message["text"])] if message["text"] else []
        calls = [
            ToolCallPart(_name(call["tool"]), call["arguments"], tool_call_id=call["id"]) for call in message["calls"]
        ]
        if text or calls:
            yield ModelResponse([*text, *calls])
        if calls:
            yield pydantic_ai.ModelRequest([_answered(call, answers, lapsed) for call in calls])


def _answered(call: ToolCallPart, answers: Mapping[str, dict[str, Any]], lapsed: Collection[str]) -> ModelRequestPart:
    answer = answers.get(call.tool_call_id, NO_ANSWER)
    said: dict[str, Any] = {"ok": answer["ok"], "value": shortened(answer["value"])}
    if call.tool_call_id in lapsed:
        said["lapsed"] = "This has passed its half-life and does not hold any more."
    content = json.dumps(said, ensure_ascii=False)
    return ToolReturnPart(call.tool_name, content, tool_call_id=call.tool_call_id)


def shortened(value: Any) -> Any:
    """A result as the model reads it: of long lists the first items, and how many more are stored."""
    if isinstance(value, dict):
        return {key: shortened(item) for key, item in value.items()}
    if isinstance(value, list):
        rest = [f"and {len(value) - LIST_ITEMS} more, stored"] if len(value) > LIST_ITEMS else []
        return [shortened(item) for item in value[:LIST_ITEMS]] + rest
    return value


def _name(tool: str) -> str:
    """A tool's name as providers accept it, also where the model made one up."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", tool)[:64] or "_"


# ── from the model ───────────────────────────────────────────────────────────


def turn(response: ModelResponse) -> ModelTurn:
    """A response as the loop's turn.

    Arguments that are no JSON object are kept as text under a name that no tool knows, so that the proposal is refused
    with what was written.
    """
    text = "".join(part.content for part in response.parts if isinstance(part, TextPart))
    calls = [part for part in response.parts if isinstance(part, ToolCallPart)]
    return ModelTurn(
        text=storable(text),
        proposals=tuple(ProposedCall(storable(call.tool_name)[:200], _arguments(call.args)) for call in calls),
        input_tokens=response.usage.input_tokens,
        output_tokens=response.usage.output_tokens,
        response_id=storable(response.provider_response_id or "")[:200],
    )


def _arguments(written: str | Mapping[str, Any] | None) -> dict[str, Any]:
    if not written:
        return {}
    try:
        value = parse(written) if isinstance(written, str) else dict(written)
        check(value, depth=DEPTH_IN_TURN)
    except NotCanonical as error:
        return _unreadable(written, str(error))
    return value if isinstance(value, dict) else _unreadable(written, "not a JSON object")


def _unreadable(written: str | Mapping[str, Any], reason: str) -> dict[str, Any]:
    text = written if isinstance(written, str) else repr(written)
    return {UNREADABLE: storable(text[:UNREADABLE_CHARACTERS]), "reason": storable(reason)}
