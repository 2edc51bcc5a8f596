"""The stored results that a revision rests on, each looked up and compared by digest."""

from dataclasses import dataclass

from checkpoints.envelope import ResultRef, Snapshot
from console.pages.stored import Stored, stored_result
from receipts.models import ToolCall
from receipts.selectors import calls_of

SHOWN = 100  # results of one page, the newest ones


@dataclass(frozen=True)
class RestingFact:
    """One result that a revision refers to. `matches`: it is there, and its bytes have the digest that is referred to."""

    ref: ResultRef
    call: ToolCall | None
    stored: Stored | None
    matches: bool


def resting_facts(snapshot: Snapshot) -> list[RestingFact]:
    """The newest results of a revision, the newest first."""
    refs = list(snapshot.results)[::-1][:SHOWN]
    calls = calls_of(ids=[ref.call for ref in refs])
    return [_fact(ref, calls.get(ref.call)) for ref in refs]


def _fact(ref: ResultRef, call: ToolCall | None) -> RestingFact:
    result = getattr(call, "result", None)
    stored = stored_result(result) if result else None
    return RestingFact(ref, call, stored, stored is not None and stored.intact and stored.digest == ref.digest)
