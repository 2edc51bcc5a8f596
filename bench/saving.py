"""The save part of a step, alone: fence, head and revision."""

from uuid import UUID, uuid4

from accounts.selectors import current_data_key
from accounts.statements import joined
from bench.payload import prose
from checkpoints.envelope import Promise, ResultRef
from checkpoints.services import prepare, proved
from checkpoints.statements import SAVE, Candidate, save_params
from checkpoints.states import Phase, Trigger
from runs.canonical import digest
from runs.leases import lease_acquire
from runs.selectors import run_now
from runs.statements import FENCE, GO, Purse, fence_params, run_statement
from runtime.heartbeat import Heartbeat
from runtime.recovery import restore

_STANDS = """
stands AS (SELECT fence.run_id, fence.fence, EXISTS (SELECT FROM go) AS starts FROM fence)"""
_SAVE_ALONE = joined(FENCE, GO, _STANDS, SAVE, select="SELECT count(*) FROM saved")


class Saver:
    """A held run that is saved over and over, in its phase, with so many references and so many promises of 2 kB."""

    def __init__(self, run_id: UUID, references: int, promises: int) -> None:
        holding = lease_acquire(run_id=run_id, owner="bench")
        if holding is None:
            raise LookupError("the run can't be taken")
        self.holding = holding
        self.heartbeat = Heartbeat(holding, lambda: None).__enter__()
        session = restore(holding, self.heartbeat)
        if session is None:
            raise LookupError("the run can't be restored")
        self.session = session
        self.key_id = current_data_key(run_now(run_id).tenant_id)
        self.refs = tuple(_reference(number) for number in range(references))
        self.writes = frozenset(ref.call for ref in self.refs)
        promised = tuple(_promise(number) for number in range(promises))
        contract = session.position.snapshot.contract
        self.contract = contract.model_copy(update={"obligations": (*contract.obligations, *promised)})

    def save(self) -> None:
        """One revision more, with as many references as before."""
        draft = self.session.next_snapshot(Phase.READY_TO_DECIDE, node="think")
        now = self.session.position
        # What was saved before goes on as the objects that it is, as in a step.
        kept = now.snapshot if now.snapshot.results else None
        carried = (
            {"results": kept.results, "contract": kept.contract}
            if kept
            else {"results": self.refs, "contract": self.contract}
        )
        draft = draft.model_copy(update=carried)
        prepared = proved(prepare(Candidate(draft, Trigger.CURSOR, now.snapshot, self.writes, base=now.parts)))
        self.session.in_flight.append(prepared)
        params = fence_params(self.holding) | save_params(prepared, key_id=self.key_id) | Purse().params()
        if run_statement(_SAVE_ALONE, params | {"news": None, "start": True}) != (1,):
            raise RuntimeError("nothing was saved")
        self.session.moved(prepared.candidate.snapshot, prepared.digest)
        self.session.in_flight.clear()


def _reference(number: int) -> ResultRef:
    key, found = (digest(f"{kind} {number}".encode()) for kind in ("key", "result"))
    return ResultRef(call=uuid4(), step_name=f"echo/{number}", key=key, digest=found, ok=True)


def _promise(number: int) -> Promise:
    return Promise(step_name=f"promise/{number}", statement=prose(2000, number), status="OPEN")
