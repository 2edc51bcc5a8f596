"""What a tool writes into this database: checked before the result's commit, stored in it or not at all (D-033)."""

from dataclasses import replace
from typing import Any

from checkpoints.envelope.secrets import secret_in
from receipts.selectors import call_now, run_report_versions
from receipts.services import ReportText, report_version_store
from runs.canonical import canonical
from runs.selectors import progress_report_versions
from runs.services import memory_store, progress_store, refusal_record
from runs.states import RefusalKind
from runtime.children import child_admit
from runtime.contracts import ToolOutcome
from runtime.hosts import Tried
from runtime.progress import FIELD, NotSaved, Proposed, WorkspaceCheckpoint, read
from runtime.session import Sending, Session


def writes_rows(outcome: ToolOutcome | None) -> bool:
    """Whether an outcome has rows of its own to be stored with the result."""
    return outcome is not None and bool(outcome.report or outcome.memories or outcome.progress or outcome.child)


def with_progress_checked(session: Session, tried: Tried) -> Tried:
    """The outcome with its workspaceCheckpoint checked, and its answer saying whether and why not it is saved.

    The report that it came with stands either way (A-016). What is read here can't change before the commit: report
    versions and progress are append-only.
    """
    outcome = tried.outcome
    if outcome is None or outcome.progress is None:
        return tried
    try:
        progress = Proposed(outcome.progress.value, checked=_checked(session, outcome.progress.value))
        answer: dict[str, Any] = {"saved": True}
    except NotSaved as refused:
        progress = Proposed(None, refused=refused)
        answer = {"saved": False, "where": refused.where, "why": refused.why}
    value = outcome.value | {FIELD: answer}
    return replace(tried, outcome=replace(outcome, value=value, progress=progress), value=canonical(value))


def _checked(session: Session, value: Any) -> WorkspaceCheckpoint:
    """The proposal, if the agent may make one, a workspace was given, and all that it cites is of this research (A-015)."""
    if not session.spec.workspace_progress:
        raise NotSaved("AUTHORITY", FIELD, "this agent keeps no workspace progress")
    workspace_id = session.run.workspace_id
    if workspace_id is None:
        raise NotSaved("AUTHORITY", FIELD, "this run was given no workspace")
    checked = read(value)
    for where, text in checked.texts():
        found = secret_in(text)
        if found:
            raise NotSaved("FORBIDDEN_CONTENT", where, f"it looks like a {found}")
    known = run_report_versions(run_id=session.run.id) | progress_report_versions(workspace_id)
    for number, body in enumerate(checked.bodies):
        if body not in known:
            raise NotSaved("MISSING_REF", f"bodies.{number}", "no report version of this run or workspace has this id")
    return checked


def store_rows(session: Session, sending: Sending, outcome: ToolOutcome) -> None:
    """Store what the outcome carries, in the transaction of its result, with the lease locked."""
    call = call_now(id=sending.call_id)
    for item in outcome.memories:
        memory_store(run=session.run, call_id=call.id, subject=item.subject, text=item.text)
    if outcome.child is not None:
        child_admit(session, sending, outcome.child)
    if outcome.report is None:
        return
    version = report_version_store(
        call,
        ReportText(outcome.report.slug, outcome.report.title, outcome.report.body, outcome.report.source_calls),
        thread_id=session.run.thread_id,
        fence=session.holding.fence,
        channel="console",
    )
    if outcome.progress is not None:
        _store_progress(session, sending, outcome.progress, version)


def _store_progress(session: Session, sending: Sending, progress: Proposed, version: Any) -> None:
    if progress.checked is not None:
        progress_store(
            workspace_id=session.run.workspace_id,
            run=session.run,
            said=progress.checked.model_dump(mode="json"),
            report_version_id=version.id,
        )
    elif progress.refused is not None:
        refusal_record(
            tenant_id=session.run.tenant_id,
            run_id=session.run.id,
            kind=RefusalKind(progress.refused.kind),
            fence=session.holding.fence,
            subject_id=sending.call_id,
            detail={"part": FIELD, "where": progress.refused.where, "why": progress.refused.why},
        )
