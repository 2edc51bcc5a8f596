"""The trace: what was seen on the way, for people. Written after the commit it tells of, off the write path.

Nothing reads it back: recovery is the same without it, with half of it, or with all of it twice (B-005, B-039, X11). It
holds ids, digests, numbers and enums, never a text that somebody wrote (B-037).
"""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from accounts.statements import fetch
from runs.live import Outbox

GATHER_SECONDS = 0.5  # nobody waits for it; each insert takes this process's time from its runs

Attribute = str | int | bool | None


@dataclass(frozen=True)
class Place:
    """Where something was seen (D-068): the run and its thread, the revision, the node of the loop, and the call."""

    tenant_id: UUID
    run_id: UUID
    thread_id: UUID
    checkpoint_id: UUID | None = None
    node: str = ""
    call_id: UUID | None = None


@dataclass(frozen=True)
class _Seen:
    name: str
    place: Place
    attributes: tuple[tuple[str, Attribute], ...]
    at: str
    order: int


def trace(name: str, place: Place, **attributes: Attribute) -> None:
    """Note what was seen, once the transaction around it has committed; where it fails, nothing is noted (B-025)."""
    if settings.TRACE:
        transaction.on_commit(lambda: _keep(name, place, attributes))


def trace_flush() -> None:
    """Write now what this process has noted."""
    if settings.TRACE:
        _outbox(os.getpid()).flush()


def _keep(name: str, place: Place, attributes: dict[str, Attribute]) -> None:
    given = tuple(attributes.items())
    _outbox(os.getpid()).put(_Seen(name, place, given, timezone.now().isoformat(), _next_order()))


def _next_order() -> int:
    """Tells two equal notes of one process apart."""
    global _order  # noqa: PLW0603  a counter of this process
    _order += 1
    return _order


_order = 0


@cache
def _outbox(pid: int) -> Outbox[_Seen]:
    """The outbox of one process; a forked process gets one of its own."""
    return Outbox("trace events", _write, seconds=GATHER_SECONDS)


_INSERT = """
INSERT INTO runs_traceevent (trace_id, tenant_id, run_id, thread_id, checkpoint_id, node_id, tool_call_id, name, attrs, at)
SELECT trace_id, tenant_id, run_id, thread_id, checkpoint_id, node_id, tool_call_id, name, attrs, at
FROM jsonb_to_recordset(%(seen)s::jsonb) AS e(trace_id text, tenant_id uuid, run_id uuid, thread_id uuid, checkpoint_id uuid,
    node_id text, tool_call_id uuid, name text, attrs jsonb, at timestamptz)
"""


def _write(seen: Sequence[_Seen]) -> None:
    fetch(_INSERT, {"seen": json.dumps([_row(one) for one in seen])})


def _row(seen: _Seen) -> dict[str, Any]:
    place = seen.place
    return {
        "trace_id": place.run_id.hex,
        "tenant_id": str(place.tenant_id),
        "run_id": str(place.run_id),
        "thread_id": str(place.thread_id),
        "checkpoint_id": str(place.checkpoint_id) if place.checkpoint_id else None,
        "node_id": place.node,
        "tool_call_id": str(place.call_id) if place.call_id else None,
        "name": seen.name,
        "attrs": dict(seen.attributes),
        "at": seen.at,
    }
