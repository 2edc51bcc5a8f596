"""What the acts by keyboard are done to: each makes what it needs, so that none stands in the way of another one."""

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from django.test import override_settings
from django.utils import timezone

from accounts.errors import Refused
from accounts.models import SavedView, Tenant
from accounts.services import view_save
from accounts.states import Actor
from approvals.models import Wait
from approvals.services import (
    Delegated,
    DelegationWanted,
    GrantGiven,
    PolicySaved,
    Seen,
    delegation_give,
    policy_save,
)
from approvals.states import DecisionVerdict
from receipts.models import Contradiction, ToolCall
from receipts.states import Verdict
from runs.models import Run
from runs.states import ScopeKind
from runtime.loop import drive
from runtime.registry import agents
from runtime.services import (
    EndpointAdded,
    EndpointRequest,
    EvidenceGiven,
    GrantRequest,
    ScopeState,
    Started,
    StartRequest,
    VerdictRequest,
    call_contradict,
    call_reconcile,
    endpoint_add,
    named_scope,
    run_pause,
    run_start,
    run_stop,
    scope_pause,
    tool_grant,
    wait_decide,
)
from tests.agents import AGENTS
from tests.engine.engine import demand
from tests.pages import story
from tests.pages.driven import Driven, Outside, asking, lost, published, started, waiting
from tests.scripted import SCRIPT, calls, done

POLICY = """[[rule]]
name = "nothing here asks more"
tools = ["no_such_tool"]
then = "ask"
"""


@dataclass(frozen=True)
class House:
    """Where it is, who is there, and what can be made."""

    site: str
    ann: Actor
    ben: Actor
    outside: Outside
    folder: Path

    # ── runs ──

    def queued(self) -> Run:
        return started(self.ann, title=f"by hand {uuid4().hex[:6]}").run

    def waiting(self, by: Actor | None = None) -> Driven:
        return waiting(by or self.ann, title=f"by hand {uuid4().hex[:6]}")

    def published(self) -> Driven:
        return published(self.ann)

    def spent(self) -> Run:
        """Held, since it may call no model any more."""
        return story.held(self.tenant, timezone.now(), "BUDGET", "Spent", "tokens: 800 needed, 0 of 1000 left").run

    def paused(self) -> Run:
        run = self.queued()
        run_pause(actor=self.ann, run_id=run.id, reason="Later.")
        return run

    def stopped(self) -> Run:
        run = self.queued()
        run_stop(actor=self.ann, run_id=run.id, reason="Enough.")
        return Run.objects.get(id=run.id)

    @property
    def tenant(self) -> Tenant:
        return Tenant.objects.get(id=self.ann.tenant_id)

    # ── what waits for a person ──

    def asking(self) -> Wait:
        return asking(self.ann).wait

    def asked(self, answer: str, form: dict[str, Any] | None = None) -> Wait:
        """A question that is answered so."""
        with override_settings(AGENTS=AGENTS):
            agents.cache_clear()
            more = {"form": form} if form else {}
            SCRIPT.tell(
                calls(("ask_person", {"question": "Which lines?", "why": "Both are named.", "answer": answer, **more})),
                done(),
            )
            run = run_start(actor=self.ann, wanted=StartRequest("told", {}))
            assert isinstance(run, Started), run
            drive(run.run_id)
            SCRIPT.clear()
        agents.cache_clear()
        return Wait.objects.get(run_id=run.run_id)

    def voted(self) -> Wait:
        """One of two has voted, and it was Ann."""
        wait = demand(self.waiting().wait, quorum=2)
        seen = Seen(wait.checkpoint_revision, wait.checkpoint_digest, wait.args_digest)
        outcome = wait_decide(
            actor=self.ann, wait_id=wait.id, verdict=DecisionVerdict.APPROVE, seen=seen, reason="Looked at."
        )
        assert not isinstance(outcome, Refused), outcome
        return wait

    def unknown(self) -> ToolCall:
        return lost(self.ann, self.outside).publishing

    def judged(self) -> ToolCall:
        """Of which Ann has said that it happened."""
        call = self.unknown()
        outcome = call_reconcile(actor=self.ann, call_id=call.id, said=VerdictRequest(Verdict.EXECUTED, "It is there."))
        assert not isinstance(outcome, Refused), outcome
        return call

    def flagged(self) -> Contradiction:
        call = self.judged()
        said = EvidenceGiven(Verdict.NOT_EXECUTED, "Nothing is there.", "")
        outcome = call_contradict(actor=self.ben, call_id=call.id, said=said)
        assert not isinstance(outcome, Refused), outcome
        return Contradiction.objects.get(tool_call=call)

    # ── what people make ──

    def delegation(self) -> UUID:
        wanted = DelegationWanted(self.ben.name, timezone.now() + timedelta(days=2), "On leave.")
        given = delegation_give(actor=self.ann, wanted=wanted)
        assert isinstance(given, Delegated), given
        return given.delegation_id

    def view(self) -> SavedView:
        kept = view_save(actor=self.ann, listed="runs", name=uuid4().hex, query="status=HELD", shared=True)
        assert isinstance(kept, SavedView), kept
        return kept

    def grant(self) -> UUID:
        wanted = GrantRequest("fund_comparison", "publish_report", "args['slug'] == 'none'", hours=8, max_uses=5)
        given = tool_grant(actor=self.ann, wanted=wanted, reason="The weekly comparison.")
        assert isinstance(given, GrantGiven), given
        return given.grant_id

    def policy(self) -> int:
        saved = policy_save(actor=self.ann, text=POLICY, summary="Of no call.")
        assert isinstance(saved, PolicySaved), saved
        return saved.number

    def scope(self) -> UUID:
        """A pause of a thread of its own."""
        of = str(self.published().run.thread_id)
        standing = scope_pause(
            actor=self.ann, scope=named_scope(actor=self.ann, kind=ScopeKind.THREAD, of=of), reason="Looked at."
        )
        assert isinstance(standing, ScopeState), standing
        return standing.control_id

    def endpoint(self) -> UUID:
        wanted = EndpointRequest("WEBHOOK", uuid4().hex, "http://127.0.0.1:9/", whole_tenant=True)
        added = endpoint_add(actor=self.ann, wanted=wanted)
        assert isinstance(added, EndpointAdded), added
        return added.endpoint_id
