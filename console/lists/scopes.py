"""The list of stops and pauses of a tenant, an agent or a thread."""

from django.db.models import QuerySet

from console.lists.cells import Cell, Column
from console.lists.fields import Choice, Moment, Words, by, picks
from console.lists.keyset import Order
from console.lists.listing import Empty, Listing, Sort
from console.lists.runs import agents_of
from console.lists.tails import whole_id
from runs.models import ScopeControl
from runs.selectors import scope_controls_visible
from runs.states import ControlKind, ScopeKind, ScopeStatus


def _in_thread(rows: QuerySet[ScopeControl], thread: str) -> QuerySet[ScopeControl]:
    named = whole_id(thread)
    return rows.filter(thread_id=named) if named else rows.filter(thread__key=thread)


def _by(rows: QuerySet[ScopeControl], person: str) -> QuerySet[ScopeControl]:
    return rows.filter(requested_by=person if ":" in person else f"person:{person}")


def _act(control: ScopeControl) -> str:
    return "Abort" if control.aborted_at else control.kind.capitalize()


def _name(control: ScopeControl) -> Cell:
    if control.agent:
        of = f"the agent {control.agent.key}"
    elif control.thread:
        of = f"the thread {control.thread.key}"
    else:
        of = "everything of this tenant"
    return Cell("link", f"{_act(control)} of {of}", url=f"/scopes/{control.id}/")


SCOPES = Listing(
    key="scopes",
    row="scope",
    title="Stops and pauses",
    url_name="scopes",
    say="",
    rows=scope_controls_visible,
    fields=(
        Choice("status", "Status", by("status__in"), picks=picks(*ScopeStatus), several=True),
        Choice("kind", "Act", by("kind__in"), picks=picks(*ControlKind), several=True),
        Choice("scope", "Scope", by("scope__in"), picks=picks(*ScopeKind), several=True),
        Choice("agent", "Agent", by("agent__key"), picks=agents_of),
        Words("thread", "Thread", _in_thread, "Its key or its id."),
        Words("person", "By", _by, "A username."),
        Moment("since", "Since", by("accepted_at__gte"), "A day as 2026-11-30, or 12 h for 12 hours ago."),
        Moment("until", "Until", by("accepted_at__lt"), end_of_day=True),
    ),
    sorts=(
        Sort("newest", "newest first", Order(("accepted_at", "id"))),
        Sort("oldest", "oldest first", Order(("accepted_at", "id"), descending=False)),
    ),
    columns=(
        Column("name", "What", _name),
        Column("status", "Status", lambda control: Cell("word", control.status)),
        Column("accepted_at", "Accepted", lambda control: Cell("when", control.accepted_at)),
        Column("by", "By", lambda control: Cell("person", control.requested_by)),
        Column("reason", "Reason", lambda control: Cell("text", control.reason)),
        Column("lifted_at", "Lifted", lambda control: Cell("when", control.lifted_at)),
        Column("lifted_by", "Lifted by", lambda control: Cell("person", control.lifted_by or None)),
        Column("lift_reason", "Why lifted", lambda control: Cell("text", control.lift_reason)),
        Column("id", "Id", lambda control: Cell("id", control.id)),
    ),
    shown=("name", "status", "accepted_at", "by", "reason", "lifted_at"),
    empty=Empty("Nothing of a scope was stopped or paused.", "Runs start and go on."),
    topic="",
    over=lambda control: control.status == ScopeStatus.LIFTED,
)
