"""The save part of a step, alone: fence, head and revision."""

from uuid import UUID, uuid4

from accounts.selectors import current_data_key
from checkpoints.envelope import ResultRef
from checkpoints.services import prepare, proved
from checkpoints.statements import SAVE, Candidate, save_params
from checkpoints.states import Phase, Trigger
from runs.canonical import digest
from runs.leases import lease_acquire
from runs.selectors import run_now
from runs.statements import FENCE, GO, Purse, fence_params, joined, run_statement
from runtime.heartbeat import Heartbeat
from runtime.recovery import restore

_STANDS = """
stands AS (SELECT fence.run_id, fence.fence FROM fence)"""
_SAVE_ALONE = joined(FENCE, GO, _STANDS, SAVE, select="SELECT count(*) FROM saved")
REFERENCES_OF_2_KB = 5


class Saver:
    """A held run that is saved over and over, in its phase."""

    def __init__(self, run_id: UUID, references: int = REFERENCES_OF_2_KB) -> None:
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
        self.refs = tuple(
            ResultRef(call=uuid4(), step_name=f"echo/{number}", key=digest(b"k"), digest=digest(b"d"), ok=True)
            for number in range(references)
        )

    def save(self) -> None:
        """One revision more, with as many references as before."""
        draft = self.session.next_snapshot(Phase.READY_TO_DECIDE, node="think")
        draft = draft.model_copy(update={"results": self.refs})
        writes = frozenset(ref.call for ref in self.refs)
        prepared = proved(prepare(Candidate(draft, Trigger.CURSOR, None, self.session.snapshot, writes)))
        params = fence_params(self.holding) | save_params([prepared], key_id=self.key_id) | Purse().params()
        if run_statement(_SAVE_ALONE, params | {"news": None, "start": True}) != (1,):
            raise RuntimeError("nothing was saved")
        self.session.moved(prepared.candidate.snapshot, prepared.digest)
