"""Idempotency keys (T05) and intent keys (T07). Pure Python."""

from typing import Any
from uuid import UUID

from runs.canonical import canonical, digest


def idempotency_key(*, run_id: UUID, step_name: str, args: dict[str, Any]) -> str:
    """SHA-256 of the canonical {v, run_id, step_name, args}: the same for every attempt of one logical call."""
    return digest(canonical({"v": 1, "run_id": str(run_id), "step_name": step_name, "args": args}))


def intent_key(*, step_name: str, args: dict[str, Any]) -> str:
    """The same without the run: finds one intent again in a continued, forked or child run."""
    return digest(canonical({"v": 1, "step_name": step_name, "args": args}))
