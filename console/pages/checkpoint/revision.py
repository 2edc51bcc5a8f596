"""One stored revision, read again and checked: its digest, its link to the parent, the results that it rests on."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.db.models import Q

from accounts.statements import together
from approvals.models import Wait
from checkpoints.envelope import Promise, Snapshot
from checkpoints.errors import Purged, Unreadable
from checkpoints.models import Checkpoint, Head, Intent
from checkpoints.selectors import checkpoint_view, load_snapshot
from checkpoints.states import ENDED_PHASE, ObligationStatus, Phase
from console.pages.diff import Difference, difference, json_pieces
from console.pages.resting import RestingFact, resting_facts
from receipts.models import ToolCall
from runs.canonical import canonical
from runs.models import Run, RunTransition
from runtime.masking import Masks

NEXT = {
    Phase.READY_TO_DECIDE: "Ask the model what to do next.",
    Phase.DECISION_RECORDED: "Ask the policy about the calls that the model proposed.",
    Phase.AWAITING_APPROVAL: "Wait for a decision; then send the call, or tell the model no.",
    Phase.AWAITING_INPUT: "Wait for an answer of a person.",
    Phase.AWAITING_TOOL_RESULT: "Wait for the answer of what was sent.",
    Phase.TOOL_RESULT_RECORDED: "Take the next call of the turn, or ask the model.",
    Phase.READY_TO_VERIFY: "Check that everything promised is done, then finish.",
    Phase.FINISHED: "Nothing. The run is finished.",
    Phase.STOPPED: "Nothing. The run was stopped.",
}


@dataclass(frozen=True)
class Check:
    """One thing that was checked just now. `holds` is None for what could not be checked."""

    holds: bool | None
    says: str


@dataclass(frozen=True)
class Around:
    """The rows around a revision. `parents`: the revision before, `intents` its goal and the newest one."""

    heads: list[Head]
    parents: list[Checkpoint]
    waits: list[Wait]
    taken: list[RunTransition]
    intents: list[Intent]


def around(saved: Checkpoint) -> Around:
    """What is around a revision that `access_checkpoint` has given out, in one query."""
    of_run = {"run": saved.run_id}
    waits = Wait.objects.filter(**of_run, checkpoint_revision=saved.revision).select_related("tool_call")
    newest = Intent.objects.filter(**of_run).order_by("-version").values("version")[:1]
    return Around(
        *together(
            Head.objects.filter(**of_run),
            Checkpoint.objects.filter(**of_run, revision=saved.revision - 1),
            waits.defer("tool_call__args").order_by("opened_at"),
            RunTransition.objects.filter(**of_run, fence=saved.fence, to_status="RUNNING").order_by("id")[:1],
            Intent.objects.filter(Q(version=saved.intent_version) | Q(version=newest), **of_run).order_by("version"),
        )
    )


@dataclass
class Revision:
    """A stored revision of a run, with everything its page shows. Nothing of an unreadable body is shown."""

    run: Run
    saved: Checkpoint

    @cached_property
    def around(self) -> Around:
        return around(self.saved)

    def at(self, revision: int) -> Checkpoint | None:
        """Any revision of the same run, to be compared; None where there is none."""
        known = next((one for one in (self.saved, *self.around.parents) if one.revision == revision), None)
        return known or Checkpoint.objects.filter(run=self.run, revision=revision).first()

    @cached_property
    def _read(self) -> tuple[Snapshot | None, str]:
        try:
            return load_snapshot(self.saved), ""
        except Unreadable as error:
            return None, str(error)

    @property
    def snapshot(self) -> Snapshot | None:
        return self._read[0]

    @property
    def unreadable(self) -> str:
        """Why the body can't be shown, or an empty text."""
        return self._read[1]

    @property
    def head(self) -> Head:
        return self.around.heads[0]

    @property
    def is_head(self) -> bool:
        return self.head.revision == self.saved.revision

    @property
    def parent(self) -> Checkpoint | None:
        return next(iter(self.around.parents), None)

    @property
    def older(self) -> int | None:
        return self.saved.revision - 1 if self.saved.revision > 1 else None

    @property
    def newer(self) -> int | None:
        return self.saved.revision + 1 if self.saved.revision < self.head.revision else None

    @cached_property
    def facts(self) -> list[RestingFact]:
        return resting_facts(self.snapshot, Masks()) if self.snapshot else []

    @cached_property
    def checks(self) -> list[Check]:
        """What was checked, in order: the bytes, the parent, the results."""
        return list(self._checked())

    @property
    def purged(self) -> bool:
        """Whether retention has let the body go. That is no fault of the revision."""
        return self.saved.purged_at is not None

    def _checked(self) -> Iterator[Check]:
        if self.purged:
            yield Check(None, "The body was purged, so its digest can't be computed again.")
        elif self.snapshot is None:
            yield Check(False, f"The stored bytes can't be used. {self.unreadable}.")
        else:
            yield Check(True, "The digest was computed again from the stored bytes: the same.")
            named = (self.snapshot.run, self.snapshot.revision, self.snapshot.parent_digest)
            same = named == (self.run.id, self.saved.revision, self.saved.parent_digest)
            yield Check(same, f"The bytes name this run and this revision: {'yes' if same else 'no'}.")
        if self.parent is not None:
            same = self.parent.digest == self.saved.parent_digest
            yield Check(same, f"The link to revision {self.parent.revision} {'holds' if same else 'does not hold'}.")
        if self.snapshot is not None and self.snapshot.results:
            good = sum(1 for fact in self.facts if fact.matches)
            yield Check(good == len(self.facts), f"{good} of {len(self.facts)} results found with the same digest.")

    @property
    def verified(self) -> bool:
        return all(check.holds is not False for check in self.checks)

    @property
    def waits(self) -> list[Wait]:
        """The waits that are bound to this revision."""
        return self.around.waits

    @cached_property
    def barrier(self) -> list[ToolCall]:
        """The calls of the turn that the run is working off, in order."""
        if self.snapshot is None:
            return []
        calls = ToolCall.objects.defer("args").in_bulk(list(self.snapshot.barrier))
        return [calls[call] for call in self.snapshot.barrier if call in calls]

    @property
    def intent(self) -> Intent | None:
        return next((one for one in self.around.intents if one.version == self.saved.intent_version), None)

    @property
    def newest_intent(self) -> int:
        """The version that the goal is at by now."""
        return self.around.intents[-1].version

    @property
    def promises(self) -> list[Promise]:
        return list(self.snapshot.contract.obligations) if self.snapshot else []

    @property
    def open_promises(self) -> list[Promise]:
        return [promise for promise in self.promises if promise.status == ObligationStatus.OPEN]

    @property
    def next_step(self) -> str:
        return NEXT[Phase(self.saved.phase)]

    @property
    def ended(self) -> bool:
        return self.saved.phase in ENDED_PHASE

    @property
    def saved_by(self) -> str:
        """Who held the lease under the fence of this revision."""
        return next((taken.actor for taken in self.around.taken), "")


