"""Three kinds of memory kept apart: the conversation, long-term memory, and workspace progress."""

from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import DatabaseError

from accounts.errors import Refused
from checkpoints.models import Checkpoint
from checkpoints.selectors import load_snapshot
from receipts.models import Publication, ReportVersion, ToolCall
from receipts.selectors import report_body
from runs.models import MemoryItem, Message, Refusal, Run, Workspace, WorkspaceProgress
from runs.selectors import messages_of, progress_latest, progress_of
from runtime.loop import drive
from runtime.services import StartRequest, run_start, typed_text
from tests.engine.engine import At, Engine, Killed, call_named, expire_lease, kill, run_now, sql, sql_past_triggers
from tests.scripted import SCRIPT, calls, done

SAID = {
    "summary": "Two of three questions are answered.",
    "questions": [
        {"id": "q1", "text": "Who runs the grid?", "status": "ANSWERED"},
        {"id": "q2", "text": "Who owns it?", "status": "OPEN"},
    ],
}


def part(said: Any = None, summary: str = "The answer.") -> Any:
    more = {} if said is None else {"workspaceCheckpoint": said}
    return calls(("send_answer_part", {"version": 1, "title": "An answer", "summary": summary, **more}))


def researched(engine: Engine, *turns: Any, agent: str = "researching", workspace: str = "The grid") -> UUID:
    SCRIPT.tell(*turns)
    run_id = engine.start(agent, workspace=workspace)
    drive(run_id)
    assert run_now(run_id).status == "COMPLETED", run_now(run_id).end_reason
    return run_id


def told_of_part(turn_no: int = 2) -> Any:
    """What the model was told of its workspaceCheckpoint."""
    request = next(request for request in SCRIPT.requests if request.turn_no == turn_no)
    return request.history[-1]["value"].get("workspaceCheckpoint")


# ── workspace progress ───────────────────────────────────────────────────────


def test_progress_is_saved_with_the_report_version_it_came_with(engine: Engine) -> None:
    run_id = researched(engine, part(SAID))
    workspace = Workspace.objects.get(title="The grid")
    progress = progress_latest(workspace.id)
    assert progress is not None
    assert (progress.version, progress.summary, progress.questions) == (1, SAID["summary"], SAID["questions"])
    assert progress.row.report_version_id == ReportVersion.objects.get(run_id=run_id).id
    assert told_of_part() == {"saved": True}


@pytest.mark.parametrize(("agent", "workspace"), [("told", "The grid"), ("told", ""), ("researching", "")])
def test_only_an_agent_that_may_and_a_run_with_a_workspace_save_progress(
    engine: Engine, agent: str, workspace: str
) -> None:
    """A-014: neither is offered the part, and one who sends it all the same saves nothing."""
    if agent == "told":
        SCRIPT.tell(calls(("look", "a")))
        drive(engine.start(agent, workspace=workspace))
    else:
        run_id = researched(engine, part(SAID), agent=agent, workspace=workspace)
        assert ReportVersion.objects.filter(run_id=run_id).count() == 1
        assert told_of_part() == {
            "saved": False,
            "where": "workspaceCheckpoint",
            "why": "this run was given no workspace",
        }
        assert [row.kind for row in Refusal.objects.all()] == ["AUTHORITY"]
    offered = {tool.key: tool.schema["properties"] for tool in SCRIPT.requests[0].tools}
    assert "workspaceCheckpoint" not in offered["send_answer_part"]
    assert not WorkspaceProgress.objects.exists()


def test_a_run_that_may_is_offered_the_part(engine: Engine) -> None:
    researched(engine, part(SAID))
    offered = {tool.key: tool.schema["properties"] for tool in SCRIPT.requests[0].tools}
    assert "workspaceCheckpoint" in offered["send_answer_part"]


