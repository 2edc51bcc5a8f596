"""What people were shown: it is what the database says (I11), and nothing of another tenant (I12)."""

import json
import re
from collections import defaultdict
from collections.abc import Iterable
from typing import Any
from uuid import UUID

from tests.matrix.history import Broken, History, Row

OF_A_RUN = re.compile(r"^(runs|waits|calls)/([0-9a-f-]{36})/")
ANY_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def what_people_see_is_there(history: History) -> Broken:
    """What people were shown last of a run that has ended, on its page, in lists and on receipts, is what the database says."""
    shown: dict[str, dict[str, Any]] = defaultdict(dict)
    for said in history.http:
        if said["method"] == "GET" and said["status"] == 200:
            shown[said["tenant"]][said["path"]] = said["answer"]
    ended = history.rows(
        """SELECT r.id, r.tenant_id, r.status, h.revision, h.digest, r.takeovers, l.fence FROM runs_run r
           JOIN checkpoints_head h ON h.run_id = r.id JOIN runs_lease l ON l.run_id = r.id
           WHERE r.tenant_id = ANY(%(tenants)s) AND r.ended_at IS NOT NULL"""
    )
    return [
        f"{path} was shown otherwise"
        for row in ended
        for path in _otherwise(history, shown[str(row.pop("tenant_id"))], row)
    ]


def _otherwise(history: History, shown: dict[str, Any], row: Row) -> Iterable[str]:
    """The addresses about one ended run at which something else was shown."""
    id = row["id"]
    there = {part: _there(history, part, id) for part in LISTED}
    own = _own_list(shown, f"runs/?q={id}")
    if (seen := shown.get(f"runs/{id}/")) is not None:
        if any(seen[name] != value for name, value in row.items() if name != "id"):
            yield f"runs/{id}/"
        if any(
            {one["id"]: one["status"] for one in seen[part]} != _statuses(there[part]) for part in ("calls", "waits")
        ):
            yield f"runs/{id}/, what it called or waited for,"
    if own and any(own[0][name] != row[name] for name in ("status", "revision", "digest")):
        yield f"runs/?q={id}"
    for part, path in (
        ("calls", f"calls/?run={id}&limit=200"),
        ("waits", f"waits/?run={id}&limit=200"),
        ("checkpoints", f"runs/{id}/checkpoints/?limit=200"),
    ):
        listed = _own_list(shown, path)
        if listed is not None and _shown(listed, part) != there[part]:
            yield path
    yield from _receipts_otherwise(history, shown, id)


# Of each list: its table, and what of a row is shown under which name.
LISTED: dict[str, tuple[str, dict[str, str]]] = {
    "calls": (
        "receipts_toolcall",
        {"id": "id", "status": "status", "attempts": "attempts", "args_digest": "args_digest"},
    ),
    "waits": ("approvals_wait", {"id": "id", "status": "status", "revision": "checkpoint_revision"}),
    "checkpoints": ("checkpoints_checkpoint", {"revision": "revision", "digest": "digest", "phase": "phase"}),
}


def _there(history: History, part: str, id: UUID) -> list[tuple[str, ...]]:
    table, columns = LISTED[part]
    named = ", ".join(f"{column}::text" for column in columns.values())
    purged = ", (purged_at IS NOT NULL)::text" if part == "checkpoints" else ""
    rows = history.rows(f"SELECT {named}{purged} FROM {table} WHERE run_id = %(run)s", run=id)
    return sorted(tuple(row.values()) for row in rows)


def _shown(listed: list[Row], part: str) -> list[tuple[str, ...]]:
    purged = (lambda one: (str(one["purged_at"] is not None).lower(),)) if part == "checkpoints" else (lambda _: ())
    return sorted((*(str(one[name]) for name in LISTED[part][1]), *purged(one)) for one in listed)


def _statuses(rows: list[tuple[str, ...]]) -> dict[str, str]:
    return {row[0]: row[1] for row in rows}


def _own_list(shown: dict[str, Any], path: str) -> list[Row] | None:
    """The list as it was shown, or None where nobody looked."""
    found: list[Row] | None = shown[path]["results"] if path in shown else None
    return found


def _receipts_otherwise(history: History, shown: dict[str, Any], run: UUID) -> Iterable[str]:
    for call in history.rows(
        """SELECT c.id::text, c.status, r.digest, e.tool_call_id IS NOT NULL AS effect, ARRAY(
               SELECT a.attempt_no || ' ' || coalesce(a.outcome, '') FROM receipts_attempt a
               WHERE a.tool_call_id = c.id ORDER BY a.attempt_no) AS tries
           FROM receipts_toolcall c LEFT JOIN receipts_result r ON r.tool_call_id = c.id
           LEFT JOIN receipts_effect e ON e.tool_call_id = c.id WHERE c.run_id = %(run)s""",
        run=run,
    ):
        seen = shown.get(f"calls/{call['id']}/")
        if seen is None:
            continue
        tries = [f"{one['attempt_no']} {one['outcome'] or ''}" for one in seen["tries"]]
        result, effect = (seen["result"] or {}).get("digest"), seen["effect"] is not None
        if (seen["status"], result, effect, tries) != (call["status"], call["digest"], call["effect"], call["tries"]):
            yield f"calls/{call['id']}/"


OWNED = (
    *("receipts_toolcall", "receipts_modelcall", "receipts_effect", "receipts_reportversion", "approvals_wait"),
    *("checkpoints_checkpoint", "checkpoints_obligation", "runs_wakeup", "runs_controlrequest"),
)


def tenants_stay_apart(history: History) -> Broken:
    """No row of a run belongs to another tenant, and nobody is shown or may do anything in a tenant not theirs."""
    broken = [
        f"a row of {table} is of another tenant than its run {row['run_id']}"
        for table in OWNED
        for row in history.rows(
            f"SELECT x.run_id FROM {table} x JOIN runs_run r ON r.id = x.run_id "
            "WHERE r.tenant_id = ANY(%(tenants)s) AND x.tenant_id <> r.tenant_id"
        )
    ]
    owners = {
        (kind, str(row["id"])): str(row["tenant_id"])
        for kind, table in (("runs", "runs_run"), ("waits", "approvals_wait"), ("calls", "receipts_toolcall"))
        for row in history.rows(f"SELECT id, tenant_id FROM {table} WHERE tenant_id = ANY(%(tenants)s)")
    }
    by_id = {id: tenant for (_, id), tenant in owners.items()}
    for said in history.http:
        named = OF_A_RUN.match(said["path"])
        owner = owners.get((named[1], named[2])) if named else None
        foreign = owner is not None and owner != said["tenant"]
        if foreign and said["status"] not in (0, 404) and said["status"] < 500:
            broken.append(f"{said['person']} got {said['status']} for {said['path']}, which is not theirs")
        if said["status"] == 200 and said["method"] == "GET":
            told = set(ANY_ID.findall(json.dumps(said["answer"])))
            foreign_ids = [id for id in told & by_id.keys() if by_id[id] != said["tenant"]]
            broken += [f"{said['person']} was shown {id} at {said['path']}, which is not theirs" for id in foreign_ids]
    return broken
