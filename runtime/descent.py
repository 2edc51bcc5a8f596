"""What a continued or forked run takes over from a revision of its source, and what it would meet in its lineage."""

from dataclasses import dataclass
from typing import Any

from checkpoints.envelope import Snapshot
from checkpoints.selectors import checkpoint_of, load_snapshot
from receipts.selectors import calls_of, turn_proposals
from receipts.states import CallStatus, Disposition, EffectClass

# A call that is not sent any more, and of which the model has been told.
_TOLD = (CallStatus.DENIED, CallStatus.REJECTED)


@dataclass(frozen=True)
class Taken:
    """The snapshot that another run begins from, and the last turn of its conversation that is answered in full."""

    snapshot: Snapshot
    turn_no: int


def taken_from(source: Any, revision: int) -> Taken:
    """Read a revision of a run for a run that begins there. Raises Unreadable.

    The turn in hand is left out where the revision holds no answer to all of it, or where it ends the work: the new run
    asks for that turn again. Results that are stored by then stay readable either way.
    """
    snapshot = load_snapshot(checkpoint_of(run_id=source.id, revision=revision))
    return Taken(snapshot, snapshot.turn_no - int(_turn_is_open(source, snapshot)))


def _turn_is_open(source: Any, snapshot: Snapshot) -> bool:
    proposals = turn_proposals(run_id=source.id, turn_no=snapshot.turn_no)
    if proposals is None:
        return False
    if not proposals or any(proposal.disposition == Disposition.FINISH for proposal in proposals):
        return True
    known = {ref.call for ref in snapshot.results}
    waiting = calls_of(ids=[id for id in snapshot.barrier if id not in known]).values()
    return any(not _is_told(call) for call in waiting)


def _is_told(call: Any) -> bool:
    given_up = call.status == CallStatus.UNCERTAIN and not call.blocking and call.effect_class != EffectClass.READ_ONLY
    return call.status in _TOLD or given_up