@pytest.mark.parametrize(
    ("said", "where"),
    [
        ("done", "workspaceCheckpoint"),
        ([], "workspaceCheckpoint"),
        ({}, "summary"),
        ({"summary": ""}, "summary"),
        ({"summary": "x" * 2001}, "summary"),
        ({"summary": "x", "phase": "FINISHED"}, "?"),
        ({"summary": "x", "questions": [{"id": "q1", "text": "Why?", "status": "MAYBE"}]}, "questions.0.status"),
        ({"summary": "x", "questions": [SAID["questions"][0], SAID["questions"][0]]}, "questions.1.id"),
        ({"summary": "x", "bodies": ["not an id"]}, "bodies.0"),
        ({"summary": "x", "bodies": [str(uuid4())]}, "bodies.0"),
    ],
)
def test_a_part_that_cannot_be_used_never_takes_the_report_with_it(engine: Engine, said: Any, where: str) -> None:
    """A-016: the text is published; the part is answered with its place and the reason, and refused in one row."""
    run_id = researched(engine, part(said, "The answer stands."))
    version = ReportVersion.objects.get(run_id=run_id)
    assert report_body(version) == "# The answer stands."
    assert Publication.objects.get(report_version=version).status == "PUBLISHED"
    answer = told_of_part()
    assert (answer["saved"], answer["where"]) == (False, where)
    assert answer["why"]
    assert not WorkspaceProgress.objects.exists()
    [refusal] = Refusal.objects.filter(run_id=run_id)
    assert refusal.subject_id == ToolCall.objects.get(run_id=run_id).id
    assert (refusal.detail["part"], refusal.detail["where"]) == ("workspaceCheckpoint", where)


def test_a_refusal_does_not_repeat_what_was_refused(engine: Engine) -> None:
    marked = "PLANTED-9f3c"
    researched(engine, part({"summary": "x" * 2001 + marked, marked: 1, "questions": [{"id": marked}]}))
    [refusal] = Refusal.objects.all()
    assert marked not in str(refusal.detail)


def test_a_report_of_another_run_cannot_be_cited(engine: Engine) -> None:
    """A-015: only versions of this run and of the workspace's own progress are sources of it."""
    foreign = ReportVersion.objects.get(run_id=researched(engine, part(), workspace=""))
    researched(engine, part({"summary": "Cites it.", "bodies": [str(foreign.id)]}))
    assert not WorkspaceProgress.objects.exists()
    assert [row.kind for row in Refusal.objects.all()] == ["MISSING_REF"]


def test_the_next_run_is_told_how_far_the_research_got_and_may_cite_it(engine: Engine) -> None:
    first = researched(engine, part(SAID))
    cited = str(ReportVersion.objects.get(run_id=first).id)
    second = researched(engine, part({"summary": "Further.", "bodies": [cited]}))
    [_, (notice, text)] = messages_of(run_now(second))
    assert notice.role == "notice"
    assert str(SAID["summary"]) in text and "q2 OPEN: Who owns it?" in text and cited in text
    workspace = Workspace.objects.get()
    assert [(one.version, [str(id) for id in one.bodies]) for one in progress_of(workspace.id)] == [
        (2, [cited]),
        (1, []),
    ]


def test_progress_report_and_result_are_committed_together_or_not_at_all(engine: Engine, at_point: At) -> None:
    at_point("inside_result_tx@send_answer_part", kill)
    SCRIPT.tell(part(SAID))
    run_id = engine.start("researching", workspace="The grid")
    with pytest.raises(Killed):
        drive(run_id)
    assert not WorkspaceProgress.objects.exists() and not ReportVersion.objects.exists()
    expire_lease(run_id)
    drive(run_id)
    assert run_now(run_id).status == "COMPLETED"
    assert WorkspaceProgress.objects.count() == ReportVersion.objects.count() == 1


def test_progress_is_never_changed(engine: Engine) -> None:
    researched(engine, part(SAID))
    for statement in ("UPDATE runs_workspaceprogress SET version = 2", "DELETE FROM runs_workspaceprogress"):
        with pytest.raises(DatabaseError, match="runs_workspaceprogress"):
            sql(statement)


