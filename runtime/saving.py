"""What becomes of a run whose next revision was surely not saved. The save module says what happened; here it is decided.

| Trigger | Not saved | Decided |
|---|---|---|
| any | VERSION_CONFLICT | memory is dropped and the run is read anew from its head, under a higher fence (T19) |
| AFTER_EFFECT, with the result in hand | any | receipt, effect and budget commit alone (T11); reads may go on, an effect or a wait may not (`loop/unsaved.py`) |
| CLOSING of a stop | any | the stop settles and the run is CANCELLED all the same (X01) |
| an act of a person | any | the act is refused, nothing of it stays |
| any other | any | HELD, SAVE_REFUSED: what comes next rests on the revision. A person may try again; nothing FAILED |
"""

from django.db import transaction

from checkpoints.services import SaveRefused, conflict, refused_save_record
from checkpoints.statements import Prepared
from checkpoints.states import NotSaved
from runs.errors import LeaseLost
from runs.leases import lease_refence
from runs.states import Holding, HoldReason, RunStatus
from runtime.ending import park
from runtime.statements import Written


class ReadAnew(Exception):
    """What the worker remembers is not what is stored any more: it goes on from the head, under a higher fence."""


def not_written(written: Written, prepared: Prepared) -> LeaseLost | SaveRefused:
    """Why a step with a save wrote nothing: its fence has passed, or the head is not the one that it continues."""
    return SaveRefused(conflict(prepared)) if written.held else LeaseLost()


def after_refused_save(holding: Holding, outcome: NotSaved) -> Holding | None:
    """Record the refusal and decide. Returns the lease under which the run is to be read anew, or None: it was given back."""
    record_refused_save(holding, outcome)
    if outcome.kind == "VERSION_CONFLICT":
        return read_anew(holding)
    park(
        holding,
        RunStatus.HELD,
        cause="SAVE_REFUSED",
        hold_reason=HoldReason.SAVE_REFUSED,
        detail=f"{outcome.kind} at {outcome.path}: {outcome.why}",
    )
    return None


def record_refused_save(holding: Holding, outcome: NotSaved) -> None:
    """Record a worker's save that was surely not made, in a small transaction of its own."""
    with transaction.atomic():
        refused_save_record(outcome, tenant_id=holding.tenant_id, run_id=holding.run_id, fence=holding.fence)


def read_anew(holding: Holding) -> Holding | None:
    """The same lease under a fence one higher, or None when it is lost: what was still under way can't be written now."""
    with transaction.atomic():
        return lease_refence(holding)
