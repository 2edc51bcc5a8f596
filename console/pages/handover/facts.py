"""What a new operator has to know of a run: what is open, what people said and why, what comes next, who watched it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from accounts.models import AuditEvent
from accounts.statements import together
from approvals.models import Assignment, Look, Vote, Wait
from approvals.states import can_decide
from checkpoints.models import Commitment, Intent
from checkpoints.states import ObligationStatus, Phase
from console.pages import signs, words
from console.pages.checkpoint.revision import NEXT
from console.pages.few import Few
from console.pages.run.rows import RunRows
from console.templatetags.moments import when
from console.templatetags.signalbox import exact
from receipts.models import Contradiction, Reconciliation
from runs.models import ControlRequest, Run, RunInput
from runs.states import ENDED_RUN, RunStatus

SAID = 12  # of what people said, the newest
WATCHED = 200  # audited acts on the run that are gone through, the newest


@dataclass(frozen=True)
class Open:
    """One thing that is open: what it is, what is due, until when, and who looks at it."""

    lamp: str
    icon: str
    what: str
    why: str
    url: str
    deadline: datetime | None = None
    person: str = ""


@dataclass(frozen=True)
class Said:
    """What one person did, and the reason in their own words."""

    at: datetime
    who: str
    what: str
    reason: str
    url: str


@dataclass(frozen=True)
class Watcher:
    """Somebody who looked at the run or acted on it: how often, and what they did last."""

    who: str
    times: int
    last: datetime
    what: str


@dataclass(frozen=True)
class Told:
    """The rows that tell what happened between people and a run, the newest of each kind."""

    intents: list[Intent]
    inputs: list[RunInput]
    terms: list[Commitment]
    whose: list[Assignment]
    flags: list[Contradiction]
    children: list[Run]
    votes: list[Vote]
    verdicts: list[Reconciliation]
    controls: list[ControlRequest]
    looks: list[Look]
    acts: list[AuditEvent]


def told_of(run: Run) -> Told:
    """What is told of a run that `access_run` has given out, in one query."""
    looks = Look.objects.filter(wait__run=run).order_by("-at")
    acts = AuditEvent.objects.filter(tenant_id=run.tenant_id, object_type="run", object_id=str(run.id))
    votes = Vote.objects.filter(wait__run=run).select_related("wait__tool_call").defer("wait__tool_call__args")
    verdicts = Reconciliation.objects.filter(tool_call__run=run, method="HUMAN").select_related("tool_call")
    flags = Contradiction.objects.filter(tool_call__run=run, closed_at=None).select_related("tool_call")
    return Told(
        *together(
            Intent.objects.filter(run=run).order_by("-version")[: SAID + 1],
            RunInput.objects.filter(run=run).order_by("name"),
            Commitment.objects.filter(run=run).order_by("accepted_at", "id"),
            Assignment.objects.filter(wait__run=run, ended_at=None),
            flags.defer("tool_call__args").order_by("raised_at"),
            run.children.exclude(status__in=sorted(ENDED_RUN)).order_by("created_at")[: SAID + 1],
            votes.order_by("-at")[:WATCHED],
            verdicts.defer("tool_call__args").order_by("-at")[: SAID + 1],
            ControlRequest.objects.filter(run=run).order_by("-accepted_at")[: SAID + 1],
            looks[:WATCHED],
            acts.defer("canonical").order_by("-seq")[:WATCHED],
        )
    )


def open_things(rows: RunRows, told: Told) -> list[Open]:
    """What is open on a run, what runs out first in front; what has no deadline comes after."""
    found = [*_waits(rows, told), *_flags(told), *_promises(rows), *_children(told), *_controls(rows)]
    return sorted(found, key=lambda one: (one.deadline is None, one.deadline or rows.run.created_at))


def _waits(rows: RunRows, told: Told) -> Iterator[Open]:
    whose = {one.wait_id: one.person for one in told.whose}
    for wait in rows.waits:
        if not can_decide(wait.status):
            continue
        what = f"Approve or reject {wait.tool_call.step_name}"
        why = f"bound to revision {wait.checkpoint_revision}; without a decision it counts as rejected"
        url = reverse("wait", args=[wait.id])
        yield Open("caution", "caution", what, why, url, wait.deadline, whose.get(wait.id, ""))


def _flags(told: Told) -> Iterator[Open]:
    for flag in told.flags:
        what = f"Evidence speaks against what was said of {flag.tool_call.step_name}"
        yield Open("stop", "stop", what, "a person has to look and close it", reverse("call", args=[flag.tool_call_id]))


def _promises(rows: RunRows) -> Iterator[Open]:
    for promise in rows.obligations:
        if promise.status == ObligationStatus.OPEN:
            why = f"promised; {promise.step_name} fulfils it, or a person releases it"
            yield Open("caution", "proposed", promise.statement, why, reverse("obligation-release", args=[promise.id]))


def _children(told: Told) -> Iterator[Open]:
    for child in told.children[:SAID]:
        yield Open(
            "neutral",
            "running",
            child.title,
            f"a child run, {words.plain(child.status)}",
            reverse("run", args=[child.id]),
        )
    if len(told.children) > SAID:
        url = reverse("run-lineage", args=[told.children[0].parent_run_id])
        yield Open("neutral", "running", "More child runs", f"the first {SAID} are shown; the lineage has all", url)


def _controls(rows: RunRows) -> Iterator[Open]:
    for control in rows.controls:
        stage = "adopted" if control.adopted_at else "accepted, not adopted yet"
        what = f"{str(control.kind).capitalize()} {stage}"
        url = reverse("stop" if control.kind == "STOP" else "run-retry", args=[rows.run.id])
        yield Open("stop", "stopping", what, f"asked by {control.requested_by.removeprefix('person:')}", url)


def said_by_people(rows: RunRows, told: Told) -> Few[Said]:
    """What people did to a run with the reasons they gave, the newest first."""
    url = reverse("run", args=[rows.run.id])
    found = [*_votes(told), *_verdicts(told), *_asked(told, url), *_let_go(rows, told, url)]
    return Few(sorted(found, key=lambda one: one.at, reverse=True), SAID)


def _votes(told: Told) -> Iterator[Said]:
    for vote in told.votes[: SAID + 1]:
        did = words.SAID[vote.verdict]
        what = f"{did} {vote.wait.tool_call.step_name}" + (", and took it back" if vote.withdrawn_at else "")
        reason = vote.withdrawal_reason or vote.reason
        yield Said(vote.at, vote.actor, what, reason, reverse("wait", args=[vote.wait_id]))


def _verdicts(told: Told) -> Iterator[Said]:
    for verdict in told.verdicts:
        what = f"said of {verdict.tool_call.step_name}: {words.VERDICT[verdict.verdict]}"
        yield Said(verdict.at, verdict.actor, what, verdict.evidence, reverse("call", args=[verdict.tool_call_id]))


def _asked(told: Told, url: str) -> Iterator[Said]:
    """Stops and pauses, and revisions of the goal."""
    for control in told.controls:
        what = f"asked for a {str(control.kind).lower()}"
        yield Said(control.accepted_at, control.requested_by, what, control.reason, f"{url}stop/")
    for intent in told.intents:
        if intent.version > 1:
            what = f"revised the goal to version {intent.version}"
            yield Said(intent.at, intent.revised_by, what, intent.reason, url)


def _let_go(rows: RunRows, told: Told, url: str) -> Iterator[Said]:
    """Promises that were released and commitments that were withdrawn."""
    for promise in rows.obligations:
        if promise.released_by and promise.closed_at:
            what = f"released “{promise.statement}”"
            yield Said(promise.closed_at, promise.released_by, what, promise.release_reason, url)
    for term in told.terms:
        if term.withdrawn_by and term.withdrawn_at:
            what = f"withdrew “{term.statement}”"
            yield Said(term.withdrawn_at, term.withdrawn_by, what, term.withdrawal_reason, url)


def watched_more(told: Told) -> bool:
    """Whether there may be older looks, votes or acts than were gone through."""
    return WATCHED in (len(told.looks), len(told.votes), len(told.acts))


def watchers_of(told: Told) -> list[Watcher]:
    """The people who were shown the run's waits, voted, or acted on the run itself, the latest first."""
    seen = [(look.actor, look.at, "was shown a wait") for look in told.looks]
    seen += [(vote.actor, vote.at, words.SAID[vote.verdict]) for vote in told.votes]
    seen += [(act.actor, act.at, ACTS.get(act.action, act.action)) for act in told.acts]
    return sorted(_by_person(seen), key=lambda one: one.last, reverse=True)


