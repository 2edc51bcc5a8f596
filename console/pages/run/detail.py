"""The event that is looked at: its facts, and where to read more."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast
from uuid import UUID

from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from approvals.models import Wait
from checkpoints.models import Checkpoint, SaveAttempt
from console.pages import words
from console.pages.amounts import size
from console.pages.run.events import Event
from console.pages.units import NAMES, amount
from console.templatetags.moments import age, digest, short_id, to_go, when
from console.templatetags.signalbox import effect, exact, person, state_chip
from receipts.models import Attempt, ModelCall, Publication, Reconciliation, ReportVersion
from runs.models import ControlRequest, Refusal, RunTransition
from runs.states import BudgetUnit, ControlKind

Fact = tuple[str, SafeString | str]


@dataclass(frozen=True)
class Detail:
    """What the side panel shows. `chip` is the state of the row now; `link` opens its own page."""

    event: Event
    chip: SafeString | str
    facts: list[Fact]
    link: str
    link_word: str


def detail_of(event: Event, run_id: UUID) -> Detail:
    """The facts of one event. Nothing is read from the database here but what the event already carries."""
    build: Callable[[Any, UUID], tuple[SafeString | str, list[Fact], str, str]] = _BUILDERS[type(event.subject)]
    chip, facts, link, word = build(event.subject, run_id)
    return Detail(event, chip, facts, link, word)


def _attempt(attempt: Attempt, run_id: UUID) -> tuple[SafeString | str, list[Fact], str, str]:
    facts: list[Fact] = [
        ("Sent", format_html("{}, fence {}", when(attempt.dispatched_at), attempt.fence)),
        ("Answered", format_html("{}", when(attempt.finished_at)) if attempt.outcome == "OK" else ""),
        ("Closed", when(attempt.finished_at) if attempt.outcome not in (None, "OK") else ""),
        ("Time is up", _deadline(attempt)),
        ("Error", exact(attempt.error, "line") if attempt.error else ""),
        ("Answer", digest(attempt.response_digest) if attempt.response_digest else ""),
        ("Authorised", person(attempt.authorised_by)),
    ]
    if attempt.tool_call is None:
        return _turn(attempt, facts)
    call = attempt.tool_call
    about: list[Fact] = [
        ("Call", short_id(call.id)),
        ("Tool", format_html("<code>{}</code> {}", exact(call.tool, "line"), exact(call.tool_version, "line"))),
        ("Effect class", effect(call.effect_class)),
    ]
    bytes_: list[Fact] = [("Arguments", digest(call.args_digest, 12)), ("Key", digest(call.idempotency_key, 12))]
    return state_chip("call", call.status), about + facts + bytes_, reverse("call", args=[call.id]), "Open the call"


def _deadline(attempt: Attempt) -> SafeString | str:
    if attempt.deadline_at is None:
        return ""
    if attempt.outcome is None:
        return format_html("{}, {}", when(attempt.deadline_at), to_go(attempt.deadline_at))
    return when(attempt.deadline_at)


def _turn(attempt: Attempt, facts: list[Fact]) -> tuple[SafeString | str, list[Fact], str, str]:
    turn = cast("ModelCall", attempt.model_call)  # an attempt is of one receipt, by constraint
    used = f"{turn.input_tokens} in, {turn.output_tokens} out" if turn.input_tokens is not None else ""
    about: list[Fact] = [
        ("Model", exact(turn.model, "line")),
        ("Asked at", f"revision {turn.at_revision}"),
        ("Tokens", used),
        ("Request", digest(turn.request_digest, 12)),
    ]
    return state_chip("model", turn.status), about + facts, "", ""


def _checkpoint(saved: Checkpoint, run_id: UUID) -> tuple[SafeString | str, list[Fact], str, str]:
    facts: list[Fact] = [
        ("Revision", str(saved.revision)),
        ("Phase", words.PHASE[saved.phase].capitalize()),
        ("Next", exact(saved.next_node, "line")),
        ("Why saved", words.capitalised(words.TRIGGER[saved.trigger])),
        ("Fence", str(saved.fence)),
        ("Digest", digest(saved.digest, 12)),
        ("Size", size(saved.body_bytes)),
    ]
    return "", facts, reverse("checkpoint", args=[run_id, saved.revision]), "Open the checkpoint"


def _wait(wait: Wait, run_id: UUID) -> tuple[SafeString | str, list[Fact], str, str]:
    decision = getattr(wait, "decision", None)
    facts: list[Fact] = [
        ("Call", exact(wait.tool_call.step_name, "line")),
        ("Effect class", effect(wait.tool_call.effect_class)),
        ("Bound to", format_html("revision {} {}", wait.checkpoint_revision, digest(wait.checkpoint_digest))),
        ("Arguments", digest(wait.args_digest, 12)),
        ("Asked by", exact(wait.policy_rule, "line")),
        (
            "Deadline",
            format_html("{}, {}", when(wait.deadline), to_go(wait.deadline)) if wait.status == "OPEN" else "",
        ),
        ("Decided", format_html("{} {}", person(decision.actor), when(decision.at)) if decision else ""),
        ("Reason", exact(decision.reason) if decision else ""),
        ("Closed because", exact(wait.status_reason, "line") if wait.status_reason else ""),
    ]
    asks = wait.kind == "QUESTION"
    word = "Open the question" if asks else "Open the decision" if wait.status == "OPEN" else "Open the wait"
    return state_chip("wait", wait.status), facts, reverse("wait", args=[wait.id]), word


def _version(version: ReportVersion, run_id: UUID) -> tuple[SafeString | str, list[Fact], str, str]:
    facts: list[Fact] = [
        ("Title", exact(version.title, "line")),
        ("Version", str(version.version_no)),
        ("Body", digest(version.sha256, 12)),
        ("Rests on", f"{len(version.source_calls)} calls"),
    ]
    return "", facts, reverse("report", args=[version.report_id]), "Open the report"


def _publication(publication: Publication, run_id: UUID) -> tuple[SafeString | str, list[Fact], str, str]:
    version = publication.report_version
    facts: list[Fact] = [
        ("Version", str(version.version_no)),
        ("Channel", publication.channel),
        ("There", exact(publication.external_ref, "line") if publication.external_ref else ""),
    ]
    link = reverse("report", args=[version.report_id])
    return state_chip("publication", publication.status), facts, link, "Open the report"


def _control(control: ControlRequest, run_id: UUID) -> tuple[SafeString | str, list[Fact], str, str]:
    facts: list[Fact] = [
        ("Asked by", person(control.requested_by)),
        ("Reason", exact(control.reason)),
        ("Accepted", when(control.accepted_at)),
        ("Adopted", when(control.adopted_at)),
        ("Settled", when(control.settled_at)),
    ]
    if control.kind == ControlKind.PAUSE:
        return state_chip("control", control.status), facts, reverse("run-retry", args=[run_id]), "Resume the run"
    return state_chip("control", control.status), facts, reverse("stop", args=[run_id]), "Open the stop"


def _refusal(refusal: Refusal, run_id: UUID) -> tuple[SafeString | str, list[Fact], str, str]:
    facts: list[Fact] = [
        ("Code", refusal.kind),
        ("Fence", "" if refusal.fence is None else str(refusal.fence)),
        ("Expected", "" if refusal.expected_revision is None else f"revision {refusal.expected_revision}"),
        ("Found", "" if refusal.actual_revision is None else f"revision {refusal.actual_revision}"),
        ("About", short_id(refusal.subject_id) if refusal.subject_id else ""),
    ]
    said: list[Fact] = [
        (str(key).replace("_", " ").capitalize(), exact(plain_detail(value), "line"))
        for key, value in refusal.detail.items()
    ]
    return "", facts + said, "", ""


def plain_detail(value: Any) -> str:
    """A value of a refusal's detail in words: what a budget was short of, a list with commas, everything else as it is."""
    if isinstance(value, list):
        return (
            "; ".join(plain_detail(one) for one in value)
            if any(isinstance(one, dict) for one in value)
            else _listed(value)
        )
    if isinstance(value, dict) and value.keys() >= {"unit", "wanted", "room", "cap"}:
        unit, (wanted, room, cap) = value["unit"], (value["wanted"], value["room"], value["cap"])
        left = amount(unit, max(room or 0, 0))
        return f"{NAMES[BudgetUnit(unit)]}: {amount(unit, wanted)} wanted, {left} left of {amount(unit, cap)}"
    if isinstance(value, dict):
        return ", ".join(f"{str(key).replace('_', ' ')} {plain_detail(one)}" for key, one in value.items())
    return str(value)


