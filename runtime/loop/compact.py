"""Compaction: the answer to a model that can't read so long a request. Saved, read back, and only then adopted.

What calls of old turns answered is replaced by its digest and size; what the model said, what people said and what failed stays.
The results themselves stay where they are, and tools read them as before. How far a run is compacted stands in its
snapshot, so that a worker that takes over asks exactly the same (ADR 0021).
"""

from checkpoints.selectors import load_head
from checkpoints.services import SaveRefused, conflict, head_lock, saved, snapshot_save
from checkpoints.states import Phase, Trigger
from runs.faults import reach
from runtime.ending import held_run
from runtime.session import Session


def can_compact(session: Session) -> bool:
    """Whether there is an answer left that can be made shorter."""
    return _further(session) is not None


def compact(session: Session) -> None:
    """Save a revision in the same phase that says how far the conversation is compacted, read it back, and adopt it.

    Where the save is refused or its outcome is unknown, nothing is adopted: the next request is the one from before, or
    there is none (X09). Raises SaveRefused or LeaseLost.
    """
    through, now = _further(session), session.snapshot
    if through is None:
        raise LookupError(f"nothing of turn {now.turn_no} and before can be made shorter")
    snapshot = session.next_snapshot(Phase(now.phase), node=now.next_node, compacted_through=through)
    prepared = session.prepared(snapshot, Trigger.COMPACTION)
    with held_run(session.holding) as (run, _):
        head_lock(run.id)
        saved(snapshot_save(prepared, fence=session.holding.fence))
        reach("during_compaction_save")
    position = load_head(session.run)
    if position.digest != prepared.digest:
        raise SaveRefused(conflict(prepared))
    session.position = position
    session.conversation.compact(position.snapshot.compacted_through)


def _further(session: Session) -> int | None:
    """Through which turn to compact next: first all but the newest, then that one too. None where nothing is left."""
    newest = session.snapshot.turn_no
    for through in (newest - 1, newest):
        if session.conversation.would_shorten(through):
            return through
    return None
