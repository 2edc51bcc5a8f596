"""The one running system that the scenarios share: what a test starts, decides, breaks and waits for in it."""

import json
import os
import signal
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

from celery import current_app
from kombu.connection import Connection

from accounts.errors import Refused
from accounts.models import Tenant
from accounts.selectors import actor_named
from accounts.services import member_set, tenant_create
from accounts.states import Actor, Role
from approvals.models import Wait
from approvals.services import Decided, Seen, Voted
from approvals.states import DecisionVerdict
from receipts.models import ToolCall
from receipts.states import FollowUp, Verdict
from runs.models import Run
from runs.wakeups import LOOK_TASK
from runtime.services import (
    GoalRevised,
    Reconciled,
    Released,
    Started,
    StartRequest,
    StopState,
    Upload,
    VerdictRequest,
    call_reconcile,
    goal_revise,
    obligation_release,
    run_resume,
    run_start,
    run_stop,
    wait_decide,
)
from tests.stack import Process, Stack
from tests.waiting import wait_until

ROWS = "date,fund,company,ticker,shares,market value($),weight(%)\n"
ALDER = ROWS + (
    "2026-06-30,ALDR,NORTHWIND GRID CO,NWGC,100,6000,60.0\n"
    "2026-06-30,ALDR,CINDERFORD STORAGE,CNDF,100,3950,39.5\n"
    "2026-06-30,ALDR,US DOLLAR CASH,,50,50,0.5\n"
)
BIRCH = ROWS + (
    "2026-06-30,BRCH,NORTHWIND GRID CO,NWGC,100,4500,45.0\n"
    "2026-06-30,BRCH,QUARRY ROBOTICS,QRYR,100,5500,55.0\n"
)  # fmt: skip
WORKERS = 2
POOL = 4
APPROVER = "operator"
SECOND_APPROVER = "second"
RECONCILER = "reconciler"


@dataclass(frozen=True)
class Order:
    """An order to die or freeze at a fault point."""

    stack: Stack
    name: str

    def wait(self) -> int:
        """Wait until a process has taken it; its id."""
        return self.stack.wait_hit(self.name)

    def taken(self) -> bool:
        """Whether a process has taken it."""
        return any(self.stack.fault_dir.glob(f"{self.name}.hit.*"))


