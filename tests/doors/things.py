"""The objects that the doors are walked with, and what an act on one of them could change."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from ipaddress import ip_network
from typing import Any, cast
from uuid import UUID

from django.db import connection
from django.db.models import Model
from django.test import override_settings
from django.urls import reverse

from accounts.models import Endpoint, Notice, SavedView
from accounts.selectors import actor_named
from accounts.services import view_save
from approvals.models import Assignment, Decision, Delegation, Grant, PolicyActivation, PolicyVersion, Vote, Wait
from approvals.services import FileGiven, GrantGiven, PolicySaved, QuestionAnswered, Seen, policy_save, question_answer
from checkpoints.models import Checkpoint, Commitment, Intent, Obligation
from receipts.models import Contradiction, Reconciliation, ReportVersion, ToolCall
from runs.models import ControlRequest, Run, ScopeControl, Wakeup
from runs.selectors import bulk_digest
from runs.services import workspace_open
from runs.states import BulkAct, ScopeKind
from runtime.loop import drive
from runtime.registry import agents
from runtime.services import (
    Attached,
    BulkAccepted,
    EndpointAdded,
    EndpointRequest,
    GrantRequest,
    ScopeState,
    Started,
    StartRequest,
    Upload,
    bulk_accept,
    call_attach,
    endpoint_add,
    endpoint_drop,
    named_scope,
    run_start,
    scope_end,
    scope_stop,
    tool_grant,
)
from tests.agents import AGENTS
from tests.doors.routes import MISSING, ROUTES
from tests.doors.world import OPERATOR, Doors, person
from tests.scripted import SCRIPT, calls, done

# What an act could change, in one statement: a walk asks for it thousands of times.
ROWS: dict[type[Model], str] = {
    Run: "id, status, hold_reason",
    Wait: "id, status",
    ToolCall: "id, status",
    Obligation: "id, status",
    Grant: "id, revoked_at",
    Commitment: "id, status",
    ScopeControl: "id, status, aborted_by",
    Endpoint: "id, name, paused_at, removed_at",
}
COUNTED: list[type[Model]] = [
    *(Notice, PolicyVersion, PolicyActivation, Decision, Vote, Assignment, Delegation, Contradiction, Reconciliation),
    *(ControlRequest, Intent, Checkpoint, Wakeup),
]
STATE = "SELECT " + ", ".join(
    [f"(SELECT json_agg(json_build_array({of}) ORDER BY id) FROM {m._meta.db_table})" for m, of in ROWS.items()]
    + [f"(SELECT count(*) FROM {model._meta.db_table})" for model in COUNTED]
)


ANSWERED = b"line,meaning\n1,cash\n"


@dataclass(frozen=True)
class Things:
    """Objects of the first tenant, by what a path names; `state` is everything that an act could change."""

    named: dict[str, dict[str, Any]]
    ids: tuple[str, ...]

    def path(self, name: str, *, missing: bool = False) -> str:
        if ROUTES[name].named == "nothing":
            return "/api/v1/nothing/"
        kwargs = self.named[ROUTES[name].named] if ROUTES[name].named else {}
        if missing:
            kwargs = {**kwargs, "number": 999} if "number" in kwargs else {**kwargs, "id": MISSING}
        return reverse(name, kwargs=kwargs)

    def arguments(self, named: str) -> list[str]:
        return [str(value) for value in self.named[named].values()] if named else []

    @staticmethod
    def state() -> tuple[Any, ...]:
        with connection.cursor() as cursor:
            cursor.execute(STATE)
            return cast("tuple[Any, ...]", cursor.fetchone())


@contextmanager
def asking_for_a_file() -> Iterator[Wait]:
    """A question that only a file answers, as long as its agent is there."""
    with override_settings(AGENTS=AGENTS):
        agents.cache_clear()
        SCRIPT.tell(
            calls(("ask_person", {"question": "Which lines?", "why": "Both are named.", "answer": "file"})), done()
        )
        started = run_start(actor=person(OPERATOR), wanted=StartRequest("told", {}))
        assert isinstance(started, Started), started
        drive(started.run_id)
        yield Wait.objects.get(run_id=started.run_id)
        SCRIPT.clear()
    agents.cache_clear()


def answered_by_a_file() -> UUID:
    """A question that a file was the answer to."""
    with asking_for_a_file() as wait:
        seen = Seen(wait.checkpoint_revision, wait.checkpoint_digest, wait.args_digest)
        given = FileGiven("lines.csv", ANSWERED)
        answered = question_answer(actor=person(OPERATOR), wait_id=wait.id, seen=seen, given=given)
        assert isinstance(answered, QuestionAnswered), answered
        drive(wait.run_id)
    return wait.id


def policy_of_the_tour() -> int:
    saved = policy_save(
        actor=actor_named(username="only-governance", door="page"),
        text='[[rule]]\nname = "all is asked"\nthen = "ask"\n',
        summary="to be walked",
    )
    assert isinstance(saved, PolicySaved)
    return saved.number


def told_no_more() -> UUID:
    """An endpoint of the tenant that was removed: removing it is refused even to those who may."""
    by = actor_named(username=OPERATOR, door="page")
    with override_settings(NOTICE_NETWORKS=[ip_network("127.0.0.0/8")]):
        wanted = EndpointRequest("WEBHOOK", "walked", "http://127.0.0.1:9/", whole_tenant=True)
        added = endpoint_add(actor=by, wanted=wanted)
    assert isinstance(added, EndpointAdded), added
    endpoint_drop(actor=by, endpoint_id=added.endpoint_id)
    return added.endpoint_id


def bulk_of_the_tour(over: Run) -> UUID:
    """An act on many runs that is over: its one run refused it, since it had ended."""
    digest = bulk_digest(BulkAct.STOP, [over.id])
    done = bulk_accept(
        actor=person(OPERATOR), act=BulkAct.STOP, reason="walked", query="", run_ids=[over.id], shown=digest, count=1
    )
    assert isinstance(done, BulkAccepted), done
    return done.bulk_id


def grant_of_the_tour() -> UUID:
    wanted = GrantRequest("fund_comparison", "publish_report", "args['slug'] == 'x'", hours=1, max_uses=1)
    given = tool_grant(actor=actor_named(username=OPERATOR, door="page"), wanted=wanted, reason="to be walked")
    assert isinstance(given, GrantGiven)
    return given.grant_id


SAID_OTHERWISE = {
    "accepted": "EXECUTED",
    "says": "NOT_EXECUTED",
    "evidence": "Nothing is there.",
    "raised_by": "person:operator",
}
SOMEBODY = {"person": "person:somebody", "assigned_by": "person:somebody"}


def made_things(doors: Doors, waiting: Wait, unknown: ToolCall, completed: Run) -> Iterator[Things]:
    """Everything that a path can name; a stop of a scope is lifted at the end, since other modules start runs on its thread."""
    promise = Obligation.objects.get(run=waiting.run_id, status="OPEN")
    term = Commitment.objects.filter(run=waiting.run_id)[0]
    version = ReportVersion.objects.filter(run=completed).latest("version_no")
    run = waiting.run_id
    flag, _ = Contradiction.objects.get_or_create(
        tool_call=unknown, attempt_no=1, source="HUMAN", defaults={"tenant": doors.tenant, **SAID_OTHERWISE}
    )
    stopped = scope_stop(
        actor=person(OPERATOR),
        scope=named_scope(actor=person(OPERATOR), kind=ScopeKind.THREAD, of=str(completed.thread_id)),
        reason="walked",
    )
    assert isinstance(stopped, ScopeState), stopped
    Assignment.objects.get_or_create(wait=waiting, ended_at=None, defaults=SOMEBODY)
    over = Delegation.objects.create(
        tenant=doors.tenant,
        giver="person:somebody",
        taker="person:else",
        starts_at=datetime(2026, 1, 1, tzinfo=UTC),
        ends_at=datetime(2026, 1, 2, tzinfo=UTC),
        reason="away",
    )
    file = call_attach(actor=person(OPERATOR), call_id=unknown.id, file=Upload("seen.txt", b"one post"))
    assert isinstance(file, Attached), file
    workspace = workspace_open(tenant_id=doors.tenant.id, title="A long research")
    answered = answered_by_a_file()
    policy, grant = policy_of_the_tour(), grant_of_the_tour()
    endpoint = told_no_more()
    bulk = bulk_of_the_tour(completed)
    view = view_save(actor=person(OPERATOR), listed="runs", name=f"walked {bulk}", query="status=HELD", shared=True)
    assert isinstance(view, SavedView), view
    named: dict[str, dict[str, Any]] = {
        "agent": {"agent": "nobody"},
        "run": {"id": run},
        "run of a report": {"id": completed.id},
        "input": {"id": run, "name": "a"},
        "checkpoint": {"id": run, "revision": 1},
        "difference": {"id": run, "revision": 1, "other": 2},
        "wait": {"id": waiting.id},
        "answered": {"id": answered},
        "call": {"id": unknown.id},
        "obligation": {"id": promise.id},
        "commitment": {"id": term.id},
        "report": {"id": version.report_id},
        "version": {"id": version.report_id, "version": version.version_no},
        "workspace": {"id": workspace.id},
        "contradiction": {"id": flag.id},
        "policy": {"number": policy},
        "grant": {"id": grant},
        "tool": {"agent": "fund_comparison", "tool": "publish_report"},
        "two policies": {"number": policy, "other": policy},
        "scope": {"id": stopped.control_id},
        "endpoint": {"id": endpoint},
        "bulk": {"id": bulk},
        "view": {"id": view.id},
        "delegation": {"id": over.id},
        "attachment": {"id": unknown.id, "attachment": file.attachment_id},
    }
    ids = (
        run,
        waiting.id,
        unknown.id,
        unknown.run_id,
        completed.id,
        promise.id,
        term.id,
        version.report_id,
        workspace.id,
        grant,
        stopped.control_id,
        endpoint,
        bulk,
        view.id,
        over.id,
        file.attachment_id,
        answered,
    )
    yield Things(named, tuple(str(id) for id in ids))
    lifted = scope_end(actor=person(OPERATOR), control_id=stopped.control_id, reason="walked")
    assert isinstance(lifted, ScopeState), lifted
