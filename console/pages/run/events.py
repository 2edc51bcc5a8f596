"""What happened in a run, each thing as one event: an attempt, a revision, a lease, a wait, a decision and so on."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from approvals.models import Wait
from checkpoints.models import Checkpoint, SaveAttempt
from console.pages import signs, words
from receipts.models import Attempt, Publication, Reconciliation, ReportVersion
from receipts.states import AttemptOutcome
from runs.models import ControlRequest, Lease, Refusal, RunTransition


@dataclass(frozen=True)
class Event:
    """One thing that happened. `key` names it in the page's URL; `subject` is the row that it was read from.

    `short` is its label on the axis. A stretch has an `until`, or is `going` and may land until `may_land`.
    """

    key: str
    at: datetime
    kind: str
    what: str
    short: str
    subject: Any
    lamp: str = "neutral"
    icon: str = "neutral"
    until: datetime | None = None
    going: bool = False
    may_land: datetime | None = None
    revision: int | None = None
    fence: int | None = None


def status_event(move: RunTransition) -> Event:
    """A move of the run's status; one that took the lease is of the lease."""
    sign = signs.RUN[move.to_status]
    leased = move.cause in ("ACQUIRED", "TAKEOVER")
    return Event(
        key=f"move:{move.pk}",
        at=move.at,
        kind="Lease" if leased else "Status",
        what=_move_words(move),
        short=move.to_status.lower(),
        subject=move,
        lamp="caution" if move.cause == "TAKEOVER" else sign.lamp,
        icon="takeover" if move.cause == "TAKEOVER" else sign.icon,
        fence=move.fence,
    )


def _move_words(move: RunTransition) -> str:
    who = move.actor.partition(":")[2] or move.actor
    return words.moved(move.cause, move.to_status, who)


def checkpoint_event(saved: Checkpoint) -> Event:
    """A revision that was saved."""
    return Event(
        key=f"rev:{saved.revision}",
        at=saved.created_at,
        kind="Checkpoint",
        what=f"Revision {saved.revision} saved, {words.PHASE[saved.phase]}",
        short=str(saved.revision),
        subject=saved,
        icon="station",
        revision=saved.revision,
        fence=saved.fence,
    )


def attempt_name(attempt: Attempt) -> str:
    """What an attempt was a try of: the step of a tool call, or the turn of a model call."""
    return attempt.tool_call.step_name if attempt.tool_call else f"turn {attempt.model_call.turn_no}"  # type: ignore[union-attr]


def attempt_event(attempt: Attempt) -> Event:
    """A try of a model call or of a tool call, from when it was sent."""
    going = attempt.outcome is None
    sign = signs.ATTEMPT[attempt.outcome] if attempt.outcome else signs.CALL["DISPATCHED"]
    of_tool = attempt.tool_call is not None
    return Event(
        key=f"{'call' if of_tool else 'turn'}:{attempt.tool_call_id or attempt.model_call_id}:{attempt.attempt_no}",
        at=attempt.dispatched_at,
        kind="Tool call" if of_tool else "Model call",
        what=f"{attempt_name(attempt)}, attempt {attempt.attempt_no}: {words.OUTCOME[attempt.outcome]}",
        short=attempt_name(attempt),
        subject=attempt,
        lamp=sign.lamp,
        icon=sign.icon,
        until=attempt.finished_at,
        going=going,
        may_land=attempt.deadline_at if going or attempt.outcome == AttemptOutcome.NO_RESPONSE else None,
        fence=attempt.fence,
    )


CLOSED = {
    "EXPIRED": ("Nobody decided in time", "clock"),
    "CANCELLED": ("Wait cancelled with its run", "slash"),
    "SUPERSEDED": ("Wait superseded: the run moved", "slash"),
    "INVALIDATED": ("Wait invalidated before it was used", "denied"),
}


def wait_event(wait: Wait) -> Event:
    """An approval or an answer that was asked for, until it was closed."""
    asks = wait.kind == "QUESTION"
    return Event(
        key=f"wait:{wait.id}",
        at=wait.opened_at,
        kind="Wait",
        what=f"Question asked by {wait.tool_call.step_name}"
        if asks
        else f"Approval asked for {wait.tool_call.step_name}",
        short="question asked" if asks else "approval asked",
        subject=wait,
        lamp="caution",
        icon="caution",
        until=wait.closed_at,
        going=wait.status == "OPEN",
        revision=wait.checkpoint_revision,
        fence=wait.opened_fence,
    )


def decision_event(wait: Wait) -> Event:
    """What was decided of a wait that has a decision."""
    decision = wait.decision
    well = decision.verdict in ("APPROVE", "ANSWER")
    said = f"{decision.actor.removeprefix('person:')} {words.SAID[decision.verdict]}"
    return Event(
        key=f"decision:{wait.id}",
        at=decision.at,
        kind="Decision",
        what=f"{said} {wait.tool_call.step_name}",
        short=said,
        subject=wait,
        lamp="clear" if well else "stop",
        icon="clear" if well else "rejected",
        revision=wait.checkpoint_revision,
    )


