"""What a continued or forked run takes over from a revision of its source, what it would meet, and where children stand."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from checkpoints.envelope import Snapshot
from checkpoints.selectors import load_snapshot
from receipts.selectors import calls_behind, calls_in_turn, closing_words, turn_proposals, turns_after
from receipts.states import CallStatus, Disposition, EffectClass, holds_intent
from runs.selectors import child_of_lineage
from runs.states import ENDED_RUN
from runtime.contracts import ChildReport

# A call that is not sent any more, and of which the model has been told.
_TOLD = (CallStatus.DENIED, CallStatus.REJECTED)


@dataclass(frozen=True)
class Taken:
    """The snapshot that another run begins from, and the last turn of its conversation that is answered in full."""

    snapshot: Snapshot
    turn_no: int


def taken_from(saved: Any) -> Taken:
    """Read a stored revision for a run that begins there. Raises Unreadable.

    The turn in hand is left out where the revision holds no answer to all of it, or where it ends the work: the new run
    asks for that turn again. Results that are stored by then stay readable either way.
    """
    snapshot = load_snapshot(saved)
    return Taken(snapshot, snapshot.turn_no - int(_turn_is_open(snapshot)))


def _turn_is_open(snapshot: Snapshot) -> bool:
    proposals = turn_proposals(run_id=snapshot.run, turn_no=snapshot.turn_no)
    if proposals is None:
        return False
    if not proposals or any(proposal.disposition == Disposition.FINISH for proposal in proposals):
        return True
    known = {ref.call for ref in snapshot.results}
    waiting, instead = calls_in_turn(ids=[id for id in snapshot.barrier if id not in known])
    return any(not _is_told(instead.get(id, call)) for id, call in waiting.items())


def _is_told(call: Any) -> bool:
    if call.instead_of_id is not None and hasattr(call, "result"):
        return True
    given_up = call.status == CallStatus.UNCERTAIN and not call.blocking and call.effect_class != EffectClass.READ_ONLY
    return call.status in _TOLD or given_up


@dataclass(frozen=True)
class Preview:
    """What a run that begins at a revision would reuse and what it would repeat, as things stand now.

    kept: calls whose stored results it begins with. reused: effects of the lineage that stand; a proposal of one is answered
    from its result. holding: calls that may still happen, or of which nobody knows; a proposal of one holds the run.
    refused: calls that a run went on without knowing. repeated: reads after that revision. turns: turns after it, which are
    asked of the model again.
    """

    revision: int
    turn_no: int
    kept: tuple[Any, ...]
    reused: tuple[Any, ...]
    holding: tuple[Any, ...]
    refused: tuple[Any, ...]
    repeated: tuple[Any, ...]
    turns: int


def preview(saved: Any) -> Preview:
    """Look ahead from a stored revision, which comes with its run. Writes nothing. Raises Unreadable."""
    taken = taken_from(saved)
    ids = [ref.call for ref in taken.snapshot.results]
    kept, claimed, reads = calls_behind(saved.run, ids=ids)
    others = [call for call in claimed if call.id not in kept]
    holding = [call for call in others if holds_intent(call.status, call.blocking)]
    reused = [call for call in others if call.status == CallStatus.SUCCEEDED]
    return Preview(
        revision=saved.revision,
        turn_no=taken.turn_no,
        kept=tuple(kept[id] for id in ids if id in kept),
        reused=tuple(reused),
        holding=tuple(holding),
        refused=tuple(call for call in others if call not in holding and call not in reused),
        repeated=tuple(call for call in reads if call.id not in kept),
        turns=turns_after(run_id=saved.run_id, turn_no=taken.turn_no),
    )


def child_report(run: Any, child_id: UUID) -> ChildReport | None:
    """Where a child run of the lineage stands, or None."""
    child = child_of_lineage(run=run, child_id=child_id)
    if child is None:
        return None
    ended = child.status in ENDED_RUN
    said = closing_words(tenant_id=child.tenant_id, run_id=child.id) if ended else ""
    return ChildReport(child.id, str(child.status), ended, child.parent_run_id == run.id, said)
