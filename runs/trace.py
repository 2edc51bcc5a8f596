"""The trace: what was seen on the way, for people. Written after the commit it tells of, off the write path.

Nothing reads it back: recovery is the same without it, with half of it, or with all of it twice (B-005, B-039, X11). It
holds ids, digests, numbers and enums, never a text that somebody wrote (B-037).
"""

import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any
from uuid import UUID

from django.conf import settings

from accounts.statements import fetch
from runs.live import Outbox, after_commit

GATHER_SECONDS = 0.5  # nobody waits for it; each insert takes this process's time from its runs

Attribute = str | int | bool | None


@dataclass(slots=True)
class Place:
    """Where something was seen (D-068): the run and its thread, the revision, the node of the loop, and the call."""

    tenant_id: UUID
    run_id: UUID
    thread_id: UUID
    checkpoint_id: UUID | None = None
    node: str = ""
    call_id: UUID | None = None


@dataclass(slots=True, eq=False)
class _Seen:
    """One note. Two notes are never the same one, whatever they say. `at`: seconds since 1970, by this machine's clock."""

    name: str
    place: Place
    attributes: dict[str, Attribute]
    at: float


def trace(name: str, place: Place, **attributes: Attribute) -> None:
    """Note what was seen, once the transaction around it has committed; where it fails, nothing is noted (B-025)."""
    if settings.TRACE:
        after_commit(lambda: _keep(name, place, attributes))


def trace_flush() -> None:
    """Write now what this process has noted."""
    if settings.TRACE:
        _outbox(os.getpid()).flush()


def _keep(name: str, place: Place, attributes: dict[str, Attribute]) -> None:
    _outbox(os.getpid()).put(_Seen(name, place, attributes, time.time()))


@cache
def _outbox(pid: int) -> Outbox[_Seen]:
    """The outbox of one process; a forked process gets one of its own."""
    return Outbox("trace events", _write, seconds=GATHER_SECONDS)


_INSERT = """
INSERT INTO runs_traceevent (trace_id, tenant_id, run_id, thread_id, checkpoint_id, node_id, tool_call_id, name, attrs, at)
SELECT trace_id, tenant_id, run_id, thread_id, checkpoint_id, node_id, tool_call_id, name, attrs, to_timestamp(at)
FROM jsonb_to_recordset(%(seen)s::jsonb) AS e(trace_id text, tenant_id uuid, run_id uuid, thread_id uuid, checkpoint_id uuid,
    node_id text, tool_call_id uuid, name text, attrs jsonb, at float8)
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
        "attrs": seen.attributes,
        "at": seen.at,
    }
