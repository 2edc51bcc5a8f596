"""What a worker holds in memory while it continues a run. Everything in it can be rebuilt from the database."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from secrets import token_hex
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.conf import settings

from approvals.policies import BUILT_IN, Mark, Policy, texts_at
from approvals.selectors import is_answered_by_file
from checkpoints.envelope import Contract, ResultRef, Snapshot
from checkpoints.selectors import Position
from checkpoints.services import prepare, proved
from checkpoints.statements import Candidate, Prepared
from checkpoints.states import Phase, Trigger
from receipts.selectors import RunKeys
from runs.errors import LeaseLost
from runs.selectors import artifact_bytes, last_message, memory_texts
from runs.states import Holding
from runs.trace import Attribute, Place, trace
from runtime.contracts import (
    AgentSpec,
    Arguments,
    Gateway,
    Price,
    PriorResult,
    Tool,
    ToolContext,
    ToolFailed,
    ToolRetryable,
)
from runtime.conversation import Conversation, history_of, rebuild
from runtime.descent import child_report
from runtime.heartbeat import Heartbeat
from runtime.hosts import Asking, Tried
from runtime.tools.registry import tool_marks

if TYPE_CHECKING:
    from runtime.guards import Failed


@dataclass(frozen=True)
class Asked:
    """A model call that is dispatched by this worker and waits to be sent."""

    id: UUID
    turn_no: int
    attempt: int


@dataclass(frozen=True)
class Sending:
    """A tool call that is dispatched by this worker and waits to be sent."""

    call_id: UUID
    attempt: int
    tool: Tool
    args: Arguments
    args_digest: str
    step_name: str
    key: str


@dataclass(frozen=True)
class Settled:
    """What a call of the open super-step gave: its reference for the next revision, and the result as tools read it."""

    ref: ResultRef
    result: PriorResult


@dataclass
class Session:
    """A held run between two steps."""

    holding: Holding
    run: Any
    spec: AgentSpec
    gateway: Gateway
    heartbeat: Heartbeat
    position: Position
    key_id: UUID
    inputs: Mapping[str, bytes]
    results: list[PriorResult]
    conversation: Conversation
    keys: RunKeys
    # How often the run had been told something when the conversation was read, and the last message of it.
    news: int
    heard: int
    policy: Policy = BUILT_IN  # the one that this worker believes to be in force
    price: Price | None = None  # of the model, where somebody has said it
    timed: bool = False  # whether time on the wire has a cap
    asked: Asked | None = None
    # Why the run may not go on by the guards 10 and 11, as they were read when it was restored; None where it may.
    failed: "Failed | None" = None
    # The revision after which no turn had been asked for when the run was restored; None once the model was asked.
    nothing_asked_after: int | None = None
    # The open super-step: what is to be sent now, which calls have no settled outcome yet, and what the others gave.
    sending: list[Sending] = field(default_factory=list)
    out: set[UUID] = field(default_factory=set)
    settled: dict[UUID, Settled] = field(default_factory=dict)
    # The revision that follows the head and could not be saved, with the head's number; None where the head is the state.
    working: Snapshot | None = None
    # What is known here and may not be stored yet: revisions on their way, answers in hand, and what was really sent.
    in_flight: list[Prepared] = field(default_factory=list)
    in_hand: dict[UUID, tuple[Sending, Tried]] = field(default_factory=dict)
    turn_in_hand: tuple[Asked, Asking] | None = None
    sent: set[tuple[UUID, int]] = field(default_factory=set)
    # What was observed and does not hold any more: how often a step's observation has lapsed, and the answers of those.
    epochs: Counter[str] = field(default_factory=Counter)
    lapsed: frozenset[str] = frozenset()
    proposals_of: dict[UUID, list[tuple[int, int]]] = field(default_factory=dict)

    @property
    def snapshot(self) -> Snapshot:
        """The state to go on from: the head, or what follows it and could not be saved."""
        return self.working or self.position.snapshot

    def next_snapshot(
        self,
        phase: Phase,
        *,
        node: str,
        turn_no: int | None = None,
        barrier: tuple[UUID, ...] | None = None,
        results: tuple[ResultRef, ...] = (),
        contract: Contract | None = None,
        closes_step: bool = False,
        compacted_through: int | None = None,
    ) -> Snapshot:
        """The revision that follows the current one, as a draft: `prepared` checks it."""
        now = self.snapshot
        return now.model_copy(
            update={
                "revision": self.position.revision + 1,
                "parent_digest": self.position.digest,
                "phase": phase,
                "next_node": node,
                "turn_no": now.turn_no if turn_no is None else turn_no,
                "barrier": now.barrier if barrier is None else barrier,
                "message_seq": max(now.message_seq, self.heard),
                "results": (*now.results, *results),
                "superstep": now.superstep + closes_step,
                "compacted_through": now.compacted_through if compacted_through is None else compacted_through,
                "contract": contract or now.contract,
                "nonce": token_hex(16),
            }
        )

    def prepared(
        self,
        snapshot: Snapshot,
        trigger: Trigger,
        *,
        writes: Collection[UUID] = (),
    ) -> Prepared:
        """The draft of the next revision, checked and serialised before its commit. Raises SaveRefused."""
        now = self.position
        draft = Candidate(snapshot, trigger, now.snapshot, frozenset(writes), base=now.parts)
        prepared = proved(prepare(draft))
        self.in_flight.append(prepared)
        return prepared

    def may_ask(self, turn_no: int) -> bool:
        """Whether the agent's limit leaves room for this turn. The turns that another run had taken before do not count."""
        return turn_no - int(self.run.inherited_turns) <= self.spec.turn_limit

    def moved(self, snapshot: Snapshot, digest: str) -> None:
        """The head has moved to this revision."""
        self.working = None
        saved = next((one for one in self.in_flight if one.digest == digest), None)
        parts, id = (saved.parts, saved.save_id) if saved else (None, None)
        self.position = Position(snapshot.revision, digest, snapshot, parts, id)
        self.trace("checkpoint_saved", revision=snapshot.revision, phase=snapshot.phase, digest=digest)

    def trace(self, name: str, call_id: UUID | None = None, **attributes: Attribute) -> None:
        """Note what was seen here, after the commit that it tells of."""
        run, node = self.run, self.position.snapshot.next_node
        trace(name, Place(run.tenant_id, run.id, run.thread_id, self.position.id, node, call_id), **attributes)

    def work_on(self, snapshot: Snapshot) -> None:
        """Go on from a revision that could not be saved. The head has not moved."""
        head = self.position
        numbers = {"revision": head.revision, "parent_digest": head.snapshot.parent_digest}
        self.working = snapshot.model_copy(update=numbers)

    def refs(self) -> tuple[ResultRef, ...]:
        """The references that the open super-step adds, in the order of its calls."""
        return tuple(self.settled[id].ref for id in self.snapshot.barrier if id in self.settled)

    def step_closed(self) -> None:
        """What the super-step gave is in the head now, and tools may build on it."""
        self.results += [self.settled[id].result for id in self.snapshot.barrier if id in self.settled]
        self.settled.clear()
        self.out.clear()

    def sends(self, sendings: list[Sending]) -> None:
        """These calls are dispatched and wait to be sent."""
        self.sending = sendings
        self.out |= {sending.call_id for sending in sendings}
        for sending in sendings:
            self.trace("call_dispatched", sending.call_id, attempt=sending.attempt)

    def reread(self) -> None:
        """Take conversation and keys from the store again, after calls were closed or results adopted."""
        history = history_of(self.run)
        self.conversation = rebuild(history, compacted_through=self.snapshot.compacted_through)
        self.keys = history.keys([ref.call for ref in self.snapshot.results])

    def hear(self, news: int) -> bool:
        """Read what the run was told since the conversation was read. False when there is nothing new."""
        if news == self.news:
            return False
        self.news, self.heard = news, last_message(self.run)
        self.reread()
        return True

    def marks(self, tool: Tool) -> tuple[Mark, ...]:
        """The arguments of a tool that not everybody may see, by the tool and by the policy."""
        return (*tool_marks(tool), *self.policy.marks(tool=tool.key, agent=self.spec.key))

    def context(self, sending: Sending) -> ToolContext:
        """What the tool may read for this attempt."""
        marks = self.marks(sending.tool)
        return ToolContext(
            run_id=self.run.id,
            call_id=sending.call_id,
            idempotency_key=sending.key,
            attempt_no=sending.attempt,
            timeout_seconds=sending.tool.timeout_seconds,
            inputs=self.inputs,
            results=tuple(self.results),
            outside_url=settings.OUTSIDE_URL,
            hidden=texts_at(sending.args.model_dump(mode="json"), marks) if marks else (),
            child=lambda child_id: child_report(self.run, child_id),
            recall=lambda subject: memory_texts(tenant_id=self.holding.tenant_id, subject=subject),
            about_to_send=self._about_to_send,
            answered=self._answered,
        )

    def _answered(self, sha256: str) -> bytes:
        """A file that was given as an answer which this run rests on. Raises ToolFailed for any other, and BodyChanged."""
        if not is_answered_by_file([result.call_id for result in self.results], sha256):
            raise ToolFailed(f"Nobody has given a file with the digest {sha256[:64]} as an answer here.")
        return artifact_bytes(tenant_id=self.holding.tenant_id, sha256=sha256)

    def _about_to_send(self) -> None:
        try:
            self.heartbeat.prove_held()
        except LeaseLost as error:
            raise ToolRetryable("The lease may have ended before anything was sent. Nothing was sent.") from error

    def lapse(self, steps: Mapping[UUID, str], answers: Collection[str]) -> None:
        """The observations of these calls do not hold any more: no tool builds on them, and reading again is another step."""
        self.results = [result for result in self.results if result.call_id not in steps]
        self.epochs.update(steps.values())
        self.lapsed |= frozenset(answers)

    def asked_for(self, call_id: UUID, turn_no: int, ordinal: int) -> None:
        """Note that a proposal of the conversation waits for this call."""
        self.proposals_of.setdefault(call_id, []).append((turn_no, ordinal))

    def answered(self, call_id: UUID, tool: str, *, ok: bool, value: dict[str, Any]) -> None:
        """Tell the conversation what became of a call, for every proposal that waited for it."""
        for turn_no, ordinal in self.proposals_of.pop(call_id, []):
            self.conversation.add_answer(turn_no, ordinal, tool, ok=ok, value=value)
