"""The list of the audit chain."""

from django.db.models import QuerySet

from accounts.models import AuditEvent
from accounts.states import Actor, Permission
from console.lists.cells import Cell, Column
from console.lists.fields import Flag, Moment, Words, by, only
from console.lists.keyset import Order
from console.lists.listing import Empty, Listing, Sort


def events_visible(actor: Actor) -> QuerySet[AuditEvent]:
    """The events of the actor's tenant; none without the permission to audit."""
    if not actor.may(Permission.AUDIT):
        return AuditEvent.objects.none()
    return AuditEvent.objects.filter(tenant_id=actor.tenant_id).select_related("why").defer("canonical")


def _by(rows: QuerySet[AuditEvent], person: str) -> QuerySet[AuditEvent]:
    return rows.filter(actor=person if ":" in person else f"person:{person}")


def _detail(event: AuditEvent) -> Cell:
    return Cell("ids", _said(event.detail))


def _why(event: AuditEvent) -> Cell:
    said = getattr(event, "why", None)
    return Cell("text", said.reason if said else "")


def _said(value: object) -> str:
    """A stored value in words: names with their values, lists with commas, nested ones in brackets."""
    match value:
        case dict():
            return ", ".join(f"{name} {_inner(inner)}" for name, inner in sorted(value.items()))
        case list():
            return ", ".join(_inner(inner) for inner in value)
        case bool():
            return "yes" if value else "no"
        case None:
            return "none"
        case _:
            return str(value)


def _inner(value: object) -> str:
    return f"({_said(value)})" if isinstance(value, dict | list) else _said(value)


AUDIT = Listing(
    key="audit",
    row="event",
    title="Audit",
    url_name="audit",
    say="What people did and what was refused to them, each event sealed to the one before.",
    rows=events_visible,
    fields=(
        Words("action", "Action", by("action"), "As run.stop or policy.activate."),
        Words("person", "By", _by, "A username."),
        Words("object", "About", by("object_id"), "The whole id of a run, a call, a wait."),
        Words("object_type", "Kind of thing", by("object_type"), "As run or policy."),
        Flag("refused", "Refused acts only", only(action__endswith=".refused")),
        Moment("since", "Since", by("at__gte"), "A day as 2026-11-30, or 12 h for 12 hours ago."),
        Moment("until", "Until", by("at__lt"), end_of_day=True),
    ),
    sorts=(
        Sort("newest", "newest first", Order(("seq",))),
        Sort("oldest", "oldest first", Order(("seq",), descending=False)),
    ),
    columns=(
        Column("seq", "Event", lambda event: Cell("number", event.seq)),
        Column("at", "At", lambda event: Cell("when", event.at)),
        Column("actor", "Who", lambda event: Cell("person", event.actor)),
        Column("action", "Did", lambda event: Cell("text", event.action)),
        Column("object", "About", lambda event: Cell("text", event.object_type)),
        Column("object_id", "Its id", lambda event: Cell("ids", event.object_id)),
        Column("detail", "Detail", _detail),
        Column("why", "Why", _why),
        Column("hash", "Seal", lambda event: Cell("digest", event.hash)),
    ),
    shown=("seq", "at", "actor", "action", "object", "object_id", "detail", "why", "hash"),
    empty=Empty("Nothing was done yet.", "The first act of a person appears here."),
    topic="",
    permission=Permission.AUDIT,
)
