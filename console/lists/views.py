"""The list of saved views."""

from accounts.models import SavedView
from accounts.selectors import views_visible
from console.lists.cells import Cell, Column
from console.lists.fields import Words, by
from console.lists.keyset import Order
from console.lists.listing import Empty, Listing, Sort


def _name(view: SavedView) -> Cell:
    return Cell("link", view.name, url=f"/views/{view.id}/remove/", note="shared" if view.shared else "")


VIEWS = Listing(
    key="views",
    row="view",
    title="Saved views",
    url_name="views",
    say="Lists as you, or others who share them, look at them. Each list offers its own ones.",
    rows=lambda actor: views_visible(actor).order_by(),
    fields=(Words("listed", "Of the list", by("listed"), "As runs or waits."),),
    sorts=(Sort("newest", "newest first", Order(("created_at", "id"))),),
    columns=(
        Column("name", "View", _name),
        Column("listed", "List", lambda view: Cell("word", view.listed)),
        Column("person", "Whose", lambda view: Cell("text", view.membership.user.username)),
        Column("query", "Address", lambda view: Cell("text", view.query)),
        Column("created_at", "Kept", lambda view: Cell("when", view.created_at)),
    ),
    shown=("name", "listed", "person", "query", "created_at"),
    empty=Empty("No view is kept yet.", "Filter a list, then keep it under a name.", "runs", "Runs"),
    topic="",
)
