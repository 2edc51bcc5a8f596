"""Revisions of a run, saved as a worker would, as many as a test needs."""

from secrets import token_hex
from typing import Any
from uuid import UUID, uuid4

from django.db import transaction

from checkpoints.envelope import ResultRef
from checkpoints.models import Checkpoint
from checkpoints.selectors import Position, load_head
from checkpoints.services import prepare, proved, saved, snapshot_save
from checkpoints.statements import Candidate
from checkpoints.states import Trigger
from tests.engine.engine import Engine, run_now


def ref(**differently: Any) -> ResultRef:
    usual = {"call": uuid4(), "step_name": "look/a", "key": token_hex(32), "digest": token_hex(32), "ok": True}
    return ResultRef.model_validate(usual | differently)


def next_one(position: Position, **differently: Any) -> Position:
    """Save a revision after the head, as a worker would, and return the new head."""
    snapshot = position.snapshot.model_copy(
        update={
            "revision": position.revision + 1,
            "parent_digest": position.digest,
            "nonce": token_hex(16),
            **differently,
        }
    )
    written = frozenset(one.call for one in snapshot.results)
    draft = Candidate(snapshot, Trigger.INTENT, after=position.snapshot, writes=written, base=position.parts)
    prepared = proved(prepare(draft))
    with transaction.atomic():
        saved(snapshot_save(prepared, fence=0))
    return Position(snapshot.revision, prepared.digest, snapshot, prepared.parts)


def first(engine: Engine) -> tuple[UUID, Position]:
    run_id = engine.start()
    return run_id, load_head(run_now(run_id))


def rows(run_id: UUID) -> list[Checkpoint]:
    return list(Checkpoint.objects.filter(run_id=run_id).order_by("revision"))
