"""What happened in a run, as events in order: one for each attempt, revision, lease, wait, decision and so on."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Any

from approvals.models import Wait
from console.pages import signs, words
from console.pages.run.rows import WINDOW, RunRows
from receipts.models import Attempt
from receipts.states import AttemptOutcome
from runs.models import ControlRequest, Lease, RunTransition


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


def run_events(rows: RunRows) -> list[Event]:
    """The events of the window, oldest first, at most WINDOW of them."""
    found = chain(
        _status_events(rows),
        _checkpoint_events(rows),
        map(_attempt_event, rows.attempts),
        chain.from_iterable(map(_wait_events, rows.waits)),
        _report_events(rows),
        chain.from_iterable(map(_control_events, rows.controls)),
        _refusal_events(rows),
        _lost_save_events(rows),
        _verdict_events(rows),
    )
    shown = [event for event in found if rows.before is None or event.at < rows.before]
    return sorted(shown, key=lambda event: event.at)[-WINDOW:]


def _status_events(rows: RunRows) -> Iterator[Event]:
    for move in rows.transitions:
        sign = signs.RUN[move.to_status]
        leased = move.cause in ("ACQUIRED", "TAKEOVER")
        yield Event(
            key=f"move-{move.pk}",
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


def _checkpoint_events(rows: RunRows) -> Iterator[Event]:
    for saved in rows.checkpoints:
        yield Event(
            key=f"rev-{saved.revision}",
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


def _attempt_event(attempt: Attempt) -> Event:
    going = attempt.outcome is None
    sign = signs.ATTEMPT[attempt.outcome] if attempt.outcome else signs.CALL["DISPATCHED"]
    of_tool = attempt.tool_call is not None
    return Event(
        key=f"{'call' if of_tool else 'turn'}-{attempt.tool_call_id or attempt.model_call_id}-{attempt.attempt_no}",
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


def _wait_events(wait: Wait) -> Iterator[Event]:
    common: dict[str, Any] = {"subject": wait, "revision": wait.checkpoint_revision}
    yield Event(
        key=f"wait-{wait.id}",
        at=wait.opened_at,
        kind="Wait",
        what=f"Approval asked for {wait.tool_call.step_name}",
        short="approval asked",
        lamp="caution",
        icon="caution",
        until=wait.closed_at,
        going=wait.status == "OPEN",
        fence=wait.opened_fence,
        **common,
    )
    decision = getattr(wait, "decision", None)
    if decision:
        approved = decision.verdict == "APPROVE"
        said = f"{decision.actor.removeprefix('person:')} {'approved' if approved else 'rejected'}"
        yield Event(
            key=f"decision-{wait.id}",
            at=decision.at,
            kind="Decision",
            what=f"{said} {wait.tool_call.step_name}",
            short=said,
            lamp="clear" if approved else "stop",
            icon="clear" if approved else "rejected",
            **common,
        )
    if wait.status in CLOSED and wait.closed_at:
        said, icon = CLOSED[wait.status]
        yield Event(key=f"closed-{wait.id}", at=wait.closed_at, kind="Wait", what=said, short=said, icon=icon, **common)


PUBLICATION = {
    "REQUESTED": "asked for",
    "DISPATCHED": "sent",
    "PUBLISHED": "published",
    "FAILED": "not there",
    "UNCERTAIN": "may be there",
}


def _report_events(rows: RunRows) -> Iterator[Event]:
    for version in rows.versions:
        yield Event(
            key=f"report-{version.id}",
            at=version.committed_at,
            kind="Report",
            what=f"Report v{version.version_no} written: {version.title}",
            short=f"v{version.version_no}",
            subject=version,
            icon="flag",
            fence=version.fence,
        )
    for publication in rows.publications:
        sign = signs.PUBLICATION[publication.status]
        said = f"v{publication.report_version.version_no} on {publication.channel}: {PUBLICATION[publication.status]}"
        yield Event(
            key=f"publication-{publication.id}",
            at=publication.changed_at,
            kind="Report",
            what=said,
            short=said,
            subject=publication,
            lamp=sign.lamp,
            icon=sign.icon,
        )


def _control_events(control: ControlRequest) -> Iterator[Event]:
    by = control.requested_by.removeprefix("person:")
    name = str(control.kind).capitalize()
    over = f"{name} settled" if control.status == "SETTLED" else f"{name} moot: the run ended first"
    stages = [
        ("accepted", control.accepted_at, f"{name} accepted, asked by {by}", "stopring"),
        ("adopted", control.adopted_at, f"{name} adopted: nothing new starts", "stopping"),
        ("settled", control.settled_at, over, "stop"),
    ]
    for stage, at, what, icon in stages:
        if at:
            key = f"{name.lower()}-{control.id}-{stage}"
            yield Event(
                key=key,
                at=at,
                kind="Control",
                what=what,
                short=f"{name.lower()} {stage}",
                subject=control,
                lamp="stop",
                icon=icon,
            )


def _refusal_events(rows: RunRows) -> Iterator[Event]:
    for refusal in rows.refusals:
        yield Event(
            key=f"refusal-{refusal.pk}",
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


def _lost_save_events(rows: RunRows) -> Iterator[Event]:
    """Saves whose acknowledgement was lost, and what the probe found. A refused save shows as its refusal."""
    for save in rows.lost_saves:
        unknown = save.status == "UNKNOWN"
        yield Event(
            key=f"save-{save.pk}",
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


def _verdict_events(rows: RunRows) -> Iterator[Event]:
    for verdict in rows.verdicts:
        by = "a probe" if verdict.method == "PROBE" else verdict.actor.removeprefix("person:")
        yield Event(
            key=f"verdict-{verdict.id}",
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


def tenures(moves: list[RunTransition], lease: Lease) -> list[Tenure]:
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
