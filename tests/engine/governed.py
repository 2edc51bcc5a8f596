"""Policies for tests: a text with rules, saved and put in force by a person who governs."""

import json
from typing import Any

from approvals.selectors import policy_number
from approvals.services import PolicyActivated, PolicySaved, policy_activate, policy_save
from tests.engine.engine import Engine


def rule(name: str, then: str, **fields: Any) -> str:
    """One rule as it is written. A field that ends with _ is written without it (`if_`)."""
    written = [f"{field.rstrip('_')} = {_toml(value)}" for field, value in fields.items()]
    return "\n".join(["[[rule]]", f"name = {json.dumps(name)}", f'then = "{then}"', *written, ""])


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_toml(item)}" for key, item in value.items()) + "}"
    return json.dumps(value)


def govern(engine: Engine, *rules: str, amounts: dict[str, str] | None = None) -> int:
    """Save these rules and put them in force. Returns the number of the version."""
    amount = "".join(f"{json.dumps(tool)} = {json.dumps(path)}\n" for tool, path in (amounts or {}).items())
    saved = policy_save(
        actor=engine.person("gail"), text="[amounts]\n" + amount + "\n".join(rules), summary="for a test"
    )
    assert isinstance(saved, PolicySaved), saved.sentence
    activate(engine, saved.number)
    return saved.number


def activate(engine: Engine, number: int) -> None:
    """Put a version in force."""
    seen = policy_number(engine.tenant.id)
    done = policy_activate(actor=engine.person("gail"), number=number, seen=seen, reason="for a test")
    assert isinstance(done, PolicyActivated), done.sentence