def closed_event(wait: Wait) -> Event:
    """The end of a wait that nobody's decision closed."""
    said, icon = CLOSED[wait.status]
    if wait.kind == "QUESTION" and wait.status == "EXPIRED":
        said = "Nobody answered in time"
    return Event(
        key=f"closed:{wait.id}",
        at=wait.closed_at or wait.opened_at,
        kind="Wait",
        what=said,
        short=said,
        subject=wait,
        icon=icon,
        revision=wait.checkpoint_revision,
    )


PUBLICATION = {
    "REQUESTED": "asked for",
    "DISPATCHED": "sent",
    "PUBLISHED": "published",
    "FAILED": "not there",
    "UNCERTAIN": "may be there",
}


def version_event(version: ReportVersion) -> Event:
    """A report version that was written."""
    return Event(
        key=f"report:{version.id}",
        at=version.committed_at,
        kind="Report",
        what=f"Report v{version.version_no} written: {version.title}",
        short=f"v{version.version_no}",
        subject=version,
        icon="flag",
        fence=version.fence,
    )


def publication_event(publication: Publication) -> Event:
    """Where a version stands outside this console."""
    sign = signs.PUBLICATION[publication.status]
    said = f"v{publication.report_version.version_no} on {publication.channel}: {PUBLICATION[publication.status]}"
    return Event(
        key=f"publication:{publication.id}",
        at=publication.changed_at,
        kind="Report",
        what=said,
        short=said,
        subject=publication,
        lamp=sign.lamp,
        icon=sign.icon,
    )


def control_event(control: ControlRequest, stage: str) -> Event:
    """One stage of a stop or a pause that it has reached: accepted, adopted or settled."""
    by = control.requested_by.removeprefix("person:")
    name = str(control.kind).capitalize()
    over = f"{name} settled" if control.status == "SETTLED" else f"{name} moot: the run ended first"
    what, icon = {
        "accepted": (f"{name} accepted, asked by {by}", "stopring"),
        "adopted": (f"{name} adopted: nothing new starts", "stopping"),
        "settled": (over, "stop"),
    }[stage]
    return Event(
        key=f"{stage}:{control.id}",
        at=getattr(control, f"{stage}_at"),
        kind="Control",
        what=what,
        short=f"{name.lower()} {stage}",
        subject=control,
        lamp="stop",
        icon=icon,
    )


def refusal_event(refusal: Refusal) -> Event:
    """A write or an act that was refused."""
    return Event(
        key=f"refusal:{refusal.pk}",
        at=refusal.at,
        kind="Refused",
        what=words.refused(refusal.kind),
        short="refused",
        subject=refusal,
        lamp="stop",
        icon="refused",
        revision=refusal.expected_revision,
        fence=refusal.fence,
    )


LOST_SAVES = {
    "UNKNOWN": "Nobody knows yet whether revision {} was saved",
    "SAVED": "Revision {} was saved, though its acknowledgement was lost",
    "NOT_SAVED": "Revision {} was not saved: the connection was lost before",
}


def lost_save_event(save: SaveAttempt) -> Event:
    """A save whose acknowledgement was lost, and what the probe found. A refused save shows as its refusal."""
    unknown = save.status == "UNKNOWN"
    return Event(
        key=f"save:{save.pk}",
        at=save.at,
        kind="Save",
        what=LOST_SAVES[save.status].format(save.expected_revision + 1),
        short="save unknown" if unknown else "save probed",
        subject=save,
        lamp="unknown" if unknown else "neutral",
        icon="unknown" if unknown else "neutral",
        revision=save.expected_revision + 1,
        fence=save.fence,
    )


def verdict_event(verdict: Reconciliation) -> Event:
    """What a person or a probe said of a call of unknown outcome."""
    by = "a probe" if verdict.method == "PROBE" else verdict.actor.removeprefix("person:")
    return Event(
        key=f"verdict:{verdict.id}",
        at=verdict.at,
        kind="Verdict",
        what=f"{by} says of {verdict.tool_call.step_name}: {words.VERDICT[verdict.verdict]}",
        short=f"{by}: {words.VERDICT[verdict.verdict]}",
        subject=verdict,
        lamp="unknown",
        icon="person",
    )


@dataclass(frozen=True)
class Tenure:
    """One holder's time with the lease."""

    owner: str
    fence: int
    start: datetime
    end: datetime | None
    takeover: bool


def tenures(moves: Sequence[RunTransition], lease: Lease) -> list[Tenure]:
    """Who held the lease when, from the transitions that took it and the ones that freed it."""
    found: list[Tenure] = []
    held: RunTransition | None = None
    for move in moves:
        takes = move.cause in ("ACQUIRED", "TAKEOVER")
        frees = move.to_status not in ("RUNNING", "STOPPING")
        if held and (takes or frees):
            found.append(_tenure(held, move.at))
            held = None
        if takes:
            held = move
    if held:
        found.append(_tenure(held, None if lease.owner else lease.renewed_at))
    return found


def _tenure(move: RunTransition, end: datetime | None) -> Tenure:
    owner = move.actor.partition(":")[2] or move.actor
    return Tenure(owner, move.fence or 0, move.at, end, move.cause == "TAKEOVER")
