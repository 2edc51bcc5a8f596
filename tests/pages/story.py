"""Rows of runs in every state, written as the services would have left them, for the tests of the pages."""

from datetime import datetime, timedelta

from django.utils import timezone

from accounts.models import Tenant
from approvals.models import Wait
from checkpoints.models import Obligation
from receipts.models import Reconciliation, ToolCall
from runs.canonical import digest
from runs.models import (
    ControlRequest,
    Refusal,
    Run,
    RunInput,
)
from tests.pages.rows import PUBLISH_ARGS, TITLE, Story
from tests.written import made


def opening(tenant: Tenant, start: datetime, title: str = TITLE) -> tuple[Story, ToolCall]:
    """The first 44 seconds that all stories share: two reads, a worker that dies, the overlap, report v1."""
    story = Story(tenant, start, title)
    for name in ("a", "b"):
        RunInput.objects.create(
            run=story.run,
            name=name,
            filename=f"ARK{'KW'['ab'.index(name)]}.csv",
            sha256=digest(name.encode()),
            size=4096,
        )
    story.save(0, "READY_TO_DECIDE", 0, "INIT")
    story.move(1, "QUEUED", "RUNNING", "ACQUIRED", "worker:host-1/311", 1)
    story.turn(1.2, 2.7, 1, 1)
    story.save(4, "DECISION_RECORDED", 1)
    story.call(4.4, "read_disclosure/a", "READ_ONLY", "SUCCEEDED", [(4.4, 1.7, 1, "OK")])
    lost = [(6.2, 16.8, 1, "NO_RESPONSE"), (23.6, 1.6, 2, "OK")]
    story.call(6.2, "read_disclosure/b", "READ_ONLY", "SUCCEEDED", lost)
    story.move(23, "RUNNING", "RUNNING", "TAKEOVER", "worker:host-1/342", 2)
    Run.objects.filter(id=story.run.id).update(takeovers=1)
    Refusal.objects.create(
        tenant=tenant,
        run=story.run,
        kind="STALE_FENCE",
        fence=1,
        expected_revision=4,
        actual_revision=2,
        detail={"writer": "worker:host-1/311"},
        at=story.at(28),
    )
    story.save(25.4, "AWAITING_TOOL_RESULT", 2)
    story.call(30, "compute_overlap", "IDEMPOTENT", "SUCCEEDED", [(30, 0.1, 2, "OK")])
    sent = story.call(31.2, "send_answer_part/v1", "IDEMPOTENT", "SUCCEEDED", [(31.2, 0.2, 2, "OK")])
    story.report(31.4, sent, 1, "console", "PUBLISHED")
    story.promise("send_answer_part/v1", "Send a first draft of the comparison.", sent.id)
    story.promise("publish_report/overlap-v2", "Publish the report on the wiki.")
    story.call(33, "fetch_reference", "READ_ONLY", "SUCCEEDED", [(33, 3.8, 2, "OK")])
    story.save(38, "TOOL_RESULT_RECORDED", 2, "AFTER_EFFECT")
    story.turn(38.5, 4.6, 2, 2)
    return story, sent


def waiting(tenant: Tenant, start: datetime, title: str = TITLE) -> tuple[Story, Wait]:
    """A run that waits for one approval."""
    story, _ = opening(tenant, start, title)
    call = story.call(43.4, "publish_report/overlap-v2", "NON_IDEMPOTENT", "AWAITING_APPROVAL", [], PUBLISH_ARGS)
    story.save(44, "AWAITING_APPROVAL", 2)
    wait = story.wait(44.2, call, 2)
    story.report(44, call, 2, "wiki", "REQUESTED")
    story.move(44.3, "RUNNING", "WAITING", "WAIT_OPENED", "worker:host-1/342", 2)
    story.status("RUNNING", "WAITING")
    return story, wait


