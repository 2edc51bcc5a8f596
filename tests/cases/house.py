"""The house in which the cases happen: its people, its policy, and what one does with a run before anybody looks at it."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from django.test import override_settings

from accounts.errors import Refused
from accounts.models import Tenant
from accounts.selectors import actor_named
from accounts.services import member_set, tenant_create
from accounts.states import Actor, Role
from approvals.models import Wait
from approvals.services import Decided, PolicyActivated, PolicySaved, Seen, Voted, policy_activate, policy_save
from approvals.states import DecisionVerdict
from receipts.models import ToolCall
from runs.models import Run
from runtime.loop import drive
from runtime.registry import agents
from runtime.services import Started, StartRequest, run_start, wait_decide
from tests.cases.agents import FOLDER, Turn, tell
from tests.pages.driven import Outside, driving

OPERATOR = "operator"
COLLEAGUE = "h.lindqvist"  # who has worked here before the operator came
OTHER = "b.osei"  # somebody else, who does something while the operator looks
TENANT = "larkspur"
POLICY = """[amounts]
pay = "amount"

[[rule]]
name = "reads go"
effects = ["READ_ONLY"]
then = "allow"

[[rule]]
name = "money that leaves the house"
tools = ["pay", "buy_currency", "set_limit"]
then = "ask"
risk = "high"
deadline = "20h"

[[rule]]
name = "two people let somebody into a system"
tools = ["grant_access"]
then = "ask"
people = 2
deadline = "20h"

[[rule]]
name = "filing is routine"
tools = ["file_document"]
then = "ask"
risk = "low"
batch = true
deadline = "20h"

[[rule]]
name = "everything else that leaves the house"
then = "ask"
deadline = "20h"
"""


@dataclass
class House:
    """A tenant with a past. `made` is what each case has made, by its number: the runs that it is about."""

    tenant: Tenant
    outside: Outside
    made: dict[int, list[UUID]] = field(default_factory=dict)

    def person(self, name: str = COLLEAGUE) -> Actor:
        return actor_named(username=name, door="page")

    # ── runs ──

    def start(self, title: str, goal: str, *turns: Turn, agent: str = "desk", by: str = COLLEAGUE) -> UUID:
        """A run that says and proposes this turn by turn, driven as far as it goes."""
        tell(goal, turns)
        wanted = StartRequest(agent, {}, goal=goal, title=title, key=str(uuid4()))
        started = run_start(actor=self.person(by), wanted=wanted)
        assert isinstance(started, Started), started
        drive(started.run_id)
        return started.run_id

    def done(self, title: str, goal: str, *turns: Turn, agent: str = "desk", reason: str = "As ordered.") -> UUID:
        """The same, with everything that it asked for approved by a colleague, to its end."""
        run_id = self.start(title, goal, *turns, agent=agent)
        while Run.objects.get(id=run_id).status == "WAITING":
            for wait in Wait.objects.filter(run_id=run_id, status="OPEN"):
                self.decide(wait, "APPROVE", reason=reason)
                if wait.quorum > 1:
                    self.decide(wait, "APPROVE", by=OTHER, reason=reason)
            drive(run_id)
        assert Run.objects.get(id=run_id).status == "COMPLETED", Run.objects.get(id=run_id)
        return run_id

    def decide(self, wait: Wait, verdict: str, *, by: str = COLLEAGUE, reason: str = "Looked at.") -> None:
        """Decide a wait as somebody who has seen exactly what it is bound to."""
        seen = Seen(wait.checkpoint_revision, wait.checkpoint_digest, wait.args_digest)
        said = wait_decide(
            actor=self.person(by), wait_id=wait.id, verdict=DecisionVerdict(verdict), seen=seen, reason=reason
        )
        assert isinstance(said, Decided | Voted), said

    def wait(self, run_id: UUID) -> Wait:
        """The wait of a run that was opened last."""
        return Wait.objects.filter(run_id=run_id).latest("opened_at")

    def lost(
        self, title: str, goal: str, *turns: Turn, executed: bool, tool: str, by: str = COLLEAGUE
    ) -> tuple[UUID, ToolCall]:
        """A run whose call was approved and sent, and never answered: whether it happened knows the other side alone."""
        run_id = self.start(title, goal, *turns, by=by)
        self.decide(self.wait(run_id), "APPROVE")
        self.outside.tell(mode="drop", times=1, execute=executed)
        drive(run_id)
        call = ToolCall.objects.get(run_id=run_id, tool=tool)
        assert call.status == "UNCERTAIN", call
        return run_id, call

    def go_on(self, run_id: UUID) -> None:
        """What a worker does when it takes the run."""
        drive(run_id)


def proposes(tool: str, said: str = "", /, **arguments: Any) -> Turn:
    """A turn that says something and proposes one call."""
    return said, ((tool, arguments),)


def also(*turns: Turn, text: str = "") -> Turn:
    """One turn that proposes what all of these do."""
    return text, tuple(call for _, calls in turns for call in calls)


def accepted(outcome: Any) -> Any:
    """What an act of a person gave, which was not refused."""
    assert not isinstance(outcome, Refused), outcome.sentence
    return outcome


def house_of(outside: Outside, password: str | None) -> House:
    """The tenant with its people and its policy in force; the operator signs in with this password."""
    tenant = tenant_create(slug=TENANT, name="Larkspur Trading")
    roles = frozenset({Role.OPERATOR, Role.APPROVER, Role.RECONCILER})
    member_set(tenant=tenant, username=OPERATOR, password=password, roles=roles)
    for name in (COLLEAGUE, OTHER):
        member_set(tenant=tenant, username=name, password=None, roles=roles | {Role.GOVERNANCE})
    house = House(tenant, outside)
    saved = policy_save(actor=house.person(), text=POLICY, summary="What leaves the house is asked for.")
    assert isinstance(saved, PolicySaved), saved
    in_force = policy_activate(actor=house.person(), number=saved.number, seen=0, reason="The house's own rules.")
    assert isinstance(in_force, PolicyActivated), in_force
    outside.tell(mode="ok", lookup=True)
    return house


@contextmanager
def under(outside: Outside, agent_paths: Sequence[str]) -> Iterator[None]:
    """Drive runs in this process with these agents installed."""
    agents.cache_clear()
    try:
        with override_settings(**driving(outside), AGENTS=list(agent_paths)):
            yield
    finally:
        agents.cache_clear()


def in_folder(folder: Path) -> None:
    """Where the turns of the cases are kept for every process that continues their runs."""
    folder.mkdir(parents=True, exist_ok=True)
    os.environ[FOLDER] = str(folder)