@dataclass(frozen=True)
class PartSize:
    """The bytes of one part of the body in both revisions; 0 where it is not there."""

    name: str
    before: int
    after: int

    @property
    def grown(self) -> int:
        return self.after - self.before


def part_sizes(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[PartSize, ...]:
    """What made a body larger or smaller: the parts whose size differs, the largest change first."""
    parts = [PartSize(name, _size(before, name), _size(after, name)) for name in {**before, **after}]
    return tuple(sorted((part for part in parts if part.grown), key=lambda part: -abs(part.grown)))


def _size(body: Mapping[str, Any], name: str) -> int:
    return len(canonical(body[name])) if name in body else 0


@dataclass(frozen=True)
class Comparison:
    """Two revisions side by side; `unreadable` says why they can't be compared."""

    older: Checkpoint
    newer: Checkpoint
    difference: Difference | None
    unreadable: str = ""
    sizes: tuple["PartSize", ...] = ()

    @property
    def grown(self) -> int:
        """How many bytes the newer body has more than the older one."""
        return self.newer.body_bytes - self.older.body_bytes

    @property
    def purged(self) -> bool:
        return any(saved.purged_at for saved in (self.older, self.newer))


def compared(one: Checkpoint, other: Checkpoint) -> Comparison:
    """The difference of two revisions of a run, the older one on the left."""
    older, newer = sorted((one, other), key=lambda saved: saved.revision)
    try:
        before, after = _body(older), _body(newer)
    except Unreadable as error:
        return Comparison(older, newer, None, str(error))
    found = difference(json_pieces(before), json_pieces(after))
    return Comparison(older, newer, found, sizes=part_sizes(before, after))


def _body(saved: Checkpoint) -> dict[str, Any]:
    try:
        return checkpoint_view(saved)
    except Unreadable as error:
        found = error.found if isinstance(error, Purged) else f"revision {saved.revision}, {error.found}"
        raise Unreadable(error.kind, found) from error
