"""The store without the loop: admit a run, hold it, and write its steps, with nothing in them but what a test is about."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from secrets import token_hex
from typing import Any
from uuid import UUID

from django.db import transaction

from accounts.keys import new_id
from accounts.models import Tenant
from accounts.selectors import current_data_key, sealed_body
from accounts.services import member_set, tenant_create
from accounts.states import Role
from approvals.models import Wait
from approvals.policies import BUILT_IN_VERSION, Ruling
from approvals.services import wait_open
from approvals.states import PolicyOutcome
from checkpoints.envelope import ResultRef, Snapshot
from checkpoints.selectors import Position, load_head
from checkpoints.services import checkpoint_first, contract_open, head_lock, prepare, proved, saved, snapshot_save
from checkpoints.statements import Candidate, Prepared, save_params
from checkpoints.states import NotSaved, Phase, Saved, Trigger
from receipts.models import ToolCall
from receipts.statements import NewCall, NewProposal, SentCall, call_params, dispatch_params
from receipts.states import Disposition
from runs.canonical import canonical, digest, idempotency_key, intent_key
from runs.leases import lease_acquire, lease_lock
from runs.models import Run
from runs.services import NewRun, message_append, run_admit, run_lock
from runs.statements import Purse, fence_params
from runs.states import Holding
from runtime import statements as steps
from runtime.statements import Written, write

CAPS = {"model_calls": 1000, "tool_calls": 1000, "tokens": 1_000_000}
MANIFEST = {"agent": "contract", "version": "1"}
ASK_RULING = Ruling(PolicyOutcome.REQUIRE_APPROVAL, "a person decides")


@dataclass(frozen=True)
class Store:
    """The store as one tenant sees it."""

    tenant: Tenant

    @classmethod
    def of(cls, slug: str) -> "Store":
        tenant = tenant_create(slug=slug, name=slug.title())
        member_set(
            tenant=tenant, username=f"ann-{slug}", password=None, roles=frozenset({Role.APPROVER, Role.OPERATOR})
        )
        return cls(tenant)

    def admit(
        self,
        *,
        thread: str = "",
        key: str = "",
        goal: str = "Do it.",
        agent: str = "contract",
        caps: Mapping[str, int] | None = None,
        inputs: Mapping[str, tuple[str, bytes]] | None = None,
        obligations: Mapping[str, str] | None = None,
    ) -> Run:
        """A queued run with its contract and its first revision, in one transaction."""
        key = key or token_hex(8)
        new = NewRun(
            tenant_id=self.tenant.id,
            agent_key=agent,
            agent_version="1",
            model="scripted",
            gateway="scripted",
            manifest=MANIFEST,
            thread_key=thread or key,
            title="A run of the contract",
            recovery_policy="RESUME_IN_PLACE",
            max_takeovers=5,
            admission_key=key,
            created_by="person:olga",
            caps=CAPS if caps is None else caps,
            inputs=inputs or {},
        )
        with transaction.atomic():
            run = run_admit(new)
            contract = contract_open(run=run, goal=goal, obligations=obligations or {}, actor="person:olga")
            message_seq = message_append(run=run, role="user", text=goal, after_turn=0)
            checkpoint_first(
                Snapshot(
                    tenant=run.tenant_id,
                    thread=run.thread_id,
                    run=run.id,
                    revision=1,
                    parent_digest=None,
                    manifest_digest=digest(canonical(MANIFEST)),
                    phase=Phase.READY_TO_DECIDE,
                    next_node="think",
                    turn_no=0,
                    message_seq=message_seq,
                    contract=contract,
                    barrier=(),
                    results=(),
                    nonce=token_hex(16),
                )
            )
        return Run.objects.get(id=run.id)

    def worker(self, run: Run | None = None, owner: str = "w1", **admission: Any) -> "Worker":
        """A worker that takes a run, by default a new one."""
        run = run or self.admit(**admission)
        holding = lease_acquire(run_id=run.id, owner=owner)
        assert holding is not None, f"{owner} did not get run {run.id}"
        return Worker(run, holding, load_head(run))


@dataclass
class Worker:
    """A holder of a run, and where it believes the head to be. Nothing is checked here but by the store."""

    run: Run
    holding: Holding
    position: Position
    turn: int = 0
    ordinal: int = 0
    asked: UUID | None = None
    tries: dict[UUID, int] = field(default_factory=dict)

    @property
    def key_id(self) -> UUID:
        return current_data_key(self.run.tenant_id)

    @contextmanager
    def held(self) -> Iterator[Run]:
        """One transaction under the proved lease. Raises AssertionError where the store says that it is not held."""
        with transaction.atomic():
            assert lease_lock(self.holding) is not None, "the lease is not held"
            yield run_lock(self.run.id)

    # ── revisions ──

    def next(self, phase: str = Phase.READY_TO_DECIDE, **fields: Any) -> Snapshot:
        """The revision after the one that this worker believes to be the head."""
        now = self.position.snapshot
        update = {
            "revision": now.revision + 1,
            "parent_digest": self.position.digest,
            "phase": phase,
            "nonce": token_hex(16),
        }
        return Snapshot.model_validate(vars(now) | update | fields)

    def prepared(self, snapshot: Snapshot, trigger: Trigger = Trigger.CURSOR, **candidate: Any) -> Prepared:
        return proved(
            prepare(Candidate(snapshot, trigger, after=self.position.snapshot, base=self.position.parts, **candidate))
        )

    def send(self, prepared: Prepared) -> Saved | NotSaved:
        """Save a prepared revision under the lease, in a transaction of its own. What this worker believes stays."""
        with self.held():
            head_lock(self.run.id)
            return snapshot_save(prepared, fence=self.holding.fence)

    def save(self, phase: str = Phase.READY_TO_DECIDE, **fields: Any) -> Saved:
        """Save the next revision, and believe it."""
        prepared = self.prepared(self.next(phase, **fields))
        outcome = saved(self.send(prepared))
        self.believe(prepared)
        return outcome

    def believe(self, prepared: Prepared) -> None:
        snapshot = prepared.candidate.snapshot
        self.position = Position(snapshot.revision, prepared.digest, snapshot, prepared.parts, prepared.save_id)

    # ── steps ──

    def ask(self, *, again: bool = False, reserve: Mapping[str, int] | None = None) -> Written:
        """Dispatch the next turn, or another attempt at the open one."""
        if not again:
            self.turn, self.asked = self.turn + 1, new_id()
        assert self.asked is not None
        attempt = self.tries[self.asked] = self.tries.get(self.asked, 0) + 1
        purse = Purse().reserve(self.asked, attempt, dict(reserve or {"model_calls": 1}))
        params = fence_params(self.holding) | self._ask_params() | purse.params()
        return write(steps.ASK_RETRY if again else steps.ASK_FIRST, params)

    def _ask_params(self) -> dict[str, Any]:
        return {
            "ask_id": self.asked,
            "ask_turn": self.turn,
            "ask_revision": self.position.revision,
            "ask_model": "scripted",
            "ask_digest": digest(b"request %d" % self.turn),
            "ask_timeout": 60.0,
        }

    def new_call(
        self, label: str = "a", args: Any = None, *, effect: str = "READ_ONLY", send: bool = True, **fields: Any
    ) -> NewCall:
        """A call as a turn would propose it."""
        self.ordinal += 1
        args = {"label": label} if args is None else args
        plain = canonical(args)
        step_name = f"tool/{label}"
        call = NewCall(
            id=new_id(),
            ordinal=self.ordinal,
            tool="tool",
            tool_version="1",
            tool_hash="0" * 64,
            effect_class=effect,
            step_name=step_name,
            args=plain,
            args_digest=digest(plain),
            idempotency_key=idempotency_key(run_id=self.run.id, step_name=step_name, args=args),
            intent_key=intent_key(step_name=step_name, args=args),
            timeout=5.0,
            send=send,
            authorised_by="policy:contract" if send else "",
        )
        return replace(call, **fields)

    def seal(self, *calls: NewCall, body: bytes = b'{"proposals":[],"text":""}', **differently: Any) -> Written:
        """Seal the open turn with its calls and the revision that it leads to, as the loop does: where none may be sent now,
        without sending them. Believes it where it was written.
        """
        sends = any(call.send for call in calls)
        written = self._seal(calls, body, differently, sends=sends)
        if sends and written.held and not written.go:
            written = self._seal(tuple(replace(call, send=False) for call in calls), body, differently, sends=False)
        return written

    def _seal(self, calls: tuple[NewCall, ...], body: bytes, differently: dict[str, Any], *, sends: bool) -> Written:
        barrier = tuple(call.id for call in calls)
        phase = Phase.AWAITING_TOOL_RESULT if sends else Phase.DECISION_RECORDED
        prepared = self.prepared(
            self.next(phase, turn_no=self.turn, barrier=barrier), Trigger.CURSOR, writes=frozenset(barrier)
        )
        params = self.seal_params(calls, body) | save_params(prepared, key_id=self.key_id)
        written = write(steps.SEAL_AND_SEND if sends else steps.SEAL_TURN, params | differently)
        if written.done:
            self.believe(prepared)
            self.tries |= {call.id: 1 for call in calls if call.send and written.started}
        return written

    def seal_alone(self, *calls: NewCall) -> Written:
        """Seal the open turn while no revision can be saved: on the head as it is."""
        head = {"data_key": self.key_id, "ck_revision": self.position.revision}
        return write(steps.SEAL_ALONE, self.seal_params(calls, b"{}") | head)

    def seal_params(self, calls: tuple[NewCall, ...], body: bytes) -> dict[str, Any]:
        assert self.asked is not None
        proposals = [
            NewProposal(n, call.tool, call.args_digest, Disposition.NEW, call.id) for n, call in enumerate(calls, 1)
        ]
        purse = Purse().settle(self.asked, self.tries[self.asked], {"model_calls": 1}, {"model_calls": 1})
        for call in calls:
            if call.send:
                purse.reserve(call.id, 1, {"tool_calls": 1})
        policy = [{"id": str(new_id()), "call": str(call.id), "rule": "read"} for call in calls if call.send]
        return (
            fence_params(self.holding)
            | call_params(calls, proposals, key_id=self.key_id)
            | purse.params()
            | {
                "turn_id": self.asked,
                "turn_no": self.turn,
                "turn_attempt": self.tries[self.asked],
                "turn_digest": digest(body),
                "turn_response_id": "r",
                "turn_input": 10,
                "turn_output": 5,
                "kept_sha256": digest(body),
                "kept_size": len(body),
                "kept_body": sealed_body(key_id=self.key_id, plain=body),
                "policy_version": BUILT_IN_VERSION,
                "policy_number": 0,
                "policy": json.dumps(policy),
            }
        )

    def turn_with(self, *calls: NewCall) -> Written:
        """Ask and seal: the calls are recorded, and sent where they are marked."""
        assert self.ask().started == 1
        return self.seal(*calls)

    def dispatch(self, *calls: NewCall, sources: tuple[str, ...] = ("PROPOSED", "AWAITING_APPROVAL")) -> Written:
        """Send recorded calls for the first time, with the head."""
        prepared = self.prepared(self.next(Phase.AWAITING_TOOL_RESULT))
        params = save_params(prepared, key_id=self.key_id) | self._dispatch_params(calls, sources)
        written = write(steps.DISPATCH_CALLS, params)
        if written.done:
            self.believe(prepared)
        return written

    def dispatch_again(self, *calls: NewCall, sources: tuple[str, ...] = ("UNCERTAIN", "RETRY_WAIT")) -> Written:
        """Send recorded calls another time; the head stays."""
        return write(steps.DISPATCH_AGAIN, self._dispatch_params(calls, sources))

    def _dispatch_params(self, calls: tuple[NewCall, ...], sources: tuple[str, ...]) -> dict[str, Any]:
        purse, sendings = Purse(), []
        for call in calls:
            attempt = self.tries[call.id] = self.tries.get(call.id, 0) + 1
            purse.reserve(call.id, attempt, {"tool_calls": 1})
            sendings.append(SentCall(call.id, attempt, 5.0, "policy:contract"))
        return fence_params(self.holding) | dispatch_params(sendings, sources=sources) | purse.params()

    def ref(self, call: NewCall, value: Any, *, ok: bool = True) -> ResultRef:
        return ResultRef(
            call=call.id, step_name=call.step_name, key=call.idempotency_key, digest=digest(canonical(value)), ok=ok
        )

    def record(self, call: NewCall, value: Any, *, ok: bool = True, ask: bool = False, **differently: Any) -> Written:
        """Record what a call gave, with the revision that takes it in and, if asked for, the next turn."""
        now = self.position.snapshot
        snapshot = self.next(Phase.TOOL_RESULT_RECORDED, results=(*now.results, self.ref(call, value, ok=ok)))
        prepared = self.prepared(snapshot, Trigger.AFTER_EFFECT, writes=frozenset({call.id}))
        if ask:
            self.turn, self.asked = self.turn + 1, new_id()
            self.tries[self.asked] = 1
        purse = self._settled(call)
        if ask and self.asked is not None:
            purse.reserve(self.asked, 1, {"model_calls": 1})
        params = self.result_params(call, value, ok=ok) | self._ask_params() | {"ask": ask}
        params |= {"ask_revision": snapshot.revision, "ask_id": self.asked or new_id()}
        params |= save_params(prepared, key_id=self.key_id) | purse.params()
        statement = steps.RECORD_READ if call.effect_class == "READ_ONLY" else steps.RECORD_RESULT
        written = write(statement, params | differently)
        if written.done:
            self.believe(prepared)
        return written

    def record_task(self, call: NewCall, value: Any, *, ok: bool = True) -> Written:
        """Record what a call gave while others are out: beside the head."""
        params = self.result_params(call, value, ok=ok) | {"base_revision": self.position.revision}
        return write(steps.RECORD_TASK, params | self._settled(call).params())

    def record_alone(self, call: NewCall, value: Any, *, ok: bool = True) -> Written:
        """Record what a call gave without any revision."""
        return write(steps.RECORD_ALONE, self.result_params(call, value, ok=ok) | self._settled(call).params())

    def _settled(self, call: NewCall) -> Purse:
        return Purse().settle(call.id, self.tries[call.id], {"tool_calls": 1}, {"tool_calls": 1})

    def result_params(self, call: NewCall, value: Any, *, ok: bool) -> dict[str, Any]:
        plain = canonical(value)
        effect = ok and call.effect_class != "READ_ONLY"
        return fence_params(self.holding) | {
            "call": call.id,
            "call_status": "SUCCEEDED" if ok else "FAILED",
            "call_error": "" if ok else "it failed",
            "call_external_ref": "ref" if ok else None,
            "call_attempt": self.tries[call.id],
            "call_step": call.step_name,
            "try_outcome": "OK" if ok else "ERROR_FINAL",
            "result_ok": ok,
            "result_digest": digest(plain),
            "result_value": sealed_body(key_id=self.key_id, plain=plain),
            "data_key": self.key_id,
            "effect_id": new_id(),
            "effect_known": effect,
            "effect_target": "elsewhere",
            "effect_payload": call.args_digest,
        }

    # ── waits ──

    def open_wait(self, call: NewCall, ruling: Ruling = ASK_RULING) -> Wait:
        """A revision that waits for a person, and the wait of one recorded call at it."""
        if self.position.snapshot.phase != Phase.AWAITING_APPROVAL:
            self.save(Phase.AWAITING_APPROVAL)
        return self.open_wait_of(call.id, ruling)

    def open_wait_of(self, call_id: UUID, ruling: Ruling = ASK_RULING) -> Wait:
        """The wait of a recorded call at the head as it is."""
        with self.held():
            head_lock(self.run.id)
            return wait_open(
                ToolCall.objects.get(id=call_id),
                ruling,
                revision=self.position.revision,
                checkpoint_digest=self.position.digest,
                fence=self.holding.fence,
            )


def stored(call: NewCall) -> ToolCall:
    return ToolCall.objects.select_related("result").get(id=call.id)
