"""The rows of a run, written directly: each method of Story is something that happened, at its second."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from accounts.keys import new_id
from accounts.models import Tenant
from accounts.selectors import current_data_key, sealed_body
from approvals.models import Decision, Vote, Wait
from checkpoints.models import Checkpoint, Head, Intent, Obligation
from receipts.models import Attempt, ModelCall, Publication, Report, ReportVersion, ToolCall
from runs.canonical import canonical, digest, idempotency_key, intent_key
from runs.models import (
    Agent,
    AgentVersion,
    Allowance,
    Lease,
    Run,
    RunTransition,
    Thread,
)
from runs.services import artifact_store
from tests.written import made

STARTER = "person:j.lind"
TITLE = "ARKK / ARKW overlap, 8 Sep 2021"
PUBLISH_ARGS: dict[str, Any] = {
    "channel": "wiki",
    "page": "funds/ark/overlap-2021-09-08",
    "summary": "Weight overlap 65.08\u00a0% over 22 shared tickers.\nCash lines are not counted.",
    "title": "ARKK\u200b / ARKW overlap, 8 Sep 2021",
    "version": 2,
}


@dataclass
class Story:
    """A run that is being told. `at(seconds)` is a moment after its start."""

    tenant: Tenant
    start: datetime
    title: str = TITLE
    run: Run = field(init=False)
    revision: int = 0
    ordinal: int = 0

    def __post_init__(self) -> None:
        agent, _ = Agent.objects.get_or_create(tenant=self.tenant, key="fund_comparison")
        version, _ = AgentVersion.objects.get_or_create(
            agent=agent,
            manifest_digest=digest(b"fund_comparison 1"),
            defaults={"version": "1", "model": "scripted", "gateway": "scripted", "manifest": {}},
        )
        thread = Thread.objects.create(tenant=self.tenant, agent=agent, key=f"thread-{new_id().hex[-8:]}")
        self.run = Run(
            tenant=self.tenant,
            thread=thread,
            agent_version=version,
            title=self.title,
            admission_key=new_id().hex,
            created_by=STARTER,
            created_at=self.start,
            status="QUEUED",
        )
        self.run.lineage_id = self.run.root_run_id = self.run.id
        self.run.save(force_insert=True)
        Lease.objects.create(run=self.run)
        nothing: list[int | None] = [0, None, None, None, None]  # of model calls alone
        Allowance.objects.create(
            run=self.run,
            cap=[40, None, None, None, None],
            spent=[5, *nothing[1:]],
            reserved=[1, *nothing[1:]],
            held_unknown=nothing,
        )
        key_id = current_data_key(self.tenant.id)
        goal = b"Compare the holdings of ARKK and ARKW and publish the overlap on the wiki."
        Intent.objects.create(
            run=self.run,
            version=1,
            body=sealed_body(key_id=key_id, plain=goal),
            data_key_id=key_id,
            revised_by=STARTER,
            reason="start",
            digest=digest(goal),
            at=self.start,
        )
        self.move(0, None, "QUEUED", "ADMITTED", STARTER)

    def at(self, seconds: float) -> datetime:
        return self.start + timedelta(seconds=seconds)

    def move(
        self, seconds: float, before: str | None, after: str, cause: str, actor: str, fence: int | None = None
    ) -> None:
        RunTransition.objects.create(
            run=self.run,
            from_status=before,
            to_status=after,
            cause=cause,
            actor=actor,
            fence=fence,
            at=self.at(seconds),
        )

    def status(self, *steps: str, **facts: Any) -> None:
        """Walk the status over legal steps; `facts` go with the last one."""
        for step in steps:
            last = step == steps[-1]
            Run.objects.filter(id=self.run.id).update(status=step, **(facts if last else {}))
        self.run.refresh_from_db()

    def lease(self, owner: str, fence: int, renewed: datetime, seconds: float = 15) -> None:
        """Have `owner` hold the lease at this fence, which rises by one at a time."""
        held = Lease.objects.values_list("fence", flat=True).get(run=self.run)
        for step in range(held + 1, fence + 1):
            Lease.objects.filter(run=self.run).update(owner=None, expires_at=None)
            Lease.objects.filter(run=self.run).update(
                owner=owner, fence=step, renewed_at=renewed, expires_at=renewed + timedelta(seconds=seconds)
            )

    def save(self, seconds: float, phase: str, fence: int, trigger: str = "CURSOR") -> Checkpoint:
        """Save the next revision and move the head to it."""
        self.revision += 1
        before = Checkpoint.objects.filter(run=self.run, revision=self.revision - 1).first()
        body = canonical({"revision": self.revision, "run": str(self.run.id)})
        key_id = current_data_key(self.tenant.id)
        with transaction.atomic():
            saved = Checkpoint.objects.create(
                tenant=self.tenant,
                run=self.run,
                revision=self.revision,
                parent_digest=before.digest if before else None,
                format_version=1,
                phase=phase,
                next_node="decide",
                trigger=trigger,
                save_id=new_id(),
                fence=fence,
                intent_version=1,
                digest=digest(body),
                body=sealed_body(key_id=key_id, plain=body),
                data_key_id=key_id,
                body_bytes=len(body),
                created_at=self.at(seconds),
            )
            place = {"revision": self.revision, "digest": saved.digest, "phase": phase, "trigger": trigger}
            if before:
                Head.objects.filter(run=self.run).update(**place)
            else:
                Head.objects.create(run=self.run, **place)
        return saved

    def turn(self, seconds: float, took: float | None, fence: int, turn_no: int) -> ModelCall:
        sealed = took is not None
        call = made(
            ModelCall,
            tenant=self.tenant,
            run=self.run,
            turn_no=turn_no,
            at_revision=self.revision,
            status="SEALED" if sealed else "DISPATCHED",
            model="scripted",
            request_digest=digest(b"request"),
            response_digest=digest(b"answer") if sealed else None,
            input_tokens=1200 if sealed else None,
            output_tokens=80 if sealed else None,
            created_at=self.at(seconds),
            sealed_at=self.at(seconds + (took or 0)) if sealed else None,
        )
        self._attempt({"model_call": call}, 1, seconds, took, fence, "OK" if sealed else None)
        return call

    def call(
        self,
        seconds: float,
        step: str,
        effect_class: str,
        status: str,
        tries: Sequence[tuple[float, float | None, int, str | None]],
        args: dict[str, Any] | None = None,
    ) -> ToolCall:
        """A logical call with its attempts: (seconds, took, fence, outcome)."""
        self.ordinal += 1
        plain = canonical(args or {"input": step[-1]})
        key_id = current_data_key(self.tenant.id)
        tool = step.split("/", maxsplit=1)[0]
        call = made(
            ToolCall,
            tenant=self.tenant,
            run=self.run,
            ordinal=self.ordinal,
            tool=tool,
            tool_version="1",
            tool_hash=digest(tool.encode()),
            effect_class=effect_class,
            step_name=step,
            args_digest=digest(plain),
            args=sealed_body(key_id=key_id, plain=plain),
            data_key_id=key_id,
            idempotency_key=idempotency_key(run_id=self.run.id, step_name=step, args=args or {}),
            intent_key=intent_key(step_name=step, args=args or {}),
            status=status,
            attempts=len(tries),
            proposed_revision=max(1, self.revision),
            turn_no=self.ordinal,
            created_at=self.at(seconds),
        )
        for number, (sent, took, fence, outcome) in enumerate(tries, 1):
            self._attempt({"tool_call": call}, number, sent, took, fence, outcome)
        return call

    def send(self, seconds: float, call: ToolCall, fence: int) -> None:
        """A call that waited is sent, and has not answered."""
        ToolCall.objects.filter(id=call.id).update(status="DISPATCHED", attempts=1)
        call.refresh_from_db()
        self._attempt({"tool_call": call}, 1, seconds, None, fence, None)

    def _attempt(
        self, of: dict[str, Any], number: int, sent: float, took: float | None, fence: int, outcome: str | None
    ) -> None:
        made(
            Attempt,
            **of,
            attempt_no=number,
            fence=fence,
            dispatched_at=self.at(sent),
            deadline_at=self.at(sent + 60),
            finished_at=self.at(sent + (took or 0)) if outcome else None,
            outcome=outcome,
            error="no answer before the worker died" if outcome == "NO_RESPONSE" else "",
            response_digest=digest(b"answer") if outcome == "OK" else None,
            authorised_by="policy:builtin-1",
        )

    def wait(self, seconds: float, call: ToolCall, fence: int, hours: float = 1) -> Wait:
        head = Head.objects.get(run=self.run)
        return Wait.objects.create(
            tenant=self.tenant,
            run=self.run,
            tool_call=call,
            checkpoint_revision=head.revision,
            checkpoint_digest=head.digest,
            args_digest=call.args_digest,
            tool_hash=call.tool_hash,
            policy_version="builtin-1",
            policy_rule="Rule 4: it leaves a mark outside this system and its effect class is NON_IDEMPOTENT.",
            opened_fence=fence,
            opened_at=self.at(seconds),
            deadline=timezone.now() + timedelta(hours=hours),
        )

    def decide(self, seconds: float, wait: Wait, verdict: str, reason: str) -> None:
        said: dict[str, Any] = {
            "wait": wait,
            "verdict": verdict,
            "seen_revision": wait.checkpoint_revision,
            "seen_digest": wait.checkpoint_digest,
            "seen_args_digest": wait.args_digest,
            "reason": reason,
            "actor": "person:mo.okafor",
            "at": self.at(seconds),
        }
        Vote.objects.create(voice="person:mo.okafor", **said)
        Decision.objects.create(**said)
        decided = "APPROVED" if verdict == "APPROVE" else "REJECTED"
        Wait.objects.filter(id=wait.id).update(status=decided, closed_at=self.at(seconds))
        Wait.objects.filter(id=wait.id).update(status="CONSUMED")

    def report(self, seconds: float, call: ToolCall, version_no: int, channel: str, status: str) -> ReportVersion:
        report, _ = Report.objects.get_or_create(tenant=self.tenant, thread=self.run.thread, slug="overlap")
        body = f"# Overlap\n\n[65.08 %](call:{call.id}) over 22 shared tickers.\n".encode()
        version = ReportVersion.objects.create(
            tenant=self.tenant,
            report=report,
            version_no=version_no,
            run=self.run,
            tool_call=call,
            title=self.title,
            sha256=artifact_store(tenant_id=self.tenant.id, data=body, media_type="text/markdown"),
            source_calls=[call.id],
            fence=1,
            committed_at=self.at(seconds),
        )
        made(
            Publication,
            tenant=self.tenant,
            report_version=version,
            channel=channel,
            tool_call=None if channel == "console" else call,
            status=status,
            changed_at=self.at(seconds),
        )
        return version

    def promise(self, step: str, statement: str, fulfilled_by: UUID | None = None) -> None:
        made(
            Obligation,
            tenant=self.tenant,
            run=self.run,
            statement=statement,
            step_name=step,
            promised_at=self.start,
            status="FULFILLED" if fulfilled_by else "OPEN",
            fulfilled_by=fulfilled_by,
            closed_at=self.at(30) if fulfilled_by else None,
        )
