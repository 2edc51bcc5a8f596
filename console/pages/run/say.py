"""What the server says about a run in words: the sentence under its title and the strip of facts."""

from dataclasses import dataclass

from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from approvals.states import can_decide
from console.pages import signs, words
from console.pages.amounts import nearness
from console.pages.run.events import attempt_name
from console.pages.run.rows import RunRows
from console.pages.times import span
from console.pages.titles import call_title
from console.pages.units import NAMES, amount
from console.templatetags.moments import age, digest, to_go, when
from console.templatetags.signalbox import exact
from receipts.models import Attempt
from runs.states import ENDED_RUN, BudgetUnit, RecoveryPolicy

# What is promised of a run whose worker dies, in words: what happens, and the condition or what that means.
RECOVERY: dict[str, tuple[str, str]] = {
    RecoveryPolicy.RESUME_IN_PLACE: ("resume in place", "when every guard passes"),
    RecoveryPolicy.SETTLE: ("settle", "close by what is known"),
}


@dataclass(frozen=True)
class Shown:
    """One fact of the strip."""

    label: str
    value: SafeString | str
    then: SafeString | str = ""


def head_line(rows: RunRows) -> SafeString | str:
    """One or two sentences: what happens now, or how it ended."""
    run = rows.run
    if run.ended_at:
        why = format_html(": {}", exact(run.end_reason)) if run.end_reason else ""
        return format_html("Ended {}{}{}", when(run.ended_at), why, "" if run.end_reason.endswith(".") else ".")
    if run.status == "HELD":
        return _held(rows)
    if run.status == "WAITING":
        return _waiting(rows)
    if run.due_at:
        return format_html("The other side said “not now”. It is tried again {}.", when(run.due_at))
    if rows.sent:
        return _sent(rows.sent, run.status)
    return f"{signs.RUN[run.status].means}."


def _held(rows: RunRows) -> SafeString:
    said = words.held(rows.run.hold_reason or "", rows.run.hold_detail)
    return format_html("{} {}.", exact(said.sentence), said.helps)


def _waiting(rows: RunRows) -> SafeString | str:
    waits = [wait for wait in rows.waits if can_decide(wait.status)]
    child = None if waits else rows.run.children.exclude(status__in=sorted(ENDED_RUN)).order_by("created_at").first()
    if child is not None:
        link = reverse("run", args=[child.id])
        return format_html('Waits for a child run to end: <a href="{}">{}</a>.', link, exact(child.title, "line"))
    if not waits:
        return "Decided; a worker takes it up."
    link = reverse("wait", args=[waits[0].id])
    call = waits[0].tool_call
    made = next((publication for publication in rows.publications if publication.tool_call_id == call.id), None)
    said = 'Waits for a person: <a href="{}">{}</a>, {}.'
    return format_html(said, link, exact(call_title(call, made), "line"), to_go(waits[0].deadline, "its time is up"))


def _sent(attempt: Attempt, status: str) -> SafeString:
    nothing_new = "Nothing new starts. " if status == "STOPPING" else ""
    name = exact(attempt_name(attempt), "line")
    return format_html("{}{} was sent {} ago and has not answered.", nothing_new, name, age(attempt.dispatched_at))


def facts_of(rows: RunRows) -> list[Shown]:
    """The strip under the title."""
    run, head = rows.run, rows.head
    shown = [_lease(rows)] if run.ended_at is None else [Shown("Took", _took(rows))]
    if head:
        link = reverse("checkpoint", args=[run.id, head.revision])
        revision = format_html('<a href="{}">{}</a>', link, head.revision)
        shown = [
            Shown("Phase", words.PHASE[head.phase].capitalize()),
            Shown("Revision", revision, digest(head.digest)),
            *shown,
        ]
    return [
        *shown,
        _budget(rows),
        Shown("Takeovers", f"{run.takeovers} of {run.max_takeovers}"),
        Shown("If its worker dies", *RECOVERY[run.recovery_policy]),
    ]


def _took(rows: RunRows) -> str:
    run = rows.run
    return span(run.ended_at - run.created_at) if run.ended_at else ""


def _lease(rows: RunRows) -> Shown:
    lease = rows.lease
    if not lease.owner:
        return Shown("Lease", "free", f"last fence {lease.fence}")
    then = format_html("renewed {} ago, {}", age(lease.renewed_at), to_go(lease.expires_at, "run out"))
    return Shown("Lease", format_html("{}, fence {}", exact(lease.owner, "line"), lease.fence), then)


def _budget(rows: RunRows) -> Shown:
    """The budget that is nearest to its cap."""
    if not rows.budgets:
        return Shown("Budget", "none")
    tight = max(rows.budgets, key=nearness)
    kept = tight.reserved + tight.held_unknown
    of = f"{amount(tight.unit, tight.spent)} of {amount(tight.unit, tight.cap)} {NAMES[BudgetUnit(tight.unit)]}"
    return Shown("Budget", of, f"{amount(tight.unit, kept)} held back" if kept else "")
