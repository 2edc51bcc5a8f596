"""The list of what was told outside the pages."""

from accounts.selectors import notices_visible
from accounts.states import NoticeKind, NoticeStatus
from console.lists.cells import Cell, Column
from console.lists.fields import Choice, Moment, by, picks
from console.lists.keyset import Order
from console.lists.listing import Empty, Listing, Sort

NOTICES = Listing(
    key="notices",
    row="notice",
    title="Notices",
    url_name="notices",
    say="What your endpoints, and those of the whole tenant, were told or are to be told.",
    rows=notices_visible,
    fields=(
        Choice(
            "status",
            "Status",
            by("status__in"),
            picks=picks(*NoticeStatus),
            several=True,
        ),
        Choice("kind", "About", by("kind__in"), picks=picks(*NoticeKind), several=True),
        Moment("since", "Since", by("created_at__gte"), "A day as 2026-11-30, or 12 h for 12 hours ago."),
        Moment("until", "Until", by("created_at__lt"), end_of_day=True),
    ),
    sorts=(
        Sort("newest", "newest first", Order(("created_at", "id"))),
        Sort("oldest", "oldest first", Order(("created_at", "id"), descending=False)),
    ),
    columns=(
        Column("kind", "About", lambda notice: Cell("word", notice.kind)),
        Column("status", "Status", lambda notice: Cell("word", notice.status)),
        Column("endpoint", "To", lambda notice: Cell("text", notice.endpoint.name)),
        Column("created_at", "Written", lambda notice: Cell("when", notice.created_at)),
        Column("id", "Id", lambda notice: Cell("id", notice.id)),
    ),
    shown=("kind", "status", "endpoint", "created_at"),
    empty=Empty("Nothing was told yet.", "Say where you hear of things.", "notifications", "Notifications"),
    topic="",
    under="notifications",
)
