"""A model of runs, waits and calls against the real engine: any acts in any order, workers killed anywhere, and after each
step everything that must always hold. In the end everybody does their part, and every run has to come to its end.
"""

import os
from collections import Counter
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from accounts.audit import audit_verify
from approvals.models import Decision, Wait
from approvals.services import wait_expire
from checkpoints.models import Checkpoint
from receipts.models import Attempt, Reconciliation, ToolCall
from runs.models import Lease, Run
from runs.states import ENDED_RUN
from runtime.contracts import ModelUnknown, ToolFailed, ToolRetryable, ToolUnknown
from runtime.loop import drive, unknown
from runtime.services import run_pause
from runtime.tasks import sweep
from tests.engine.conftest import wipe
from tests.engine.engine import At, Engine, Killed, expire_lease, kill, pass_deadline
from tests.scenarios.invariants import broken_invariants
from tests.scripted import SCRIPT, calls, went_well

# Where a worker may be killed: every fault point that a drive can reach.
POINTS = [
    *("inside_acquire_tx", "after_acquire", "before_model_dispatch_commit", "after_model_dispatch_commit"),
    *("after_model_response", "after_turn_sealed", "after_decision_saved", "after_attempt_commit", "after_response"),
    *("after_tool", "inside_result_tx", "after_result_commit", "inside_wait_tx", "after_wait_opened"),
    *("before_attempt_commit", "inside_dispatch_tx", "after_wake_consumed", "after_stop_adopted"),
]
TOOLS = ["look", "note", "once", "again", "asked", "post"]
VERDICTS = [("EXECUTED", "NONE"), ("NOT_EXECUTED", "RETRY"), ("NOT_EXECUTED", "FAIL"), ("PROCEED_UNKNOWN", "NONE")]
HAPPENED: list[Callable[[str], Any]] = [
    went_well,
    lambda _: ToolUnknown("no answer"),
    lambda _: ToolRetryable("not now"),
    lambda _: ToolFailed("not possible"),
]
ROUNDS = 60

turns = st.lists(st.lists(st.sampled_from(TOOLS), min_size=1, max_size=3), min_size=1, max_size=3)
pick = st.integers(0, 1_000)