def test_workspace_progress_is_no_point_to_continue_from(engine: Engine) -> None:
    """A-017: with everything gone but the progress, a resume is refused."""
    SCRIPT.tell(part(SAID), calls(("look", "a")))
    run_id = engine.start("researching", workspace="The grid")
    drive(run_id)
    sql_past_triggers(
        "UPDATE runs_run SET status = 'HELD', hold_reason = 'RESUME_REFUSED', ended_at = NULL WHERE id = %s", run_id
    )
    sql_past_triggers("DELETE FROM checkpoints_head WHERE run_id = %s", run_id)
    sql_past_triggers("DELETE FROM checkpoints_checkpoint WHERE run_id = %s", run_id)
    refused = engine.resume(run_id)
    assert isinstance(refused, Refused)
    assert (refused.code, refused.status) == ("NO_CHECKPOINT", 409)
    assert run_now(run_id).status == "HELD"


def test_progress_holds_nothing_that_a_run_could_be_continued_from() -> None:
    """A-013: its table knows no phase, no node, no fence."""
    columns = {field.name for field in WorkspaceProgress._meta.get_fields()}
    assert not columns & {"phase", "next_node", "fence", "save_id", "revision"}


def test_a_key_with_another_workspace_is_another_request(engine: Engine) -> None:
    claims = {"claims": typed_text("The first claim here.")}
    wanted = StartRequest("evidence_search", claims, workspace="The grid", key="k")
    first = run_start(actor=engine.person("olga"), wanted=wanted)
    assert run_start(actor=engine.person("olga"), wanted=wanted).run_id == first.run_id  # type: ignore[union-attr]
    other = run_start(actor=engine.person("olga"), wanted=StartRequest("evidence_search", claims, key="k"))
    assert isinstance(other, Refused) and other.code == "KEY_REUSED"


# ── long-term memory ─────────────────────────────────────────────────────────


def test_what_is_remembered_is_read_in_another_thread_and_stands_in_no_checkpoint(engine: Engine) -> None:
    """D-008, D-009: memory is keyed by tenant and subject; the checkpoint holds the digest of the result only."""
    text = "My name is Vincent."
    first = researched(engine, calls(("remember", {"subject": "the user", "text": text})), workspace="")
    item = MemoryItem.objects.get()
    assert (item.subject, item.source_run_id) == ("the user", first)
    assert item.source_call_id == call_named(first, "item").id

    second = researched(engine, calls(("recall", {"subject": "the user"})), workspace="")
    assert Run.objects.get(id=first).thread_id != Run.objects.get(id=second).thread_id
    assert SCRIPT.requests[-1].history[-1]["value"]["texts"] == [text]
    for checkpoint in Checkpoint.objects.all():
        assert "Vincent" not in load_snapshot(checkpoint).model_dump_json()
    assert not Message.objects.exclude(role="user").exists()


def test_what_is_remembered_twice_is_one_item(engine: Engine) -> None:
    remember = calls(("remember", {"subject": "a", "text": "The same."}))
    researched(engine, remember, workspace="")
    researched(engine, remember, workspace="")
    assert MemoryItem.objects.count() == 1


def test_an_item_is_kept_with_its_result_or_not_at_all(engine: Engine, at_point: At) -> None:
    at_point("inside_result_tx@remember", kill)
    SCRIPT.tell(calls(("remember", {"subject": "a", "text": "Once."})), done())
    run_id = engine.start("researching")
    with pytest.raises(Killed):
        drive(run_id)
    assert not MemoryItem.objects.exists()
    expire_lease(run_id)
    drive(run_id)
    assert MemoryItem.objects.count() == 1


def test_a_secret_is_neither_remembered_nor_noted_as_progress(engine: Engine) -> None:
    token = "ghp_" + "a1B2" * 10
    remember = calls(("remember", {"subject": "the user", "text": f"use {token}"}))
    run_id = researched(engine, remember, part({"summary": f"use {token}"}))
    assert not MemoryItem.objects.exists() and not WorkspaceProgress.objects.exists()
    assert ReportVersion.objects.filter(run_id=run_id).count() == 1
    assert told_of_part(3) == {"saved": False, "where": "summary", "why": "it looks like a GitHub token"}
    [refusal] = Refusal.objects.filter(run_id=run_id)
    assert refusal.kind == "FORBIDDEN_CONTENT" and token not in str(refusal.detail)
