"""What was written about a run, list by list, and a checkpoint as one document: on every door, from the same records."""

import subprocess
import sys
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import transaction

from approvals.models import Wait
from checkpoints.models import Checkpoint
from console.environment import BASE_DIR
from console.management.ledger import LISTS
from receipts.models import ModelCall, ToolCall
from runs.models import Refusal, Run, RunTransition
from runtime.services import SuccessorRequest, run_fork
from tests.doors.asking import problem
from tests.doors.world import OPERATOR, Doors, manage, person
from tests.engine.engine import sql


def listed(doors: Doors, run_id: UUID, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = doors.api("GET", f"/runs/{run_id}/{name}/").json()["results"]
    return rows


@pytest.mark.parametrize("name", sorted(LISTS))
def test_api_and_command_line_give_the_same_list(doors: Doors, completed: Run, name: str) -> None:
    assert (
        listed(doors, completed.id, name)
        == manage("runs", "ledger", completed.id, name, "--as", OPERATOR, "--json").json
    )
    ran = manage("runs", "ledger", completed.id, name, "--as", OPERATOR)
    assert ran.code == 0
    if name in ("transitions", "turns", "wakeups"):
        assert listed(doors, completed.id, name)
    else:
        assert ran.out.strip() == f"There are no {name} of this run."


def test_the_moves_of_a_run_are_a_chain_to_its_status(doors: Doors, completed: Run) -> None:
    moves = listed(doors, completed.id, "transitions")
    assert len(moves) == RunTransition.objects.filter(run=completed).count()
    assert [move["from_status"] for move in moves] == [None, *(move["to_status"] for move in moves[:-1])]
    assert (moves[0]["cause"], moves[-1]["to_status"]) == ("ADMITTED", "COMPLETED")


def test_a_turn_shows_its_tries_and_proposals_by_digest(doors: Doors, completed: Run) -> None:
    turns = listed(doors, completed.id, "turns")
    assert [turn["turn_no"] for turn in turns] == list(range(1, len(turns) + 1))
    for turn in turns:
        [tried], [proposed] = turn["tries"], turn["proposals"]
        assert (turn["status"], tried["outcome"], tried["fence"]) == ("SEALED", "OK", turn["sealed_fence"])
        assert len(turn["response_digest"]) == len(proposed["args_digest"]) == 64
    assert turns[-1]["proposals"][0]["disposition"] == "FINISH"
    assert ModelCall.objects.filter(run=completed).count() == len(turns)


def test_a_refusal_is_listed_with_what_it_names_and_without_what_it_refused(doors: Doors, unknown: ToolCall) -> None:
    refusal = next(one for one in listed(doors, unknown.run_id, "refusals") if one["kind"] == "UNCERTAIN_CALL")
    row = Refusal.objects.get(id=refusal["id"])
    assert (refusal["subject"], refusal["fence"]) == (str(row.subject_id) if row.subject_id else None, row.fence)


# ── a checkpoint as a document ───────────────────────────────────────────────


def exported(doors: Doors, run_id: UUID, revision: int) -> dict[str, Any]:
    document: dict[str, Any] = doors.api("GET", f"/runs/{run_id}/checkpoints/{revision}/export/").json()
    return document


def test_a_document_holds_everything_that_a_checkpoint_is(doors: Doors, waiting: Wait) -> None:
    """D-007, D-020, D-077, D-094, C-001, C-002."""
    run, revision = waiting.run, waiting.checkpoint_revision
    document = exported(doors, run.id, revision)
    saved = Checkpoint.objects.get(run=run, revision=revision)
    assert (document["checkpoint_id"], document["sequence"]) == (str(saved.save_id), revision)
    assert document["parent_checkpoint_id"] == str(Checkpoint.objects.get(run=run, revision=revision - 1).save_id)
    path = [run.tenant_id, run.agent_version.agent.key, run.thread_id, run.id, revision]
    assert document["identity"]["path"] == "/".join(map(str, path))
    assert document["version"] == {
        "format": 1,
        "revision": revision,
        "digest": saved.digest,
        "parent_digest": saved.parent_digest,
    }
    assert document["execution"]["status"] == "AWAITING_APPROVAL"
    assert (document["execution"]["next_node"], document["execution"]["is_head"]) == ("wake", True)
    assert {"goal", "constraints", "assumptions", "obligations"} <= set(document["intent"])
    state = document["state"]
    assert state["messages"]["thread"] == str(run.thread_id) and len(state["messages"]["digest"]) == 64
    assert [step["call"] for step in state["plan"]] == [str(waiting.tool_call_id)]
    results = {row.idempotency_key: row for row in ToolCall.objects.filter(run=run, status="SUCCEEDED")}
    assert set(state["tool_results"]) == set(results)
    for key, ref in state["tool_results"].items():
        assert (ref["call"], ref["step"]) == (str(results[key].id), results[key].step_name)
        assert ref["digest"] == results[key].result.digest
    assert set(document["metadata"]) >= {"agent_id", "run_id", "created_at", "trigger", "fence"}
    assert document["pending_writes"] == []
    assert document == manage("checkpoints", "export", run.id, revision, "--as", OPERATOR, "--json").json


def test_the_parents_of_all_documents_are_one_tree(doors: Doors, completed: Run) -> None:
    """D-021: a fork branches off where it was forked."""
    outcome = run_fork(actor=person(OPERATOR), run_id=completed.id, revision=3, wanted=SuccessorRequest("look again"))
    fork = outcome.run_id  # type: ignore[union-attr]
    assert exported(doors, fork, 1)["parent_checkpoint_id"] == exported(doors, completed.id, 3)["checkpoint_id"]
    assert exported(doors, completed.id, 1)["parent_checkpoint_id"] is None


def test_the_revision_of_a_moment_is_found(doors: Doors, completed: Run) -> None:
    """D-016."""
    base = f"/runs/{completed.id}/checkpoints/"
    third, fourth = Checkpoint.objects.filter(run=completed, revision__in=(3, 4)).order_by("revision")
    between = (third.created_at + (fourth.created_at - third.created_at) / 2).isoformat()
    for moment, wanted in (
        (between, [3]),
        (third.created_at.isoformat(), [3]),
        ((third.created_at - timedelta(days=1)).isoformat(), []),
    ):
        found = doors.api("GET", f"{base}?at={moment.replace('+', '%2B')}").json()["results"]
        assert [one["revision"] for one in found] == wanted
        ran = manage("checkpoints", "list", completed.id, "--at", moment, "--as", OPERATOR, "--json")
        assert [one["revision"] for one in ran.json] == wanted
    problem(doors.api("GET", f"{base}?at=soon"), 400, "INVALID")


BREAKS = {
    "a changed body": "UPDATE checkpoints_checkpoint SET body = body || '\\x00'::bytea WHERE run_id = %s AND revision = 2",
    "another parent": "UPDATE checkpoints_checkpoint SET parent_digest = repeat('a', 64) WHERE run_id = %s AND revision = 3",
    "another digest": "UPDATE checkpoints_checkpoint SET digest = repeat('b', 64) WHERE run_id = %s AND revision = 4",
    "a missing revision": "DELETE FROM checkpoints_checkpoint WHERE run_id = %s AND revision = 3",
    "an older head": "UPDATE checkpoints_head SET revision = revision - 1 WHERE run_id = %s",
}


def test_a_whole_chain_is_walked(doors: Doors, completed: Run) -> None:
    """D-004."""
    ran = manage("checkpoints", "verify", completed.id, "--as", OPERATOR, "--json")
    assert ran.json == {"revisions": Checkpoint.objects.filter(run=completed).count(), "purged": 0, "whole": True}


@pytest.mark.parametrize("broken", BREAKS)
def test_a_chain_that_does_not_hold_is_named(doors: Doors, waiting: Wait, broken: str) -> None:
    with transaction.atomic():
        sql("SET LOCAL session_replication_role = replica")
        sql(BREAKS[broken], waiting.run_id)
        ran = manage("checkpoints", "verify", waiting.run_id, "--as", OPERATOR, "--json")
        transaction.set_rollback(True)
    assert (ran.code, ran.json["error"]["code"]) == (1, "CHAIN_BROKEN")
    assert manage("checkpoints", "verify", waiting.run_id, "--as", OPERATOR).code == 0


# ── the key of a call ────────────────────────────────────────────────────────


def test_an_outsider_computes_the_key_of_the_vector() -> None:
    """C-018, T05: without a database."""
    command = [sys.executable, str(BASE_DIR / "manage.py"), "idempotency_key", "--step", "publish_report/overlap-v1"]
    command += ["--args", '{"title":"Overlap – A/B","report_version":1,"channel":"wiki"}']
    command += ["--run", "0b1f6f3e-5c2e-4f0a-9a55-0d9b8d2f7a11"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "23b7fd7737c141ef1c632c3047c1dee8dfd23db28df74f6c99cc3cb2d2af0984"
    assert manage("idempotency_key", "--intent", "--step", "a", "--args", "[1]").code == 2
