"""The list of standing grants."""

from collections.abc import Sequence
from datetime import datetime

from django.db.models import F, Q, QuerySet
from django.db.models.functions import Now

from accounts.states import Actor
from approvals.models import Grant
from approvals.selectors import grants_visible
from console.lists.cells import Cell, Column
from console.lists.fields import Choice, Moment, Words, by
from console.lists.keyset import Order
from console.lists.listing import Empty, Listing, Sort

_OVER = {
    "REVOKED": Q(revoked_at__isnull=False),
    "LAPSED": Q(revoked_at=None, expires_at__lte=Now()),
    "USED_UP": Q(revoked_at=None, expires_at__gt=Now(), uses__gte=F("max_uses")),
    "STANDS": Q(revoked_at=None, expires_at__gt=Now(), uses__lt=F("max_uses")),
}
WORDS = {"REVOKED": "revoked", "LAPSED": "its time is over", "USED_UP": "used up", "STANDS": "stands"}


def grant_state(grant: Grant, now: datetime) -> str:
    """STANDS, or why it does not any more."""
    if grant.revoked_at is not None:
        return "REVOKED"
    if grant.expires_at <= now:
        return "LAPSED"
    return "USED_UP" if grant.uses >= grant.max_uses else "STANDS"


def _of_state(rows: QuerySet[Grant], wanted: Sequence[str]) -> QuerySet[Grant]:
    found = Q()
    for state in wanted:
        found |= _OVER[state]
    return rows.filter(found)


def _by(rows: QuerySet[Grant], person: str) -> QuerySet[Grant]:
    return rows.filter(owner=person if ":" in person else f"person:{person}")


def _rows(actor: Actor) -> QuerySet[Grant]:
    return grants_visible(actor).annotate(read_at=Now())


def _state(grant: Grant) -> Cell:
    state = grant_state(grant, grant.read_at)  # type: ignore[attr-defined]  # annotated by _rows
    return Cell("state", state, machine="badge") if state == "STANDS" else Cell("text", WORDS[state])


def _tool(grant: Grant) -> Cell:
    note = f"if {grant.condition}" if grant.condition else ""
    return Cell("link", grant.tool, url=f"/grants/{grant.id}/", note=note)


GRANTS = Listing(
    key="grants",
    row="grant",
    title="Standing grants",
    url_name="grants",
    say="What a person has approved in advance: one tool, for a time and a number of calls. A grant stands where policy asks one person, and never for more.",
    rows=_rows,
    fields=(
        Choice("state", "State", _of_state, picks=lambda _: [(key, key) for key in WORDS], several=True),
        Words("agent", "Agent", by("agent"), "Its key."),
        Words("tool", "Tool", by("tool"), "As publish_report."),
        Words("person", "Given by", _by, "A username."),
        Moment("since", "Given since", by("given_at__gte"), "A day as 2026-11-30, or 12 h for 12 hours ago."),
        Moment("until", "Given until", by("given_at__lt"), end_of_day=True),
    ),
    sorts=(
        Sort("newest", "newest first", Order(("given_at", "id"))),
        Sort("oldest", "oldest first", Order(("given_at", "id"), descending=False)),
    ),
    columns=(
        Column("tool", "Tool", _tool),
        Column("agent", "Agent", lambda grant: Cell("text", grant.agent)),
        Column("state", "State", _state),
        Column("uses", "Used", lambda grant: Cell("text", f"{grant.uses} of {grant.max_uses}")),
        Column("expires_at", "Ends", lambda grant: Cell("when", grant.expires_at)),
        Column("owner", "By", lambda grant: Cell("person", grant.owner)),
        Column("given_at", "Given", lambda grant: Cell("when", grant.given_at)),
        Column("reason", "Reason", lambda grant: Cell("text", grant.reason)),
        Column("id", "Id", lambda grant: Cell("id", grant.id)),
    ),
    shown=("tool", "agent", "state", "uses", "expires_at", "owner"),
    empty=Empty("No grant was given.", "Every call that policy asks about waits for a person."),
    topic="",
    over=lambda grant: grant_state(grant, grant.read_at) != "STANDS",
)
