"""Rows to try the guards on, and whether the database refuses."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction
from django.utils import timezone

from accounts.keys import new_id
from accounts.models import DataKey, Endpoint, Membership, SavedView
from approvals.models import Answer, Decision, Vote, Wait
from approvals.states import OF_A_QUESTION
from checkpoints.models import Checkpoint, Commitment, Head, Lapse, Obligation
from receipts.models import Attachment, Contradiction, FirstWord, Probe, Publication, ReportVersion, ToolCall
from runs.models import (
    Bulk,
    BulkItem,
    ControlRequest,
    MemoryItem,
    Run,
    RunTag,
    ScopeControl,
    Thread,
    Workspace,
    WorkspaceProgress,
)
from runs.states import ENDED_RUN
from tests.engine.engine import sql, sql_past_triggers
from tests.written import made

DIGEST = "0" * 64
OTHER_DIGEST = "1" * 64


@dataclass(frozen=True)
class Told:
    """A completed run that left a row in every table."""

    run: Run
    call: ToolCall

    def another_run(self, status: str = "QUEUED", **differently: Any) -> Run:
        """A run of a thread of its own, as a row only."""
        thread = Thread.objects.create(tenant=self.run.tenant, agent=self.run.thread.agent, key=str(new_id()))
        id = new_id()
        usual: dict[str, Any] = {
            "id": id,
            "tenant": self.run.tenant,
            "thread": thread,
            "agent_version": self.run.agent_version,
            "lineage_id": id,
            "root_run_id": id,
            "admission_key": str(new_id()),
            "status": status,
            "hold_reason": "BUDGET" if status == "HELD" else None,
            "ended_at": timezone.now() if status in ENDED_RUN else None,
        }
        return made(Run, **(usual | differently))

    def fork(self, **differently: Any) -> Run:
        """A fork of the run at its first revision, as a row only."""
        descent: dict[str, Any] = {"origin": "FORKED", "forked_from": self.run, "forked_from_revision": 1}
        return self.another_run(**({"lineage_id": self.run.lineage_id} | descent | differently))

    def continuation(self, **differently: Any) -> Run:
        """A run that continues the run, as a row only."""
        descent: dict[str, Any] = {"origin": "CONTINUED", "continued_from": self.run, "lineage_id": self.run.lineage_id}
        return self.another_run(**(descent | differently))

    def child(self, **differently: Any) -> Run:
        """A child of the run, as a row only."""
        descent: dict[str, Any] = {"origin": "CHILD", "parent_run": self.run, "root_run_id": self.run.root_run_id}
        return self.another_run(**({"lineage_id": self.run.lineage_id} | descent | differently))

    def another_call(self, status: str = "PROPOSED", **differently: Any) -> ToolCall:
        """A call of the run in a state."""
        usual: dict[str, Any] = {
            "tenant_id": self.run.tenant_id,
            "run_id": self.run.id,
            "ordinal": 99,
            "tool": "once",
            "effect_class": "NON_IDEMPOTENT",
            "step_name": "once/x",
            "args_digest": DIGEST,
            "args": b"",
            "data_key_id": new_id(),
            "idempotency_key": new_id().hex * 2,
            "intent_key": DIGEST,
            "status": status,
            "attempts": 1,
            "retry_at": timezone.now() if status == "RETRY_WAIT" else None,
            "proposed_revision": 1,
            "turn_no": 1,
        }
        return made(ToolCall, **(usual | differently))

    def another_wait(self, status: str = "OPEN", **differently: Any) -> Wait:
        """A wait of the run in a state, bound to its first revision."""
        usual: dict[str, Any] = {
            "tenant_id": self.run.tenant_id,
            "run_id": self.run.id,
            "checkpoint_revision": 1,
            "checkpoint_digest": self.run.checkpoints.get(revision=1).digest,
            "args_digest": DIGEST,
            "kind": "QUESTION" if status == "ANSWERED" else "APPROVAL",
            "status": status,
            "opened_fence": 1,
            "deadline": timezone.now(),
        }
        if "tool_call" not in differently:
            usual["tool_call"] = self.another_call()
        return made(Wait, **(usual | differently))

    def decide(self, wait: Wait, verdict: str) -> Decision:
        """The decision of an open wait, on exactly what it is bound to, with the vote that it rests on. One that answers makes
        the wait a question.
        """
        if verdict in OF_A_QUESTION:
            sql_past_triggers("UPDATE approvals_wait SET kind = 'QUESTION' WHERE id = %s", wait.id)
        if verdict == "ANSWER":
            Answer.objects.create(wait=wait, kind="TEXT", digest=DIGEST, size=1, body=b"", data_key_id=new_id())
        said: dict[str, Any] = {
            "wait": wait,
            "verdict": verdict,
            "seen_revision": wait.checkpoint_revision,
            "seen_digest": wait.checkpoint_digest,
            "seen_args_digest": wait.args_digest,
            "reason": "as shown",
            "actor": "person:ada",
        }
        Vote.objects.create(voice="person:ada", **said)
        return Decision.objects.create(**said)

    def another_publication(self, status: str) -> Publication:
        """A publication of the run's newest report version in a state."""
        return made(
            Publication,
            tenant_id=self.run.tenant_id,
            report_version=ReportVersion.objects.filter(run=self.run).latest("version_no"),
            channel="elsewhere",
            tool_call=self.another_call(),
            status=status,
        )

    def another_obligation(self, status: str) -> Obligation:
        """An obligation of the run in a state."""
        return made(
            Obligation,
            tenant_id=self.run.tenant_id,
            run=self.run,
            step_name="once/x",
            status=status,
            fulfilled_by=new_id(),
            released_by="person:x",
            release_reason="because",
        )

    def another_commitment(self, status: str) -> Commitment:
        """A constraint of the run in a state."""
        withdrawn = status == "WITHDRAWN"
        return made(
            Commitment,
            tenant_id=self.run.tenant_id,
            run=self.run,
            kind="CONSTRAINT",
            statement="Post nothing.",
            source_kind="PERSON",
            source_ref="person:x",
            source_version="start",
            accepted_revision=1,
            status=status,
            withdrawn_by="person:x" if withdrawn else None,
            withdrawal_reason="because" if withdrawn else "",
            withdrawn_at=timezone.now() if withdrawn else None,
        )

    def another_flag(self, status: str = "OPEN") -> Contradiction:
        """A flag on the run's call, open or closed."""
        closed = status == "CLOSED"
        return made(
            Contradiction,
            tenant_id=self.run.tenant_id,
            tool_call=self.call,
            attempt_no=1,
            source="HUMAN",
            accepted="EXECUTED",
            says="NOT_EXECUTED",
            evidence="Nothing is there.",
            raised_by="person:x",
            closing="NOTED" if closed else None,
            closed_by="person:x" if closed else None,
            closed_at=timezone.now() if closed else None,
        )

    def remember(self) -> None:
        """A memory item of the run, and progress of a workspace that a run was given."""
        workspace = Workspace.objects.create(tenant=self.run.tenant, title=str(new_id()))
        self.another_run(workspace=workspace)
        body: dict[str, Any] = {"tenant": self.run.tenant, "source_run": self.run, "body": b"", "data_key_id": new_id()}
        MemoryItem.objects.create(subject="x", sha256=DIGEST, source_call_id=self.call.id, **body)
        WorkspaceProgress.objects.create(
            workspace=workspace, version=1, sha256=DIGEST, report_version_id=new_id(), **body
        )

    def lapse(self) -> Lapse:
        """What the run's call observed has lapsed."""
        return Lapse.objects.create(
            tool_call=self.call,
            tenant_id=self.run.tenant_id,
            run=self.run,
            step_name=self.call.step_name,
            observed_at=timezone.now(),
            half_life_seconds=1,
        )

    def another_stop(self, status: str, **differently: Any) -> ControlRequest:
        """A stop of the run in a state."""
        return made(
            ControlRequest,
            tenant_id=self.run.tenant_id,
            run=self.run,
            status=status,
            adopted_at=timezone.now(),
            settled_at=timezone.now() if status in ("SETTLED", "MOOT") else None,
            **differently,
        )

    def another_scope(self, **of: Any) -> ScopeControl:
        """A stop of an agent or of a thread that stands."""
        scope = "AGENT" if "agent" in of else "THREAD"
        return made(
            ScopeControl, tenant=self.run.tenant, kind="STOP", scope=scope, reason="x", requested_by="person:x", **of
        )

    def another_bulk(self, status: str = "PENDING") -> BulkItem:
        """The run as the only one of an act on many."""
        usual: dict[str, Any] = {"tenant": self.run.tenant}
        bulk = made(
            Bulk,
            act="STOP",
            reason="x",
            query="",
            digest=DIGEST,
            total=1,
            requested_by="person:x",
            door="page",
            **usual,
        )
        closed_at = None if status == "PENDING" else timezone.now()
        return made(
            BulkItem,
            bulk=bulk,
            run=self.run,
            place=BulkItem.objects.count() + 1,
            status=status,
            closed_at=closed_at,
            **usual,
        )

    def another_view(self) -> SavedView:
        """A list that a person of the run's tenant keeps."""
        membership = Membership.objects.filter(tenant=self.run.tenant)[0]
        return made(
            SavedView, tenant=self.run.tenant, membership=membership, listed="runs", name=str(new_id()), query=""
        )

    def another_tag(self) -> RunTag:
        """One of its tags."""
        return made(RunTag, tenant=self.run.tenant, run=self.run, tag=new_id().hex, place=1)

    def look_into(self, call: ToolCall) -> None:
        """A probe, a file and a first word about a call."""
        about: dict[str, Any] = {"tenant": self.run.tenant, "tool_call": call}
        made(Probe, attempt_no=1, asked_by="person:x", **about)
        made(Attachment, filename="x", sha256=DIGEST, size=1, added_by="person:x", **about)
        word = {"seen_attempts": 1, "verdict": "EXECUTED", "follow_up": "NONE", "evidence": "x", "actor": "person:x"}
        made(FirstWord, **word, **about)

    def another_endpoint(self) -> Endpoint:
        """Where a person of the run's tenant hears of things."""
        return made(
            Endpoint,
            tenant=self.run.tenant,
            membership=Membership.objects.filter(tenant=self.run.tenant)[0],
            kind="MAIL",
            name="x",
            shown="x",
            address=b"",
            data_key=DataKey.objects.filter(tenant=self.run.tenant)[0],
            hears=["OPENED"],
            created_by="person:x",
        )

    def run_with_head_in(self, phase: str) -> Run:
        """A run whose head is at revision 5 in a phase, put there past the triggers, and a revision 6 to move it to."""
        run = self.another_run()
        sql("SET LOCAL session_replication_role = replica")
        Head.objects.create(run=run, revision=5, digest=DIGEST, phase=phase, trigger="CURSOR")
        Checkpoint.objects.create(
            save_id=new_id(),
            tenant_id=run.tenant_id,
            run=run,
            revision=6,
            parent_digest=DIGEST,
            format_version=1,
            phase=phase,
            next_node="think",
            trigger="CURSOR",
            fence=1,
            intent_version=1,
            digest=DIGEST,
            body=b"",
            data_key_id=new_id(),
            body_bytes=0,
        )
        sql("SET LOCAL session_replication_role = origin")
        return run


MOVE_HEAD = "UPDATE checkpoints_head SET revision = %s, phase = %s, trigger = %s WHERE run_id = %s"


def refused(what: str, statement: str, *params: Any) -> None:
    """The database refuses a statement, saying so. Nothing of it stays, and the transaction goes on."""
    refused_in(what, lambda: sql(statement, *params))


def refused_in(what: str, act: Callable[[], Any]) -> None:
    """The database refuses what an act writes, at once or at the latest at the commit."""
    with pytest.raises(DatabaseError, match=what), transaction.atomic():
        _checked(act)


def _checked(act: Callable[[], Any]) -> None:
    act()
    connection.check_constraints()


def columns_of(table: str) -> list[str]:
    """The columns of a table, in order."""
    rows = sql(
        "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped "
        "AND attgenerated = '' "
        "ORDER BY attnum",
        table,
    )
    return [name for (name,) in rows]


def has_rows(table: str) -> bool:
    """Whether a table has any row."""
    return bool(sql(f"SELECT EXISTS (SELECT FROM {table})")[0][0])
