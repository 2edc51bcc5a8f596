"""What the planners of the scripted gateway read from a conversation, and how they end one."""

from dataclasses import dataclass
from typing import Any

from runtime.contracts import ModelRequest, ProposedCall


@dataclass(frozen=True)
class Told:
    """One proposal of the conversation so far and what became of it. `ok` is None while nobody has said."""

    tool: str
    arguments: dict[str, Any]
    ok: bool | None
    value: dict[str, Any]


def read_history(request: ModelRequest) -> list[Told]:
    """Every proposal of the conversation whose answer holds, in order."""
    results = {message["id"]: message for message in request.history if message["role"] == "tool"}
    told = []
    for message in request.history:
        for call in message.get("calls", []) if message["role"] == "assistant" else []:
            result = results.get(call["id"])
            ok, value = (result["ok"], result["value"]) if result else (None, {})
            if call["id"] not in request.lapsed:
                told.append(Told(call["tool"], call["arguments"], ok, value))
    return told


def finish(summary: str) -> tuple[str, ProposedCall]:
    """The turn that ends the work."""
    return "", ProposedCall("finish", {"summary": summary[:2000]})


def why(tried: Told | None) -> str:
    """The reason that a result gives, as one sentence."""
    value = tried.value if tried else {}
    reason = next(
        (value[key] for key in ("reason", "error", "message", "detail") if isinstance(value.get(key), str)), ""
    )
    return f"Reason: {reason.rstrip('.')}." if reason else "No reason was given."
