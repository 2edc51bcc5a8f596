"""The history of the matrix: the oracle's log, the database with its audit, and the log of every HTTP request."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db import connection

Row = dict[str, Any]
Broken = list[str]


@dataclass
class Memory:
    """What earlier checks have seen of the audit: it may only grow."""

    audit: dict[UUID, list[str]] = field(default_factory=dict)


@dataclass
class History:
    """The four logs. Only what belongs to `tenants` is looked at."""

    tenants: Sequence[UUID]
    oracle: Sequence[Row]
    http: Sequence[Row]
    memory: Memory = field(default_factory=Memory)

    def rows(self, sql: str, **params: Any) -> list[Row]:
        """Rows by column name; `%(tenants)s` is there."""
        with connection.cursor() as cursor:
            cursor.execute(sql, {"tenants": list(self.tenants), **params})
            names = [column[0] for column in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def calls(self) -> dict[str, Row]:
        """The tool calls by id."""
        found = self.rows(
            "SELECT c.*, r.status AS run_status, r.ended_at, r.lineage_id FROM receipts_toolcall c JOIN runs_run r ON r.id = c.run_id "
            "WHERE c.tenant_id = ANY(%(tenants)s)"
        )
        return {str(row["id"]): row for row in found}

    def attempts(self) -> dict[str, list[Row]]:
        """The attempts of every tool call, in order."""
        found: dict[str, list[Row]] = defaultdict(list)
        for row in self.rows(
            "SELECT a.* FROM receipts_attempt a JOIN receipts_toolcall c ON c.id = a.tool_call_id "
            "WHERE c.tenant_id = ANY(%(tenants)s) ORDER BY a.tool_call_id, a.attempt_no"
        ):
            found[str(row["tool_call_id"])].append(row)
        return found

    def events(self, *kinds: str) -> list[Row]:
        """What the oracle did for runs of these tenants."""
        ours = {str(row["id"]) for row in self.rows("SELECT id FROM runs_run WHERE tenant_id = ANY(%(tenants)s)")}
        return [event for event in self.oracle if event["kind"] in kinds and event["run"] in ours]