@dataclass
class World:
    """Two workers with pools, the clock and the outside world on one database; and what one does with them."""

    stack: Stack
    tenant: Tenant
    workers: list[Process] = field(default_factory=list)
    beat: Process | None = None
    outside: Process | None = None
    blamed: set[tuple[str, str]] = field(default_factory=set)  # broken sentences that a test has been blamed for
    read_through: set[UUID] = field(default_factory=set)  # ended runs whose requests have been checked

    # ── processes ───────────────────────────────────────────────────────────────

    def start_processes(self) -> None:
        """Start what does not run."""
        if self.outside is None:
            self.outside = self.stack.start_outside()
        self.workers += self.stack.start_workers(WORKERS - len(self.workers), concurrency=POOL)
        if self.beat is None:
            self.beat = self.stack.start_beat()

    @property
    def nodes(self) -> list[str]:
        """The Celery names of the workers."""
        return [worker.node for worker in self.workers]

    def kill_worker(self, index: int) -> None:
        """kill -9 of a worker with its whole pool; `start_processes` replaces it."""
        self.workers.pop(index).kill()

    def wait_drained(self, worker: Process) -> None:
        """Wait until a worker that was sent SIGTERM has heard it."""
        wait_until(lambda: "Warm shutdown" in worker.log(), f"{worker.name} begins to stop")

    def stop_beat(self) -> None:
        """Without the clock nothing sends a lost hint again."""
        if self.beat is not None:
            self.beat.stop()
            self.beat = None

    def tidy(self) -> None:
        """Take back orders that nobody took, and have the outside world behave."""
        for order in self.stack.fault_dir.iterdir():
            order.unlink()
        for target in ("wiki", "reference", "evidence"):
            self.tell_outside(mode="ok", **{"for": target})

    def kill_at(self, point: str, subject: str = "") -> Order:
        """Have the next process that reaches the point SIGKILL itself."""
        return Order(self.stack, self.stack.order("KILL", point, subject))

    def freeze_at(self, point: str, subject: str = "") -> Order:
        """Have the next process that reaches the point SIGSTOP itself."""
        return Order(self.stack, self.stack.order("STOP", point, subject))

    # ── the outside world ───────────────────────────────────────────────────────

    def tell_outside(self, **switches: Any) -> None:
        """Set how the outside world treats the next requests (see outside.control)."""
        self._outside("control", json.dumps(switches).encode())

    def outside_counts(self) -> dict[str, Any]:
        """What the outside world really did."""
        counts: dict[str, Any] = self._outside("counts")
        return counts

    def executions(self, call: ToolCall) -> int:
        """How often the wiki executed the key of a call."""
        return int(self.outside_counts()["wiki"]["keys"].get(call.idempotency_key, 0))

    def readings(self, call: ToolCall) -> int:
        """How often the reference sheet was read under the key of a call."""
        return int(self.outside_counts()["reference"]["keys"].get(call.idempotency_key, 0))

    def wait_held(self, target: str) -> None:
        """Wait until a request hangs in the outside world."""
        wait_until(lambda: self.outside_counts()["held"][target], f"a request to {target} hangs")

    def _outside(self, path: str, body: bytes | None = None) -> Any:
        request = urllib.request.Request(f"{self.stack.outside_url}/{path}", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.load(answer)

    # ── acts of people ──────────────────────────────────────────────────────────

    def person(self, name: str = APPROVER) -> Actor:
        """An operator who may do everything that this path needs."""
        return actor_named(username=name, door="page")

    def start_run(
        self, *, policy: str = "RESUME_IN_PLACE", lines_without_ticker: bool = True, agent: str = "fund_comparison"
    ) -> UUID:
        """Start a fund comparison on two small disclosures, or another agent that takes them."""
        cash = ALDER if lines_without_ticker else ALDER.rpartition("2026")[0]
        inputs = {"a": Upload("alder.csv", cash.encode()), "b": Upload("birch.csv", BIRCH.encode())}
        wanted = StartRequest(agent, inputs, recovery_policy=policy)
        started = run_start(actor=self.person(), wanted=wanted)
        assert isinstance(started, Started), started
        return started.run_id

    def run_to_wait(self) -> tuple[UUID, Wait]:
        """Start a run and wait until it asks for its approval."""
        run_id = self.start_run()
        return run_id, self.open_wait(run_id)

    def open_wait(self, run_id: UUID) -> Wait:
        """Wait until the run is WAITING; the wait that is open."""
        self.wait_status(run_id, "WAITING")
        return Wait.objects.get(run_id=run_id, status="OPEN")

    def decide(
        self, wait: Wait, verdict: str = "APPROVE", *, by: str = APPROVER, seen: Seen | None = None
    ) -> Decided | Voted | Refused:
        """Decide a wait with what it is bound to, or with what was `seen`."""
        seen = seen or Seen(wait.checkpoint_revision, wait.checkpoint_digest, wait.args_digest)
        return wait_decide(
            actor=self.person(by), wait_id=wait.id, verdict=DecisionVerdict(verdict), seen=seen, reason="read it"
        )

    def approve(self, wait: Wait) -> None:
        """Approve a wait; it must be accepted."""
        decided = self.decide(wait)
        assert isinstance(decided, Decided), decided

    def stop(self, run_id: UUID) -> StopState:
        """Stop a run; it must be accepted."""
        state = run_stop(actor=self.person(), run_id=run_id, reason="not needed any more")
        assert isinstance(state, StopState), state
        return state

    def reconcile(
        self, call: ToolCall, verdict: str, *, then: str = "NONE", ref: str = "", by: str = APPROVER
    ) -> Reconciled | Refused:
        """Say what became of a call of unknown outcome."""
        said = VerdictRequest(Verdict(verdict), "looked at the wiki's own list", ref, FollowUp(then))
        return call_reconcile(actor=self.person(by), call_id=call.id, said=said)

    def revise_goal(self, run_id: UUID, goal: str) -> GoalRevised:
        """Revise the goal of a run that nobody holds."""
        revised = goal_revise(actor=self.person(), run_id=run_id, goal=goal, reason="asked for less")
        assert isinstance(revised, GoalRevised), revised
        return revised

    def release(self, obligation_id: UUID) -> None:
        """Release a promise."""
        released = obligation_release(actor=self.person(), obligation_id=obligation_id, reason="not needed")
        assert isinstance(released, Released), released

    # ── waiting ─────────────────────────────────────────────────────────────────

    def wait_status(self, run_id: UUID, *statuses: str, seconds: float = 30.0) -> Run:
        """Wait until the run has one of these statuses; the run. A run that ended otherwise fails at once."""

        def reached() -> Run | None:
            run = Run.objects.get(id=run_id)
            assert run.ended_at is None or run.status in statuses, f"run {run_id} ended {run.status}: {run.end_reason}"
            return run if run.status in statuses else None

        return wait_until(reached, f"run {run_id} is {' or '.join(statuses)}", seconds)  # type: ignore[return-value]

    def deliveries(self) -> tuple[int, int]:
        """How many hints the workers have taken so far, and how many they are working on."""
        with self._broker() as broker:
            asked = current_app.control.inspect(destination=self.nodes, timeout=5, connection=broker)
            stats, active, reserved = asked.stats(), asked.active(), asked.reserved()
        taken = sum(stats[node]["total"].get(LOOK_TASK, 0) for node in self.nodes)
        under_way = [task["name"] for node in self.nodes for task in (*active[node], *reserved[node])]
        return taken, under_way.count(LOOK_TASK)  # the sweep comes when it is due

    def deliver(self, run_id: UUID, times: int) -> None:
        """Send the hint of a run so many times."""
        with self._broker() as broker:
            for _ in range(times):
                current_app.send_task(LOOK_TASK, args=[str(run_id)], connection=broker)

    def send(self, task: str, *, queue: str) -> None:
        """Have a task done now, as the clock does at its time."""
        with self._broker() as broker:
            current_app.send_task(task, queue=queue, connection=broker)

    def _broker(self) -> Connection:
        """A fresh connection: the ones that this process keeps may be to a broker that a test has killed."""
        fresh: Connection = current_app.connection_for_write()
        return fresh

    # ── an honest operator ──────────────────────────────────────────────────────

    def attend(self, run_id: UUID) -> bool:
        """Do what the run needs of a person now: approve, look an unknown call up, try it again. True once it ended."""
        run = Run.objects.get(id=run_id)
        wait = Wait.objects.filter(run_id=run_id, status="OPEN").first()
        if run.status == "WAITING" and wait is not None:
            self.decide(wait)
        elif run.hold_reason == "UNCERTAIN_CALL":
            self._look_up(run_id)
        elif run.hold_reason == "TAKEOVER_LIMIT":
            run_resume(actor=self.person(), run_id=run_id, reason="the machine was repaired")
        else:
            assert run.status != "HELD", f"run {run_id} is held: {run.hold_reason} {run.hold_detail}"
        return run.ended_at is not None

    def _look_up(self, run_id: UUID) -> None:
        call = ToolCall.objects.filter(run_id=run_id, status="UNCERTAIN", blocking=True).first()
        if call is not None and self.executions(call):
            self.reconcile(call, "EXECUTED", ref="seen on the wiki")
        elif call is not None:
            self.reconcile(call, "NOT_EXECUTED", then="RETRY")

    def finish(self, run_id: UUID) -> None:
        """Attend to a run until it has ended."""
        wait_until(lambda: self.attend(run_id), f"run {run_id} ends")

    def reach(self, order: Order, run_id: UUID) -> int:
        """Attend to a run until a process has taken the order; its id."""
        wait_until(lambda: order.taken() or (self.attend(run_id) and order.taken()), f"{order.name} is reached")
        return order.wait()


@contextmanager
def running_world(stack: Stack) -> Iterator[World]:
    """A tenant with two operators, and everything started. Stopped by the stack's owner."""
    tenant = tenant_create(slug=f"scenarios-{uuid4().hex[:8]}", name="Scenarios")
    roles = frozenset({Role.OPERATOR, Role.APPROVER, Role.RECONCILER})
    for name in (APPROVER, SECOND_APPROVER):
        member_set(tenant=tenant, username=name, password=None, roles=roles)
    member_set(tenant=tenant, username=RECONCILER, password=None, roles=frozenset({Role.RECONCILER}))
    world = World(stack, tenant)
    world.start_processes()
    yield world


def thaw(pid: int) -> None:
    """Let a process that froze itself at a fault point go on."""
    os.kill(pid, signal.SIGCONT)