class Model(RuleBasedStateMachine):
    """Acts of people and workers on up to three runs that follow one script."""

    engine: Engine
    at_point: At

    @initialize(
        script=turns,
        first=st.lists(st.sampled_from(HAPPENED), min_size=9, max_size=9),
        found=st.sampled_from([None, True, False]),
        agent=st.sampled_from(["told", "promising", "brief"]),
    )
    def begin(self, script: list[list[str]], first: list[Callable[[str], Any]], found: bool | None, agent: str) -> None:
        """A world without runs, and what the model and the tools will say in it."""
        wipe()
        SCRIPT.clear()
        self.runs: list[UUID] = []
        self.agent = agent
        self.ends: dict[UUID, str] = {}
        self.fences: dict[UUID, int] = {}
        self.digests: dict[tuple[UUID, int], str] = {}
        self.decided: dict[UUID, str] = {}
        label = iter(f"c{n}" for n in range(9))
        answers: list[Any] = []
        outcomes = iter(first)
        for turn in script:
            proposed = [(tool, next(label)) for tool in turn]
            for tool, named in proposed:
                told = next(outcomes)
                if not (told is HAPPENED[3] and tool == "note"):
                    SCRIPT.do(named, told(named), went_well(named))
                SCRIPT.find(named, went_well(named) if found else found)
            answers.append([ModelUnknown("no answer"), calls(*proposed)] if len(proposed) == 3 else calls(*proposed))
        SCRIPT.tell(*answers)

    def run_at(self, n: int) -> UUID:
        return self.runs[n % len(self.runs)]

    # ── workers ──

    @precondition(lambda self: len(self.runs) < 3)
    @rule()
    def start(self) -> None:
        self.runs.append(self.engine.start(self.agent))

    @precondition(lambda self: self.runs)
    @rule()
    def work(self) -> None:
        for run_id in self.runs:
            drive(run_id)

    @precondition(lambda self: self.runs)
    @rule(n=pick, point=st.sampled_from(POINTS), noticed=st.booleans())
    def work_and_be_killed(self, n: int, point: str, noticed: bool) -> None:
        """`noticed`: the lease of the dead worker ends at once, as where its lock is watched."""
        queued = list(Run.objects.filter(status="QUEUED").order_by("created_at").values_list("id", flat=True))
        run_id = queued[n % len(queued)] if queued else self.run_at(n)
        self.at_point(point, kill)
        try:
            drive(run_id)
        except Killed:
            if noticed:
                end_lease(run_id)
        finally:
            self.at_point(point, lambda: None)

    @precondition(lambda self: self.runs)
    @rule(n=pick)
    def lose_the_lease(self, n: int) -> None:
        end_lease(self.run_at(n))

    @rule()
    def sweep(self) -> None:
        sweep()

    # ── people ──

    @precondition(lambda self: self.runs)
    @rule(n=pick, verdict=st.sampled_from(["APPROVE", "REJECT"]))
    def decide(self, n: int, verdict: str) -> None:
        waits = list(Wait.objects.filter(run_id__in=self.runs, status="OPEN").order_by("opened_at"))
        if waits:
            self.engine.decide(waits[n % len(waits)], verdict)

    @precondition(lambda self: self.runs)
    @rule(n=pick)
    def let_a_wait_expire(self, n: int) -> None:
        waits = list(Wait.objects.filter(run_id__in=self.runs, status="OPEN").order_by("opened_at"))
        if waits:
            pass_deadline(waits[n % len(waits)])
            wait_expire(wait_id=waits[n % len(waits)].id)

    @precondition(lambda self: self.runs)
    @rule(n=pick, said=st.sampled_from(VERDICTS))
    def give_a_verdict(self, n: int, said: tuple[str, str]) -> None:
        unknown = list(ToolCall.objects.filter(run_id__in=self.runs, status="UNCERTAIN").order_by("created_at"))
        if unknown:
            self.engine.reconcile(unknown[n % len(unknown)], said[0], said[1])

    @precondition(lambda self: self.runs)
    @rule(n=pick)
    def revise_the_goal(self, n: int) -> None:
        self.engine.revise(self.run_at(n), f"goal {n}")

    @precondition(lambda self: self.runs)
    @rule(n=pick)
    def stop(self, n: int) -> None:
        if n % 3 == 0:  # seldom, since nothing happens to a run afterwards
            self.engine.stop(self.run_at(n))

    @precondition(lambda self: self.runs)
    @rule(n=pick)
    def pause(self, n: int) -> None:
        if n % 2 == 0:
            run_pause(actor=self.engine.person("otto"), run_id=self.run_at(n), reason="wait")

    @precondition(lambda self: self.runs)
    @rule(n=pick)
    def resume(self, n: int) -> None:
        self.engine.resume(self.run_at(n))

    @precondition(lambda self: self.runs and self.agent == "promising")
    @rule(n=pick)
    def release(self, n: int) -> None:
        self.engine.release(self.run_at(n))

    # ── what always holds ──

    @invariant()
    def the_database_is_in_order(self) -> None:
        broken = broken_invariants()
        assert broken == {}, broken

    @invariant()
    def nothing_is_done_twice_without_a_person(self) -> None:
        """I3, I4: what the tools really did against what is stored of it."""
        done = Counter(sent.key for sent in SCRIPT.sent if sent.tool in ("once", "post"))
        for key, times in done.items():
            call = ToolCall.objects.filter(idempotency_key=key).order_by("-attempts").first()
            assert call is not None, key
            retries = Reconciliation.objects.filter(tool_call=call, method="HUMAN", follow_up="RETRY").count()
            again = Attempt.objects.filter(tool_call=call, outcome="ERROR_RETRYABLE").count()
            assert times <= 1 + retries + again, (call.step_name, times, retries, again)
            assert times <= call.attempts

    @invariant()
    def what_has_ended_stays_so(self) -> None:
        for id, status in Run.objects.filter(status__in=sorted(ENDED_RUN)).values_list("id", "status"):
            assert self.ends.setdefault(id, status) == status

    @invariant()
    def fences_never_fall_and_history_never_changes(self) -> None:
        for id, fence in Lease.objects.values_list("run_id", "fence"):
            assert fence >= self.fences.get(id, 0)
            self.fences[id] = fence
        for id, revision, digest in Checkpoint.objects.values_list("run_id", "revision", "digest"):
            assert self.digests.setdefault((id, revision), digest) == digest
        for id, verdict in Decision.objects.values_list("wait_id", "verdict"):
            assert self.decided.setdefault(id, verdict) == verdict

    # ── in the end ──

    def teardown(self) -> None:
        """Everybody does their part: every run comes to its end, the audit holds, and nothing is left under way."""
        if not getattr(self, "runs", None):
            return
        for _ in range(ROUNDS):
            if not Run.objects.exclude(status__in=sorted(ENDED_RUN)).exists():
                break
            self._everybody_does_their_part()
        left = Run.objects.exclude(status__in=sorted(ENDED_RUN)).values_list("status", "hold_reason", "hold_detail")
        assert not list(left), list(left)
        self.the_database_is_in_order()
        self.nothing_is_done_twice_without_a_person()
        self.what_has_ended_stays_so()
        audit_verify(self.engine.tenant.id)

    def _everybody_does_their_part(self) -> None:
        for run_id in self.runs:
            end_lease(run_id)
            drive(run_id)
            for wait in Wait.objects.filter(run_id=run_id, status="OPEN"):
                self.engine.decide(wait)
            for call in ToolCall.objects.filter(run_id=run_id, status="UNCERTAIN", blocking=True):
                self.engine.reconcile(call, "EXECUTED")
            self.engine.resume(run_id)
            if Run.objects.get(id=run_id).hold_reason == "OBLIGATION_OPEN":
                self.engine.release(run_id)
        sweep()


