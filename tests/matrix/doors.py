"""The people of the matrix: they act over HTTP only, and every request and its answer is written down."""

import json
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx

from tests.matrix.inside import HEADER

PATIENCE = 60.0  # s; longer than a web server stands still or takes to be replaced, on a slow machine too


@dataclass(frozen=True)
class Person:
    """A member of one tenant, with every role that a run needs, and a token."""

    name: str
    tenant_id: UUID
    token: str


@dataclass(frozen=True)
class Reply:
    """What came back. `status` 0: nobody knows whether it was done."""

    status: int
    value: Any

    @property
    def unknown(self) -> bool:
        """No answer, or one that says that the store did not answer."""
        return self.status == 0 or self.status >= 500


@dataclass
class HttpLog:
    """Every request with its answer, in the order in which they ended; also a file of JSON lines."""

    path: Path
    entries: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._lock = threading.Lock()

    def add(self, entry: dict[str, Any]) -> None:
        with self._lock:
            self.entries.append(entry)
            with self.path.open("a") as file:
                file.write(json.dumps(entry) + "\n")


@dataclass
class Doors:
    """Sends requests from threads, so that a web server that stands still keeps nobody else waiting."""

    log: HttpLog
    url: str = ""

    def __post_init__(self) -> None:
        self._threads = ThreadPoolExecutor(24, thread_name_prefix="person")
        self._client = httpx.Client(timeout=PATIENCE, trust_env=False)

    def ask(
        self,
        person: Person,
        method: str,
        path: str,
        *,
        about: str = "",
        body: dict[str, Any] | None = None,
        form: dict[str, str] | None = None,
        key: str = "",
    ) -> "Future[Reply]":
        """Send one request below /api/v1/."""
        return self._threads.submit(self._ask, person, method, path, about, body, form, key)

    def close(self) -> None:
        self._threads.shutdown()
        self._client.close()

    def _ask(
        self,
        person: Person,
        method: str,
        path: str,
        about: str,
        body: dict[str, Any] | None,
        form: dict[str, str] | None,
        key: str,
    ) -> Reply:
        headers = {"Authorization": f"Bearer {person.token}", HEADER: about} | ({"Idempotency-Key": key} if key else {})
        files = None if form is None else {name: (None, value) for name, value in form.items()}
        sent_at = datetime.now(UTC).isoformat()
        try:
            answer = self._client.request(method, f"{self.url}api/v1/{path}", headers=headers, json=body, files=files)
            reply = Reply(answer.status_code, _value(answer))
        except httpx.HTTPError as error:
            reply = Reply(0, {"error": f"{type(error).__name__}: {error}"})
        self.log.add(
            {
                "sent_at": sent_at,
                "answered_at": datetime.now(UTC).isoformat(),
                "person": person.name,
                "tenant": str(person.tenant_id),
                "method": method,
                "path": path,
                "body": body or form,
                "status": reply.status,
                "answer": reply.value,
            }
        )
        return reply


def _value(answer: httpx.Response) -> Any:
    try:
        return answer.json()
    except ValueError:
        return {"text": answer.text[:500]}