def _listed(values: Sequence[Any]) -> str:
    return ", ".join(str(one) for one in values)


def _lost_save(save: SaveAttempt, run_id: UUID) -> tuple[SafeString | str, list[Fact], str, str]:
    facts: list[Fact] = [
        (
            "Found",
            {"UNKNOWN": "not looked up yet", "SAVED": "it is there", "NOT_SAVED": "it is not there"}[save.status],
        ),
        ("Save", short_id(save.save_id)),
        ("Follows", f"revision {save.expected_revision}"),
        ("Sent under", f"fence {save.fence}"),
        ("Looked up", when(save.resolved_at)),
        ("Under", "" if save.resolved_fence is None else f"fence {save.resolved_fence}"),
    ]
    return "", facts, "", ""


def _verdict(verdict: Reconciliation, run_id: UUID) -> tuple[SafeString | str, list[Fact], str, str]:
    facts: list[Fact] = [
        ("Verdict", words.capitalised(words.VERDICT[verdict.verdict])),
        ("Then", {"RETRY": "Send it again", "FAIL": "Do not send it"}.get(verdict.follow_up, "")),
        ("Said by", person(verdict.actor)),
        ("Evidence", exact(verdict.evidence)),
        ("There", exact(verdict.external_ref, "line") if verdict.external_ref else ""),
    ]
    call = verdict.tool_call
    return state_chip("call", call.status), facts, reverse("call", args=[call.id]), "Open the call"


def _move(move: RunTransition, run_id: UUID) -> tuple[SafeString | str, list[Fact], str, str]:
    facts: list[Fact] = [
        ("From", (move.from_status or "").capitalize()),
        ("To", move.to_status.capitalize()),
        ("Code", move.cause),
        ("Why", exact(move.detail) if move.detail else ""),
        ("By", person(move.actor)),
        ("Fence", "" if move.fence is None else str(move.fence)),
        ("Since", format_html("{} ago", age(move.at))),
    ]
    return state_chip("run", move.to_status), facts, "", ""


_BUILDERS: dict[type, Any] = {
    Attempt: _attempt,
    Checkpoint: _checkpoint,
    Wait: _wait,
    ReportVersion: _version,
    Publication: _publication,
    ControlRequest: _control,
    Refusal: _refusal,
    SaveAttempt: _lost_save,
    Reconciliation: _verdict,
    RunTransition: _move,
}
