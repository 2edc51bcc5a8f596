"""Saves: what is refused before any statement, what stays of it, and that every entry goes the same way."""

import re
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from checkpoints.envelope import Contract, Promise, ResultRef, Snapshot
from checkpoints.envelope.secrets import secret_in
from checkpoints.selectors import load_head
from checkpoints.services import prepare
from checkpoints.statements import Candidate, Prepared
from checkpoints.states import NotSaved, Phase, Trigger
from receipts.models import Result
from tests.engine.engine import (
    Engine,
    call_named,
    run_now,
)
from tests.scripted import calls

KEY = "sk-" + "Za9" * 12
SECRETS = {
    "private key": "-----BEGIN RSA PRIVATE KEY-----\nMIIE",
    "Signalbox token": "sb_" + "a" * 43,
    "AWS access key": "AKIA" + "A1" * 8,
    "Google API key": "AIza" + "x" * 35,
    "GitHub token": "ghp_" + "a1" * 18,
    "GitLab token": "glpat-" + "a" * 20,
    "Slack token": "xoxb-1234567890-abc",
    "model provider's API key": KEY,
    "Stripe key": "sk_live_" + "a" * 16,
    "JSON web token": "eyJhbGciOiJI.eyJzdWIiOiIx.c2lnbmF0dXJl",
    "authorization header": "Authorization: Bearer abcdefghijklmnop1234",
    "password in an address": "postgres://ada:lovelace@db/x",
}


@pytest.fixture
def head(engine: Engine) -> Snapshot:
    """The head of a run that has looked once."""
    run_id = engine.run(calls(("look", "a"), ("once", "b")))
    return load_head(run_now(run_id)).snapshot


def follow(head: Snapshot, trigger: Trigger = Trigger.INTENT, **differently: Any) -> Prepared | NotSaved:
    """Prepare the revision after the head, differently."""
    fields = {**vars(head), "revision": head.revision + 1, "parent_digest": "a" * 64, "nonce": "0" * 32}
    return prepare(Candidate(Snapshot.model_construct(**fields | differently), trigger, after=head))


def refused(outcome: Prepared | NotSaved) -> tuple[str, str]:
    assert isinstance(outcome, NotSaved), outcome
    return outcome.kind, outcome.path


def cyclic() -> Any:
    found: list[Any] = []
    found.append(found)
    return found


REF: dict[str, Any] = {"call": uuid4(), "step_name": "s", "key": "a" * 64, "digest": "a" * 64, "ok": True}
UNFIT: dict[str, tuple[dict[str, Any], str, str]] = {
    "an id of 10 000 characters": (
        {"results": (ResultRef.model_construct(**REF | {"step_name": "x" * 10_000}),)},
        "FIELD_LIMIT",
        "$.results[0].step_name",
    ),
    "too many of them": ({"barrier": tuple(uuid4() for _ in range(65))}, "FIELD_LIMIT", "$.barrier"),
    "a cycle": ({"results": cyclic()}, "SCHEMA", "$.results[0]"),
    "NaN": ({"turn_no": float("nan")}, "SCHEMA", "$.turn_no"),
    "an integer beyond 2^53-1": ({"turn_no": 2**53}, "SCHEMA", "$.turn_no"),
    "a lone surrogate": ({"next_node": "\ud800"}, "SCHEMA", "$.next_node"),
    "a NUL": ({"next_node": "a\0"}, "SCHEMA", "$.next_node"),
    "a set": ({"contract": {1, 2}}, "SCHEMA", "$.contract"),
}


@pytest.mark.parametrize("what", UNFIT)
def test_what_can_not_be_stored_is_refused_before_any_statement(head: Snapshot, what: str) -> None:
    """A-122, F10, F11."""
    fields, kind, path = UNFIT[what]
    with CaptureQueriesContext(connection) as sent:
        assert refused(follow(head, **fields)) == (kind, path)
    assert list(sent) == []


