"""Workspaces and long-term memory have pages of their own, apart from the checkpoints of a run."""

from accounts.selectors import actor_named
from runs.models import Run
from runs.services import memory_store, progress_store
from runtime.services import Started, StartRequest, run_start, typed_text
from tests.pages.conftest import Member


def research(mo: Member) -> Run:
    claims = {"claims": typed_text("The first claim here.")}
    started = run_start(
        actor=actor_named(username=mo.name, door="page"),
        wanted=StartRequest("evidence_search", claims, workspace="The <grid>"),
    )
    assert isinstance(started, Started)
    return Run.objects.get(id=started.run_id)


def test_a_workspace_shows_what_runs_said_and_hides_nothing_in_it(mo: Member) -> None:
    run = research(mo)
    assert "No run has said how far it got." in mo.get(f"/workspaces/{run.workspace_id}/")
    said = {
        "summary": "Half is done. \u202eevil <script>",
        "questions": [{"id": "q1", "text": "Who <b>owns</b> it?", "status": "OPEN"}],
        "bodies": [],
    }
    assert run.workspace_id is not None
    progress_store(workspace_id=run.workspace_id, run=run, said=said, report_version_id=run.id)
    html = mo.get(f"/workspaces/{run.workspace_id}/")
    assert "The &lt;grid&gt;</bdi></h1>" in html and "Who &lt;b&gt;owns&lt;/b&gt; it?" in html
    assert "<script>" not in html.split("</head>")[1] and "\u202e" not in html
    assert "The &lt;grid&gt;" in mo.get("/workspaces/")
    shown = mo.get(f"/runs/{run.id}/")
    assert f"/workspaces/{run.workspace_id}/" in shown and "version 1 of the workspace progress" in shown


def test_long_term_memory_is_listed_by_subject(mo: Member) -> None:
    assert "Nothing is remembered." in mo.get("/memory/")
    run = research(mo)
    memory_store(run=run, call_id=run.id, subject="the user", text="My name is <Vincent>.")
    html = mo.get("/memory/")
    assert "My name is &lt;Vincent&gt;." in html and "the user" in html
    assert "Kept 1 thing in" in mo.get(f"/runs/{run.id}/")


def test_a_run_is_started_with_a_workspace(mo: Member) -> None:
    assert 'name="workspace"' in mo.get("/runs/new/?agent=evidence_search")
    assert 'name="workspace"' not in mo.get("/runs/new/?agent=fund_comparison")
    fields = {"agent": "evidence_search", "text-claims": "The first claim here.", "workspace": " The grid ", "key": "k"}
    mo.client.post("/runs/new/", fields)
    workspace = Run.objects.get().workspace
    assert workspace is not None and workspace.title == "The grid"
