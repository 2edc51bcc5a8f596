"""What the outside world remembers, in one SQLite file: executions, reads, searches, requests, switches. Survives restarts."""

import json
import re
import sqlite3
import threading
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

TARGETS = ("wiki", "reference", "evidence")
MODES = ("ok", "drop", "gateway", "hang", "refuse", "busy", "twice")
WHEN = ("before", "after", "never")

SCHEMA = """
CREATE TABLE IF NOT EXISTS execution (
    id INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL, page TEXT NOT NULL, title TEXT NOT NULL,
    body TEXT NOT NULL, at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')));
CREATE TABLE IF NOT EXISTS reading (id INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL, lines TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS search (id INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL, query TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS request (
    id INTEGER PRIMARY KEY AUTOINCREMENT, target TEXT NOT NULL, key TEXT NOT NULL, mode TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS switch (
    target TEXT PRIMARY KEY, mode TEXT NOT NULL, times INTEGER, execute_when TEXT NOT NULL, hang_seconds REAL NOT NULL);
CREATE TABLE IF NOT EXISTS option (name TEXT PRIMARY KEY, is_on INTEGER NOT NULL);
INSERT OR IGNORE INTO switch VALUES ('wiki', 'ok', NULL, 'before', 30), ('reference', 'ok', NULL, 'before', 30),
    ('evidence', 'ok', NULL, 'before', 30);
INSERT OR IGNORE INTO option VALUES ('deduplicate', 0), ('lookup', 0);
"""


@dataclass(frozen=True)
class Switch:
    """How the next requests to a target are treated: `times` of them, or all until told otherwise (None).

    `execute_when` says for drop and hang when the request is executed: before the connection is dropped or held, after
    it, or never.
    """

    mode: str = "ok"
    times: int | None = None
    execute_when: str = "before"
    hang_seconds: float = 30.0


@dataclass(frozen=True)
class Post:
    """One execution on the wiki."""

    id: int
    key: str
    page: str
    title: str
    body: str
    at: str


class Store:
    """One connection, one lock: every method is one transaction and may be called from any thread."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._connection = sqlite3.connect(path, check_same_thread=False)
        with self._lock, self._connection:
            self._connection.executescript(SCHEMA)

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    def _all(self, sql: str, *values: object) -> list[Any]:
        with self._lock, self._connection:
            return self._connection.execute(sql, values).fetchall()

    # ── switches ──

    def switch(self, target: str) -> Switch:
        [row] = self._all("SELECT mode, times, execute_when, hang_seconds FROM switch WHERE target = ?", target)
        return Switch(*row)

    def set_switch(self, target: str, switch: Switch) -> None:
        sql = "UPDATE switch SET mode = ?, times = ?, execute_when = ?, hang_seconds = ? WHERE target = ?"
        self._all(sql, switch.mode, switch.times, switch.execute_when, switch.hang_seconds, target)

    def take_switch(self, target: str, key: str) -> Switch:
        """The switch for one request, which is recorded; a switch for n times falls back to ok after the n-th."""
        with self._lock, self._connection as connection:
            row = connection.execute(
                "SELECT mode, times, execute_when, hang_seconds FROM switch WHERE target = ?", (target,)
            ).fetchone()
            switch = Switch(*row)
            connection.execute("INSERT INTO request (target, key, mode) VALUES (?, ?, ?)", (target, key, switch.mode))
            if switch.times is not None:
                left = switch.times - 1
                mode, times = (switch.mode, left) if left else ("ok", None)
                connection.execute("UPDATE switch SET mode = ?, times = ? WHERE target = ?", (mode, times, target))
            return switch

    def option(self, name: str) -> bool:
        return bool(self._all("SELECT is_on FROM option WHERE name = ?", name)[0][0])

    def set_option(self, name: str, is_on: bool) -> None:
        self._all("UPDATE option SET is_on = ? WHERE name = ?", int(is_on), name)

    # ── executions and reads ──

    def execute_post(self, key: str, title: str, body: str, deduplicate: bool) -> Post:
        """Post, and count it. With `deduplicate` a key that was executed answers with its first post, uncounted."""
        page = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:100] or "untitled"
        with self._lock, self._connection as connection:
            first = connection.execute("SELECT min(id) FROM execution WHERE key = ?", (key,)).fetchone()[0]
            if not (deduplicate and first):
                sql = "INSERT INTO execution (key, page, title, body) VALUES (?, ?, ?, ?)"
                first = connection.execute(sql, (key, page, title, body)).lastrowid
            row = connection.execute("SELECT id, key, page, title, body, at FROM execution WHERE id = ?", (first,))
            return Post(*row.fetchone())

    def posts(self, *, key: str | None = None, page: str | None = None) -> list[Post]:
        """Posts in order, of a key or of a page."""
        sql = """SELECT id, key, page, title, body, at FROM execution
            WHERE (?1 IS NULL OR key = ?1) AND (?2 IS NULL OR page = ?2) ORDER BY id"""
        return [Post(*row) for row in self._all(sql, key, page)]

    def executions(self, key: str) -> int:
        return int(self._all("SELECT count(*) FROM execution WHERE key = ?", key)[0][0])

    def record_reading(self, key: str, lines: list[str]) -> int:
        """Count one reading of the sheet and return the total."""
        self._all("INSERT INTO reading (key, lines) VALUES (?, ?)", key, json.dumps(lines))
        return int(self._all("SELECT count(*) FROM reading")[0][0])

    def record_search(self, key: str, query: str) -> int:
        """Count one search of the evidence collection and return the total."""
        self._all("INSERT INTO search (key, query) VALUES (?, ?)", key, query)
        return int(self._all("SELECT count(*) FROM search")[0][0])

    def counts(self) -> dict[str, Any]:
        """Raw executions, reads and searches, each in total and per key, and the requests that arrived, in order."""
        executed = dict(self._all("SELECT key, count(*) FROM execution GROUP BY key"))
        read = dict(self._all("SELECT key, count(*) FROM reading GROUP BY key"))
        searched = dict(self._all("SELECT key, count(*) FROM search GROUP BY key"))
        received: dict[str, list[dict[str, str]]] = {target: [] for target in TARGETS}
        for target, key, mode in self._all("SELECT target, key, mode FROM request ORDER BY id"):
            received[target].append({"key": key, "mode": mode})
        return {
            "wiki": {"total": sum(executed.values()), "keys": executed},
            "reference": {"total": sum(read.values()), "keys": read},
            "evidence": {"total": sum(searched.values()), "keys": searched},
            "received": received,
        }

    def state(self) -> dict[str, Any]:
        """The switches and options as JSON."""
        return {target: asdict(self.switch(target)) for target in TARGETS} | {
            name: self.option(name) for name in ("deduplicate", "lookup")
        }
