"""What the acts by keyboard are done to: each makes what it needs, so that none stands in the way of another one."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
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
from runs.states import Scope, ScopeKind
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
    Upload,
    VerdictRequest,
    call_contradict,
    call_reconcile,
    endpoint_add,
    endpoint_hold,
    named_scope,
    run_pause,
    run_start,
    run_stop,
    scope_pause,
    scope_stop,
    tool_grant,
    wait_decide,
)
from tests.agents import AGENTS
from tests.engine.engine import demand
from tests.pages import story
from tests.pages.driven import ALDER, BIRCH, Driven, Outside, asking, in_flight, lost, published, started, waiting
from tests.scripted import SCRIPT, calls, done

POLICY = """[[rule]]
name = "nothing here asks more"
tools = ["no_such_tool"]
then = "ask"
"""


SAID = {"title": "Two funds", "summary": "They share a holding."}


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

    def on_its_way(self) -> tuple[Run, ExitStack]:
        """A run whose approved call is sent and not answered, until what comes with it is closed."""
        run = self.waiting()
        kept = ExitStack()
        kept.enter_context(in_flight(run, self.outside))
        return run.run, kept

    # ── what waits for a person ──

    def asking(self) -> Wait:
        return asking(self.ann).wait

    def asked(self, answer: str, form: dict[str, Any] | None = None) -> Wait:
        """A question that is answered so."""
        more = {"form": form} if form else {}
        asks = ("ask_person", {"question": "Which lines?", "why": "Both are named.", "answer": answer, **more})
        with self._told(calls(asks), done()) as run:
            return run.wait

    @contextmanager
    def _told(self, *turns: Any, **inputs: Upload) -> Iterator[Driven]:
        """A run whose turns are these, driven until it waits. While it is open it can be driven on."""
        with override_settings(AGENTS=AGENTS):
            agents.cache_clear()
            SCRIPT.tell(*turns)
            run = run_start(actor=self.ann, wanted=StartRequest("told", inputs))
            assert isinstance(run, Started), run
            drive(run.run_id)
            yield Driven(self.ann, run.run_id)
            SCRIPT.clear()
        agents.cache_clear()

    def voted(self) -> Wait:
        """One of two has voted, and it was Ann."""
        wait = demand(self.waiting().wait, quorum=2)
        seen = Seen(wait.checkpoint_revision, wait.checkpoint_digest, wait.args_digest)
        outcome = wait_decide(
            actor=self.ann, wait_id=wait.id, verdict=DecisionVerdict.APPROVE, seen=seen, reason="Looked at."
        )
        assert not isinstance(outcome, Refused), outcome
        return wait

    def fit(self, title: str) -> Wait:
        """One that the policy lets be approved together with others."""
        return demand(waiting(self.ann, title=title).wait, risk="LOW", batchable=True)

    def unknown(self) -> ToolCall:
        return lost(self.ann, self.outside).publishing

    def askable(self) -> ToolCall:
        """One of which nobody knows, either; its other side knows its key, and can be asked for it."""
        a, b = (Upload(f"{name}.csv", text.encode()) for name, text in (("a", ALDER), ("b", BIRCH)))
        turns = [
            calls(("read_disclosure", {"input": "a"}), ("read_disclosure", {"input": "b"})),
            calls(("compute_overlap", {})),
            calls(("send_answer_part", {"version": 1, **SAID})),
            calls(("publish_report_queryable", {"channel": "wiki", "report_version": 2, **SAID})),
        ]
        with self._told(*turns, a=a, b=b) as run:
            run.decide("APPROVE")
            self.outside.tell(mode="drop", times=1, lookup=False)
            run.go_on()
        call = ToolCall.objects.get(run_id=run.id, tool="publish_report_queryable")
        assert call.status == "UNCERTAIN", call
        return call

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
        scope = self._thread(self.published().run)
        return self._standing(scope_pause(actor=self.ann, scope=scope, reason="Looked at."))

    def scope_stopped(self, run: Run) -> UUID:
        """A stop of the thread of a run."""
        return self._standing(scope_stop(actor=self.ann, scope=self._thread(run), reason="Looked at."))

    def _thread(self, run: Run) -> Scope:
        return named_scope(actor=self.ann, kind=ScopeKind.THREAD, of=str(run.thread_id))

    @staticmethod
    def _standing(outcome: ScopeState | Refused) -> UUID:
        assert isinstance(outcome, ScopeState), outcome
        return outcome.control_id

    def endpoint(self, *, paused: bool = False) -> UUID:
        wanted = EndpointRequest("WEBHOOK", uuid4().hex, "http://127.0.0.1:9/", whole_tenant=True)
        added = endpoint_add(actor=self.ann, wanted=wanted)
        assert isinstance(added, EndpointAdded), added
        if paused:
            endpoint_hold(actor=self.ann, endpoint_id=added.endpoint_id)
        return added.endpoint_id