def sending(tenant: Tenant, start: datetime, ago: float = 15) -> tuple[Story, ToolCall]:
    """A run whose approved call was sent `ago` seconds before now and has not answered."""
    story, _ = opening(tenant, start)
    sent_at = (timezone.now() - start).total_seconds() - ago
    call = story.call(43.4, "publish_report/overlap-v2", "NON_IDEMPOTENT", "AWAITING_APPROVAL", [], PUBLISH_ARGS)
    story.save(44, "AWAITING_APPROVAL", 2)
    wait = story.wait(44.2, call, 2)
    story.move(44.3, "RUNNING", "WAITING", "WAIT_OPENED", "worker:host-1/342", 2)
    story.decide(sent_at - 3, wait, "APPROVE", "Checked against both files.")
    story.move(sent_at - 3, "WAITING", "QUEUED", "DECISION", "person:mo.okafor")
    story.move(sent_at - 2, "QUEUED", "RUNNING", "ACQUIRED", "worker:host-2/77", 3)
    story.save(sent_at - 1, "AWAITING_TOOL_RESULT", 3)
    story.send(sent_at, call, 3)
    story.report(44, call, 2, "wiki", "DISPATCHED")
    story.status("RUNNING")
    story.lease("host-2/77", 3, timezone.now() - timedelta(seconds=2))
    return story, call


def unknown(tenant: Tenant, start: datetime, title: str = TITLE) -> tuple[Story, ToolCall]:
    """A run that a call of unknown outcome holds."""
    story, _ = opening(tenant, start, title)
    tries = [(50, 60, 2, "NO_RESPONSE")]
    call = story.call(49, "publish_report/overlap-v2", "NON_IDEMPOTENT", "UNCERTAIN", tries, PUBLISH_ARGS)
    story.save(49.5, "AWAITING_TOOL_RESULT", 2)
    story.report(49, call, 2, "wiki", "UNCERTAIN")
    story.move(110, "RUNNING", "HELD", "UNCERTAIN_CALL", "worker:host-1/342", 2)
    story.status(
        "RUNNING",
        "HELD",
        hold_reason="UNCERTAIN_CALL",
        hold_detail="Nobody knows whether publish_report/overlap-v2 happened",
    )
    return story, call


def held(tenant: Tenant, start: datetime, reason: str, title: str, detail: str = "") -> Story:
    """A run that is held for another reason than an unknown call."""
    story, _ = opening(tenant, start, title)
    story.move(45, "RUNNING", "HELD", reason, "worker:host-1/342", 2)
    story.status("RUNNING", "HELD", hold_reason=reason, hold_detail=detail)
    return story


def stopping(tenant: Tenant, start: datetime) -> tuple[Story, ToolCall]:
    """A run with an adopted stop, while its call may still land."""
    story, call = sending(tenant, start)
    now = (timezone.now() - start).total_seconds()
    made(
        ControlRequest,
        tenant=tenant,
        run=story.run,
        status="ADOPTED",
        reason="The wrong pair of files.",
        requested_by="person:mo.okafor",
        accepted_at=story.at(now - 8),
        adopted_at=story.at(now - 6),
        adopted_fence=3,
    )
    story.move(now - 6, "RUNNING", "STOPPING", "STOP_ADOPTED", "worker:host-2/77", 3)
    story.status("STOPPING")
    return story, call


def completed(tenant: Tenant, start: datetime, title: str = TITLE) -> Story:
    """A run that published what it promised, after a verdict by a person."""
    story, _ = opening(tenant, start, title)
    tries = [(50, 10, 2, "NO_RESPONSE")]
    call = story.call(49, "publish_report/overlap-v2", "NON_IDEMPOTENT", "SUCCEEDED", tries, PUBLISH_ARGS)
    story.report(49, call, 2, "wiki", "PUBLISHED")
    Reconciliation.objects.create(
        tool_call=call,
        verdict="EXECUTED",
        follow_up="NONE",
        method="HUMAN",
        seen_attempts=1,
        evidence="The wiki page shows version 2, 08:14.",
        actor="person:mo.okafor",
        at=story.at(300),
    )
    Obligation.objects.filter(run=story.run, status="OPEN").update(status="FULFILLED", fulfilled_by=call.id)
    story.move(301, "HELD", "QUEUED", "RECONCILED", "person:mo.okafor")
    story.move(302, "QUEUED", "RUNNING", "ACQUIRED", "worker:host-2/77", 3)
    story.move(304, "RUNNING", "COMPLETED", "FINISHED", "worker:host-2/77", 3)
    story.status("RUNNING", "COMPLETED", ended_at=story.at(304), end_reason="Everything promised is done.")
    return story
