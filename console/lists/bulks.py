"""The list of acts on many runs."""

from console.lists.cells import Cell, Column
from console.lists.fields import Choice, Moment, by, picks
from console.lists.keyset import Order
from console.lists.listing import Empty, Listing, Sort
from runs.selectors import bulks_visible
from runs.states import BulkAct

BULKS = Listing(
    key="bulks",
    row="bulk",
    title="Acts on many runs",
    url_name="bulks",
    say="What was done to all runs of a filter, by whom, and what came of each.",
    rows=bulks_visible,
    fields=(
        Choice("act", "Act", by("act__in"), picks=picks(*BulkAct), several=True),
        Moment("since", "Since", by("accepted_at__gte"), "A day as 2026-11-30, or 12 h for 12 hours ago."),
        Moment("until", "Until", by("accepted_at__lt"), end_of_day=True),
    ),
    sorts=(
        Sort("newest", "newest first", Order(("accepted_at", "id"))),
        Sort("oldest", "oldest first", Order(("accepted_at", "id"), descending=False)),
    ),
    columns=(
        Column("act", "Act", lambda bulk: Cell("link", bulk.act.capitalize(), url=f"/bulks/{bulk.id}/")),
        Column("total", "Runs", lambda bulk: Cell("number", bulk.total)),
        Column("reason", "Reason", lambda bulk: Cell("text", bulk.reason)),
        Column("requested_by", "By", lambda bulk: Cell("person", bulk.requested_by)),
        Column("accepted_at", "Accepted", lambda bulk: Cell("when", bulk.accepted_at)),
        Column("query", "Filter", lambda bulk: Cell("text", bulk.query)),
    ),
    shown=("act", "total", "reason", "requested_by", "accepted_at"),
    empty=Empty(
        "Nothing was done to many runs yet.", "Filter the runs, then stop, pause or resume all of them.", "runs", "Runs"
    ),
    under="runs",
)
