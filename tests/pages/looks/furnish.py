"""A tenant with something of everything in it, for looking at every page."""

from dataclasses import dataclass
from datetime import timedelta
from ipaddress import ip_network
from uuid import UUID, uuid4

from django.db import transaction
from django.test import override_settings
from django.utils import timezone

from accounts.models import SavedView, Tenant
from accounts.services import view_save
from accounts.states import Actor
from approvals.models import Wait
from approvals.services import (
    Delegated,
    DelegationWanted,
    FormGiven,
    GrantGiven,
    PolicySaved,
    QuestionAnswered,
    Seen,
    delegation_give,
    policy_save,
    question_answer,
)
from receipts.models import Contradiction, ToolCall
from runs.models import Run
from runs.selectors import bulk_digest
from runs.services import memory_store, progress_store
from runs.states import BulkAct, ScopeKind
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
    named_scope,
    run_start,
    scope_stop,
    tool_grant,
    typed_text,
)
from tests.pages import story
from tests.pages.driven import HOSTILE, Driven, asking, told, waiting
from tests.pages.rows import Story

LONG = "The overlap of everything that both desks hold, with the lines that nobody could name and the cash, " * 2
ARABIC = "مقارنة الصندوقين أ و ب\u200f — e\u0301\u0302 combining"
POLICY = """[[rule]]
name = "two people publish"
effects = ["NON_IDEMPOTENT"]
then = "ask"
people = 2
role = "approver"
deadline = "4h"

[[rule]]
name = "reads go"
effects = ["READ_ONLY"]
then = "allow"
"""


@dataclass(frozen=True)
class House:
    """What the furnished tenant holds, by the names that the pages are looked at under."""

    runs: dict[str, UUID]
    waits: dict[str, UUID]
    calls: dict[str, UUID]
    others: dict[str, UUID]
    policy: int


def furnish(tenant: Tenant, ann: Actor, ben: Actor) -> House:
    """Beside the told runs: runs in every other state, texts that do not fit, and one of each thing people make."""
    now = timezone.now()
    sending, sent = story.sending(tenant, now - timedelta(minutes=6))
    stopping, _ = story.stopping(tenant, now - timedelta(minutes=7))
    named, named_wait = story.waiting(tenant, now - timedelta(minutes=9), LONG)
    story.waiting(tenant, now - timedelta(minutes=8), ARABIC)
    unknown, lost = story.unknown(tenant, now - timedelta(hours=2))
    done = story.completed(tenant, now - timedelta(days=1))
    asks, answered = asking(ann, title="Asks"), _answered(ann)
    hostile = waiting(ann, title=HOSTILE, goal=f"{LONG}{HOSTILE}")
    runs = {
        "sending": sending.run.id,
        "stopping": stopping.run.id,
        "long": named.run.id,
        "unknown": unknown.run.id,
        "done": done.run.id,
        "spent": story.held(
            tenant, now - timedelta(hours=1), "BUDGET", "Spent", "tokens: 800 needed, 0 of 1000 left"
        ).run.id,
        "refused": _refused(tenant),
        "queued": _queued(tenant).id,
        "research": _research(ann).id,
        "hostile": hostile.id,
        "asks": asks.id,
        "answered": answered.run_id,
        **{title: told(title).id for title in ("waiting", "lost", "published")},
    }
    decided = Wait.objects.get(run_id=runs["published"])
    waits = {"open": told("waiting").wait.id, "long": named_wait.id, "hostile": hostile.wait.id, "decided": decided.id}
    calls = {"lost": told("lost").publishing.id, "sent": sent.id, "story": lost.id}
    calls["answered"] = ToolCall.objects.get(run_id=runs["published"], tool="compute_overlap").id
    others = _things(ann, ben, runs, calls) | {"question": asks.wait.id, "question-answered": answered.id}
    return House(runs, waits, calls, others, _policies(ann))


def _answered(ann: Actor) -> Wait:
    """A question that was answered, and whose run went on."""
    run = asking(ann, title="Asked")
    wait = run.wait
    given = FormGiven({"meaning": "some of both", "remark": f"I looked. {HOSTILE}"})
    seen = Seen(wait.checkpoint_revision, wait.checkpoint_digest, wait.args_digest)
    outcome = question_answer(actor=ann, wait_id=wait.id, seen=seen, given=given)
    assert isinstance(outcome, QuestionAnswered), outcome
    run.go_on()
    return wait


