"""A whole run on the second gateway: a model behind an OpenAI-compatible address, over its wire format."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings

from accounts.selectors import actor_named
from accounts.services import member_set, tenant_create
from accounts.states import Actor, Role
from approvals.models import Wait
from approvals.services import Decided, Seen
from approvals.states import DecisionVerdict
from receipts.models import Attempt, ModelCall, ToolCall
from runs.models import Budget, Run
from runtime.agents.fund_comparison import FundComparison
from runtime.loop import drive
from runtime.services import Started, StartRequest, Upload, run_start, wait_decide
from tests.unit.chat_server import ChatServer, chat_server
from tests.unit.outside_world import outside_world

SAMPLES = Path(__file__).resolve().parents[2] / "runtime" / "agents" / "samples"

# What the model says, turn by turn; an int is an HTTP status that the provider answers with instead.
TURNS: list[tuple[str, dict[str, Any]] | int] = [
    ("read_disclosure", {"input": "a"}),
    429,
    ("read_disclosure", {"input": "b"}),
    ("compute_overlap", {}),
    ("send_answer_part", {"version": 1, "title": "The two funds", "summary": "Half of it is shared: 50"}),
    ("send_answer_part", {"version": 1, "title": "The two funds", "summary": "Much of it is shared."}),
    ("fetch_reference", {}),
    ("publish_report", {"channel": "wiki", "report_version": 2, "title": "The two funds", "summary": "It is shared."}),
    ("finish", {"summary": "Compared and published."}),
]


@pytest.fixture
def provider() -> Iterator[ChatServer]:
    """A provider that plays TURNS."""
    turns = iter(TURNS)

    def play(_: dict[str, Any]) -> None:
        turn = next(turns)
        if isinstance(turn, int):
            chat.status = turn
        else:
            chat.calls((turn[0], json.dumps(turn[1])))

    with chat_server() as chat:
        chat.plays = play
        yield chat


def approve_everything(actor: Actor, run: Run) -> None:
    wait = Wait.objects.get(run=run, status="OPEN")
    seen = Seen(wait.checkpoint_revision, wait.checkpoint_digest, wait.args_digest)
    decided = wait_decide(actor=actor, wait_id=wait.id, verdict=DecisionVerdict.APPROVE, seen=seen, reason="as asked")
    assert isinstance(decided, Decided)


def test_a_run_on_a_real_model_records_each_try_and_its_usage(
    live_database: str,
    provider: ChatServer,
    settings: Settings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TEST_MODEL_KEY", "the-key")
    settings.MODEL_GATEWAY = "openai"
    settings.MODEL_BASE_URL = provider.url
    settings.MODEL_NAME = "test-model"
    settings.MODEL_API_KEY_REF = "env:TEST_MODEL_KEY"
    member_set(
        tenant=tenant_create(slug="funds", name="Funds"),
        username="ada",
        password=None,
        roles=frozenset({Role.OPERATOR, Role.APPROVER}),
    )
    ada = actor_named(username="ada", door="test")
    files = sorted(SAMPLES.glob("*.csv"))[:2]
    inputs = {name: Upload(file.name, file.read_bytes()) for name, file in zip("ab", files, strict=True)}
    with outside_world(tmp_path) as outside:
        settings.OUTSIDE_URL = outside.url
        started = run_start(actor=ada, wanted=StartRequest(FundComparison.spec.key, inputs))
        assert isinstance(started, Started)
        run = Run.objects.get(id=started.run_id)
        drive(run.id)
        approve_everything(ada, run)
        drive(run.id)
        call = ToolCall.objects.get(run=run, tool="publish_report")
        assert outside.executions(call.idempotency_key) == 1

    run.refresh_from_db()
    assert (run.status, run.hold_detail, run.end_reason) == ("COMPLETED", "", "")
    turns = ModelCall.objects.filter(run=run).order_by("turn_no")
    assert [turn.attempts for turn in turns] == [1, 2, 1, 1, 1, 1, 1, 1]
    assert {(turn.model, turn.input_tokens, turn.output_tokens) for turn in turns} == {("test-model", 123, 45)}
    tries = Attempt.objects.filter(model_call__run=run, model_call__turn_no=2).order_by("attempt_no")
    assert [attempt.outcome for attempt in tries] == ["ERROR_RETRYABLE", "OK"]
    refused = turns[3].proposals.get()
    assert refused.disposition == "REFUSED"
    assert refused.refusal.startswith("summary: ")
    assert Budget.objects.get(run=run, unit="tokens").spent == 8 * (123 + 45)
    assert len(provider.requests) == len(TURNS)
    assert set(provider.keys) == {"Bearer the-key"}
