"""What stands of a run after any interruption, said of every single thing: reusable, to be authorised again, or unknown.

A read: nothing is decided here and nothing is written. The loop and the guards go by the same rows; this says in words what
they would do with them (A-003). Everything of the ledger is under exactly one heading.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from uuid import UUID

from accounts.states import Actor
from checkpoints.errors import Unreadable
from checkpoints.selectors import has_head, lapses_of, load_head, saves_of, unknown_saves
from receipts.selectors import Ledger, ledger_of
from receipts.states import CallStatus, EffectClass, ModelCallStatus, PublicationStatus
from runs.leases import lease_held
from runs.selectors import access_run, refusals_of
from runs.states import NextAct, next_acts


class Standing(StrEnum):
    """The three headings."""

    REUSABLE = "REUSABLE"
    REAUTHORISE = "REAUTHORISE"
    UNKNOWN = "UNKNOWN"


class Thing(StrEnum):
    """What a line is about."""

    INPUT = "INPUT"
    TURN = "TURN"
    CALL = "CALL"
    OBSERVATION = "OBSERVATION"
    PUBLICATION = "PUBLICATION"


@dataclass(frozen=True)
class Line:
    """One thing: what it is, its own status, its heading, and what that means. `id` names a call or a report version."""

    thing: Thing
    name: str
    status: str
    standing: Standing
    means: str
    id: UUID | None = None


@dataclass(frozen=True)
class Checks:
    """What is determined before anybody goes on (A-073): is there a valid executor, what is committed, what is unconfirmed."""

    worker: str | None
    fence: int
    held: bool
    committed: int
    unconfirmed: int


@dataclass(frozen=True)
class Point:
    """Where the run would go on: the head, or why there is no such point (A-019). `readable` False: it was changed, is of
    another format, or a save of unknown outcome may have moved it (A-039); `found` says which.
    """

    revision: int | None
    phase: str
    readable: bool
    found: str


@dataclass(frozen=True)
class Recovery:
    """What stands of a run, what was checked, where it would go on, who can do what, and the evidence."""

    run: Any
    checks: Checks
    point: Point
    lines: tuple[Line, ...]
    acts: tuple[NextAct, ...]
    lost: Sequence[Mapping[str, Any]]
    refusals: Sequence[Any]
    saves: Sequence[Any]

    def under(self, standing: Standing) -> list[Line]:
        """The lines under one heading."""
        return [line for line in self.lines if line.standing == standing]


def run_recovery(*, actor: Actor, run_id: UUID) -> Recovery:
    """What stands of a run, live or ended. Needs the permission to read. Raises NotFound."""
    run = access_run(actor=actor, id=run_id)
    ledger = ledger_of(run_id)
    lines = tuple(_lines(run, ledger))
    lease = run.lease
    return Recovery(
        run=run,
        checks=Checks(
            worker=lease.owner,
            fence=lease.fence,
            held=bool(lease.owner) and lease_held(lease),
            committed=sum(line.standing == Standing.REUSABLE for line in lines),
            unconfirmed=len(ledger.unanswered),
        ),
        point=_point(run),
        lines=lines,
        acts=next_acts(run.status, run.hold_reason),
        lost=ledger.lost,
        refusals=refusals_of(run),
        saves=saves_of(run_id),
    )


def standing_of(run: Any) -> tuple[Line, ...]:
    """Every single thing of a run that `access_run` has given out, under its heading."""
    return tuple(_lines(run, ledger_of(run.id)))


def _point(run: Any) -> Point:
    if not has_head(run.id):
        return Point(None, "", readable=False, found="there is no checkpoint: it can only be started anew")
    if unknown_saves(run.id):
        return Point(None, "", readable=False, found="a save has an unknown outcome, and nobody has looked it up yet")
    try:
        position = load_head(run)
    except Unreadable as error:
        return Point(None, "", readable=False, found=str(error))
    return Point(position.revision, position.snapshot.phase, readable=True, found="")


def _lines(run: Any, ledger: Ledger) -> Iterator[Line]:
    for given in ledger.inputs:
        means = f"it is stored under its digest {given.sha256[:12]}"
        yield Line(Thing.INPUT, given.name, "STORED", Standing.REUSABLE, means)
    for turn in ledger.turns:
        yield Line(Thing.TURN, f"turn {turn.turn_no}", turn.status, *_TURNS[turn.status])
    lapsed = lapses_of([call.id for call in ledger.calls])
    for call in ledger.calls:
        yield _call(call, lapsed)
    for publication in ledger.publications:
        version = publication.report_version
        name = f"{version.report.slug} v{version.version_no} on {publication.channel}"
        yield Line(Thing.PUBLICATION, name, publication.status, *_PUBLICATIONS[publication.status], version.report_id)


def _call(call: Any, lapsed: Mapping[UUID, str]) -> Line:
    thing = Thing.OBSERVATION if call.effect_class == EffectClass.READ_ONLY else Thing.CALL
    standing, means = _CALLS[call.status]
    if call.id in lapsed:
        standing, means = (
            Standing.REAUTHORISE,
            "what it observed has passed its half-life: it is read again under a new step",
        )
    elif call.status == CallStatus.UNCERTAIN and not call.blocking:
        means = "nobody knows whether it happened, and the run went on without it; it is not sent again"
    elif call.status == CallStatus.RETRY_WAIT and call.contradicted:
        standing, means = Standing.UNKNOWN, "evidence speaks against what was said of it; a person has to look"
    return Line(thing, call.step_name, call.status, standing, means, call.id)


Meaning = tuple[Standing, str]

_TURNS: dict[str, Meaning] = {
    ModelCallStatus.SEALED: (Standing.REUSABLE, "its answer is stored; the model is not asked again"),
    ModelCallStatus.DISPATCHED: (Standing.UNKNOWN, "it was sent and has not been answered"),
    ModelCallStatus.UNCERTAIN: (
        Standing.UNKNOWN,
        "its answer was lost, and what it cost stays held; it may be asked again",
    ),
    ModelCallStatus.RETRY_WAIT: (
        Standing.REAUTHORISE,
        "the provider said “not now”: it is asked again under lease and budget",
    ),
    ModelCallStatus.FAILED: (Standing.REAUTHORISE, "the provider refused it for good"),
    ModelCallStatus.CANCELLED: (Standing.REAUTHORISE, "the run ended before it was answered"),
}

_NOT_DONE = "it did not happen; it takes a new proposal, policy and, where policy says so, an approval"
_CALLS: dict[str, Meaning] = {
    CallStatus.SUCCEEDED: (Standing.REUSABLE, "its result is stored; it is never executed again"),
    CallStatus.PROPOSED: (Standing.REAUTHORISE, "it was not sent; policy is asked again"),
    CallStatus.AWAITING_APPROVAL: (
        Standing.REAUTHORISE,
        "it was not sent; a person has to decide, and the guards are asked again",
    ),
    CallStatus.AWAITING_INPUT: (Standing.REAUTHORISE, "nobody has answered it yet; the model has to ask again"),
    CallStatus.RETRY_WAIT: (
        Standing.REAUTHORISE,
        "it is known not to have happened; it is sent again under the same key, after the guards",
    ),
    CallStatus.DISPATCHED: (Standing.UNKNOWN, "it was sent and has not been answered"),
    CallStatus.UNCERTAIN: (Standing.UNKNOWN, "nobody knows whether it happened"),
    CallStatus.FAILED: (Standing.REAUTHORISE, _NOT_DONE),
    CallStatus.DENIED: (Standing.REAUTHORISE, _NOT_DONE),
    CallStatus.REJECTED: (Standing.REAUTHORISE, _NOT_DONE),
    CallStatus.CANCELLED: (Standing.REAUTHORISE, _NOT_DONE),
}

_PUBLICATIONS: dict[str, Meaning] = {
    PublicationStatus.PUBLISHED: (Standing.REUSABLE, "it is published and stays readable, whatever happens to the run"),
    PublicationStatus.REQUESTED: (Standing.REAUTHORISE, "it is drafted and was not sent; its call decides"),
    PublicationStatus.FAILED: (Standing.REAUTHORISE, "it was not published"),
    PublicationStatus.DISPATCHED: (Standing.UNKNOWN, "it was sent and has not been answered"),
    PublicationStatus.UNCERTAIN: (Standing.UNKNOWN, "nobody knows whether it is published"),
}