def end_lease(run_id: UUID) -> None:
    """Let the time of a lease be over, if somebody has it."""
    if Lease.objects.filter(run_id=run_id, owner__isnull=False).exists():
        expire_lease(run_id)


def play(
    engine: Engine,
    at_point: At,
    *,
    examples: int,
    steps: int,
    derandomize: bool,
    phases: tuple[Phase, ...] = tuple(Phase),
) -> None:
    """Tell stories of so many steps, each on an empty store."""

    class Here(Model):
        pass

    Here.engine, Here.at_point = engine, staticmethod(at_point)
    chosen = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        derandomize=derandomize,
        database=None,
        phases=phases,
        report_multiple_bugs=False,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(Here, settings=chosen)


def test_any_acts_in_any_order_keep_everything_in_order(engine: Engine, at_point: At) -> None:
    play(engine, at_point, examples=10, steps=14, derandomize=True, phases=(Phase.generate,))


@pytest.mark.matrix
def test_the_model_notices_a_call_that_is_sent_again_though_nobody_knows(
    engine: Engine, at_point: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bug planted on purpose: whatever has no answer is simply tried again."""

    def careless(_: Any, call: Any) -> str:
        return "policy:again"

    monkeypatch.setattr(unknown, "_word_for_another_try", careless)
    with pytest.raises(AssertionError):
        play(engine, at_point, examples=60, steps=25, derandomize=True, phases=(Phase.generate,))


@pytest.mark.matrix
def test_many_acts_in_any_order_keep_everything_in_order(engine: Engine, at_point: At) -> None:
    """G20. Sixty stories, the same ones each time; MODEL_EXAMPLES sets how many others are tried instead."""
    others = os.environ.get("MODEL_EXAMPLES")
    play(engine, at_point, examples=int(others or 60), steps=40, derandomize=others is None)
