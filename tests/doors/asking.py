"""What the tests of the API send, and what they expect of a refusal."""

from typing import Any

from django.core.files.uploadedfile import SimpleUploadedFile

from approvals.models import Wait
from tests.doors.world import ALDER, BIRCH

MISSING = "00000000-0000-0000-0000-000000000000"


def decision(wait: Wait, **changed: Any) -> dict[str, Any]:
    seen = {
        "revision": wait.checkpoint_revision,
        "digest": wait.checkpoint_digest,
        "args_digest": wait.args_digest,
    }
    return {"verdict": "APPROVE", **seen, "reason": "read it", **changed}


def form(**changed: Any) -> dict[str, Any]:
    files = {"a": SimpleUploadedFile("alder.csv", ALDER.encode()), "b": SimpleUploadedFile("birch.csv", BIRCH.encode())}
    return {"agent": "fund_comparison", **files, **changed}


def problem(response: Any, status: int, code: str) -> dict[str, Any]:
    assert response.status_code == status, response.content
    assert response["Content-Type"] == "application/problem+json"
    body: dict[str, Any] = response.json()
    assert (body["status"], body["code"]) == (status, code)
    assert body["type"] == f"urn:signalbox:problem:{code}" and body["title"] and body["detail"]
    return body
