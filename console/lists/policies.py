"""The list of the versions of a tenant's policy."""

from collections.abc import Sequence

from django.db.models import QuerySet

from approvals.models import PolicyVersion
from approvals.selectors import policies_visible, policy_number
from console.lists.cells import Cell, Column
from console.lists.fields import Moment, Words, by
from console.lists.keyset import Order
from console.lists.listing import Empty, Listing, Sort


def _by(rows: QuerySet[PolicyVersion], person: str) -> QuerySet[PolicyVersion]:
    return rows.filter(saved_by=person if ":" in person else f"person:{person}")


def _dress(versions: Sequence[PolicyVersion]) -> None:
    now = policy_number(versions[0].tenant_id) if versions else 0
    for version in versions:
        version.is_in_force = version.number == now  # type: ignore[attr-defined]  # what its cells show


def _state(version: PolicyVersion) -> Cell:
    in_force = version.is_in_force  # type: ignore[attr-defined]
    return Cell("state", "IN_FORCE", machine="badge") if in_force else Cell("text", None)


POLICIES = Listing(
    key="policies",
    row="policy",
    title="Policies",
    url_name="policies",
    say="Who must be asked before which call. Every saved text is a version and never changes; one is in force.",
    rows=policies_visible,
    fields=(
        Words("q", "What it is for", by("summary__icontains"), "A part of its summary."),
        Words("text", "Its text holds", by("text__icontains"), "As publish_report."),
        Words("person", "Saved by", _by, "A username."),
        Moment("since", "Saved since", by("saved_at__gte"), "A day as 2026-11-30, or 12 h for 12 hours ago."),
        Moment("until", "Saved until", by("saved_at__lt"), end_of_day=True),
    ),
    sorts=(
        Sort("newest", "newest first", Order(("number",))),
        Sort("oldest", "oldest first", Order(("number",), descending=False)),
    ),
    columns=(
        Column("version", "Version", lambda one: Cell("link", f"v{one.number}", url=f"/policies/{one.number}/")),
        Column("state", "State", _state),
        Column("summary", "What it is for", lambda one: Cell("text", one.summary)),
        Column("saved_at", "Saved", lambda one: Cell("when", one.saved_at)),
        Column("saved_by", "By", lambda one: Cell("person", one.saved_by)),
        Column("digest", "Digest", lambda one: Cell("digest", one.digest)),
    ),
    shown=("version", "state", "summary", "saved_at", "saved_by"),
    empty=Empty(
        "The built-in policy is in force.",
        "What only reads goes; what leaves a mark outside asks one approver. To ask other people, or more of them, "
        "somebody with the role governance writes a draft and puts it in force.",
    ),
    dress=_dress,
    topic="",
    mark=lambda one: one.number,
)
