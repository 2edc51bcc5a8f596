"""What the tests of the commands type, and what they expect of a refusal."""

from typing import Any

from tests.doors.world import OPERATOR, Ran

MISSING = "00000000-0000-0000-0000-000000000000"
AS = ("--as", OPERATOR)


def seen(wait: dict[str, Any]) -> tuple[Any, ...]:
    return "--revision", wait["revision"], "--digest", wait["digest"], "--args-digest", wait["args_digest"]


def refused(ran: Ran, code: str) -> dict[str, Any]:
    """A refusal: exit code 1, the sentence and the code on stderr, the document on stdout."""
    assert ran.code == 1, ran
    error: dict[str, Any] = ran.json["error"]
    assert error["code"] == code and error["message"] in ran.err and f"({code})" in ran.err
    return error