# Audited acts on a run in words; another one shows its code.
ACTS = {
    "run.start": "started it",
    "run.stop": "asked to stop it",
    "run.pause": "paused it",
    "run.resume": "had it try again",
    "run.replay": "stepped through its replay",
    "run.revise_goal": "revised its goal",
    "run.bind": "bound it to more",
    "run.budget": "raised a cap of it",
    "run.retain": "purged bodies of it",
    "run.settle": "settled it",
    "run.abort": "aborted it",
}


def _by_person(seen: Iterable[tuple[str, datetime, str]]) -> Iterator[Watcher]:
    people: dict[str, list[tuple[datetime, str]]] = {}
    for actor, at, what in seen:
        if actor.startswith("person:"):
            people.setdefault(actor, []).append((at, what))
    for actor, acts in people.items():
        last, what = max(acts)
        yield Watcher(actor, len(acts), last, what)


def next_steps(rows: RunRows) -> list[SafeString | str]:
    """What happens next by itself, and what a decision would lead to, in order."""
    run, head = rows.run, rows.head
    if run.ended_at:
        return ["Nothing. The run has ended; what it left can be continued in a new run."]
    steps: list[SafeString | str] = [
        f"{signs.RUN[run.status].means}. Who acts next: {signs.RUN[run.status].acts_next}."
    ]
    if run.status == RunStatus.HELD:
        steps.append(words.held(run.hold_reason or "", run.hold_detail).helps + ".")
    if run.due_at:
        steps.append(format_html("The next try is due {}.", when(run.due_at)))
    steps += [_outcomes(wait) for wait in rows.waits if can_decide(wait.status)]
    if head and run.status not in (RunStatus.WAITING, RunStatus.HELD):
        steps.append(NEXT[Phase(head.phase)])
    return steps


def _outcomes(wait: Wait) -> SafeString:
    step = exact(wait.tool_call.step_name, "line")
    said = "{}: approved, it is checked once more and sent. Rejected, or not decided by {}, the model is told, and goes on."
    return format_html(said, step, when(wait.deadline))


def standing_effects(lines: Iterable[Any]) -> list[Any]:
    """What has an effect outside and stands, whatever happens to the run."""
    return [line for line in lines if line.thing in ("CALL", "PUBLICATION") and line.standing == "REUSABLE"]