def _refused(tenant: Tenant) -> UUID:
    detail = "PIN_UNAVAILABLE at agent: fund_comparison 1 is not installed here"
    start = timezone.now() - timedelta(hours=3)
    return story.held(tenant, start, "RESUME_REFUSED", "Claims of the second quarter", detail).run.id


def _queued(tenant: Tenant) -> Run:
    told = Story(tenant, timezone.now() - timedelta(minutes=3), "Not taken")
    told.save(0, "READY_TO_DECIDE", 0, "INIT")
    return told.run


def _research(ann: Actor) -> Run:
    claims = {"claims": typed_text("Northwind Grid operated 412 substations at the end of 2025.")}
    started = run_start(
        actor=ann, wanted=StartRequest("evidence_search", claims, workspace="The grid of the north", key=str(uuid4()))
    )
    assert isinstance(started, Started), started
    run = Run.objects.get(id=started.run_id)
    question = {"id": "q1", "text": f"Who owns it? {HOSTILE}", "status": "OPEN"}
    said = {"summary": "Half is done.", "questions": [question], "bodies": []}
    assert run.workspace_id is not None
    with transaction.atomic():
        progress_store(workspace_id=run.workspace_id, run=run, said=said, report_version_id=run.id)
        memory_store(run=run, call_id=run.id, subject="the desk", text=f"Reads reports on Mondays. {HOSTILE}")
    return run


def _things(ann: Actor, ben: Actor, runs: dict[str, UUID], calls: dict[str, UUID]) -> dict[str, UUID]:
    published = Driven(ann, runs["published"])
    wanted = GrantRequest("fund_comparison", "publish_report", "args['slug'] == 'alder-birch'", hours=8, max_uses=5)
    grant = tool_grant(actor=ann, wanted=wanted, reason="The weekly comparison.")
    assert isinstance(grant, GrantGiven), grant
    given = delegation_give(
        actor=ben, wanted=DelegationWanted("ann.moreau", timezone.now() + timedelta(days=2), "On leave.")
    )
    assert isinstance(given, Delegated), given
    with override_settings(NOTICE_NETWORKS=[ip_network("127.0.0.0/8")]):
        endpoint = EndpointRequest("WEBHOOK", "the desk’s own", "http://127.0.0.1:9/", whole_tenant=True)
        added = endpoint_add(actor=ann, wanted=endpoint)
    assert isinstance(added, EndpointAdded), added
    scope = named_scope(actor=ann, kind=ScopeKind.THREAD, of=str(published.run.thread_id))
    stopped = scope_stop(actor=ann, scope=scope, reason="The source of these files is being checked.")
    assert isinstance(stopped, ScopeState), stopped
    flag = Contradiction.objects.create(
        tenant_id=ann.tenant_id,
        tool_call_id=calls["lost"],
        attempt_no=1,
        source="HUMAN",
        accepted="EXECUTED",
        says="NOT_EXECUTED",
        evidence=f"Nothing is there. {HOSTILE}",
        raised_by=ben.label,
    )
    file = call_attach(actor=ann, call_id=calls["lost"], file=Upload("seen.txt", b"one post"))
    assert isinstance(file, Attached), file
    return {
        "grant": grant.grant_id,
        "delegation": given.delegation_id,
        "attachment": file.attachment_id,
        "endpoint": added.endpoint_id,
        "scope": stopped.control_id,
        "flag": flag.id,
        "view": _view(ann),
        "bulk": _bulk(ann, published.run.id),
    }


def _view(ann: Actor) -> UUID:
    kept = view_save(actor=ann, listed="runs", name=LONG[:90], query="status=HELD", shared=True)
    assert isinstance(kept, SavedView), kept
    return kept.id


def _bulk(ann: Actor, over: UUID) -> UUID:
    """A stop of many runs that its one run has refused, since it had ended."""
    done = bulk_accept(
        actor=ann,
        act=BulkAct.STOP,
        reason="The night is over.",
        query="",
        run_ids=[over],
        shown=bulk_digest(BulkAct.STOP, [over]),
        count=1,
    )
    assert isinstance(done, BulkAccepted), done
    return done.bulk_id


def _policies(ann: Actor) -> int:
    saved = policy_save(actor=ann, text=POLICY, summary="Two people for what cannot be taken back.")
    assert isinstance(saved, PolicySaved), saved
    return saved.number
