"""The stored results that a revision rests on, each looked up and compared by digest."""

from dataclasses import dataclass

from checkpoints.envelope import ResultRef, Snapshot
from console.pages.stored import Stored, stored_result
from receipts.models import ToolCall
from receipts.selectors import calls_of
from runtime.masking import Masks

SHOWN = 100  # results of one page, the newest ones


@dataclass(frozen=True)
class RestingFact:
    """One result that a revision refers to. `matches`: it is there, and its bytes have the digest that is referred to."""

    ref: ResultRef
    call: ToolCall | None
    stored: Stored | None
    matches: bool


def resting_facts(snapshot: Snapshot, masks: Masks) -> list[RestingFact]:
    """The newest results of a revision, the newest first. `masks`: those of nobody."""
    refs = list(snapshot.results)[::-1][:SHOWN]
    calls = calls_of(ids=[ref.call for ref in refs])
    return [_fact(ref, calls.get(ref.call), masks) for ref in refs]


def _fact(ref: ResultRef, call: ToolCall | None, masks: Masks) -> RestingFact:
    result = getattr(call, "result", None)
    stored = stored_result(result, masks.of(call)) if result and call else None
    return RestingFact(ref, call, stored, stored is not None and stored.intact and stored.digest == ref.digest)