def test_an_unknown_field_is_refused_without_its_name(head: Snapshot) -> None:
    contract = Contract.model_construct(**vars(head.contract))
    vars(contract)[KEY] = "1"
    assert refused(follow(head, contract=contract)) == ("SCHEMA", "$.contract.?")


@pytest.mark.parametrize("what", SECRETS)
def test_a_secret_is_refused_by_its_form(head: Snapshot, what: str) -> None:
    text = f"Use {SECRETS[what]} for it."
    promise = Promise(step_name="s", statement=text, status="OPEN")
    outcome = follow(head, contract=head.contract.model_copy(update={"obligations": (promise,)}))
    assert refused(outcome) == ("FORBIDDEN_CONTENT", "$.contract.obligations[0].statement")
    assert secret_in(text) == what
    assert isinstance(outcome, NotSaved)
    assert SECRETS[what] not in repr(outcome)


@pytest.mark.parametrize(
    "text",
    ["Compare two funds.", "a" * 64, str(uuid4()), "https://example.org/a:b@c", "skill-based, risk-free", "eyJ."],
)
def test_what_is_no_secret_is_not_taken_for_one(text: str) -> None:
    assert secret_in(text) is None


def test_a_phase_that_does_not_follow_is_refused(head: Snapshot) -> None:
    assert refused(follow(head, Trigger.CURSOR, phase=Phase.FINISHED)) == ("ILLEGAL_PHASE", "$.phase")


def test_a_first_revision_follows_nothing_and_decides(head: Snapshot) -> None:
    assert refused(prepare(Candidate(head, Trigger.CURSOR))) == ("ILLEGAL_PHASE", "$.phase")


def test_a_reference_to_nothing_is_refused(head: Snapshot) -> None:
    """A-140: a mark of something done, without a receipt."""
    forged = (*head.results, ResultRef(**REF))
    assert refused(follow(head, results=forged)) == ("MISSING_REF", f"$.results[{len(head.results)}]")
    assert refused(follow(head, barrier=(uuid4(),))) == ("MISSING_REF", "$.barrier[0]")


def test_a_reference_with_another_digest_is_refused(head: Snapshot) -> None:
    changed = (head.results[0].model_copy(update={"digest": "a" * 64}),)
    assert refused(follow(head, results=changed)) == ("MISSING_REF", "$.results[0]")


def test_a_reference_to_a_call_of_another_run_is_refused(engine: Engine, head: Snapshot) -> None:
    other = call_named(engine.run(calls(("look", "a"))), "a")
    digest = Result.objects.get(tool_call=other).digest
    foreign = ResultRef(call=other.id, step_name=other.step_name, key=other.idempotency_key, digest=digest, ok=True)
    assert refused(follow(head, results=(*head.results, foreign))) == ("MISSING_REF", "$.results[1]")
    assert refused(follow(head, barrier=(other.id,))) == ("MISSING_REF", "$.barrier[0]")


# ── one way, and no switch ───────────────────────────────────────────────────


def test_no_setting_or_signature_ignores_a_failed_save() -> None:
    """A-151."""
    root = Path(__file__).resolve().parents[2]
    for folder in ("checkpoints", "runtime"):
        for file in (root / folder).rglob("*.py"):
            text = file.read_text()
            assert not any(word in text for word in ("best_effort", "ignore_errors", "suppress_save", "ignore_save")), (
                file
            )


def test_a_head_is_moved_in_one_place_only() -> None:
    """A-146, A-147: the part of a statement that steps and services share."""
    root = Path(__file__).resolve().parents[2]
    texts = {
        str(file.relative_to(root)): file.read_text()
        for app in ("checkpoints", "runtime", "approvals")
        for file in (root / app).rglob("*.py")
        if "migrations" not in file.parts
    }
    moving = [name for name, text in texts.items() for _ in range(text.count("UPDATE checkpoints_head"))]
    assert moving == ["checkpoints/statements.py"]
    assert not [
        name for name, text in texts.items() if re.search(r"\bHead\.objects\.filter", text) and ".update(" in text
    ]
