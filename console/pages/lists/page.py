"""GET of a list: its filters, rows, pages, columns and files, the same for each."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from accounts.selectors import views_visible
from accounts.states import Actor
from console.lists.audit import AUDIT
from console.lists.bulks import BULKS
from console.lists.calls import CALLS
from console.lists.export import FORMATS, exported
from console.lists.grants import GRANTS
from console.lists.keyset import BadCursor
from console.lists.listing import Asked, FieldShown, Listing, said_count
from console.lists.notices import NOTICES
from console.lists.policies import POLICIES
from console.lists.reports import REPORTS
from console.lists.scopes import SCOPES
from console.lists.views import VIEWS
from console.lists.waits import WAITS
from console.pages import words
from console.pages.room import page, respond

LISTS = {listing.key: listing for listing in (WAITS, CALLS, BULKS, AUDIT, NOTICES, REPORTS, POLICIES, GRANTS, SCOPES)}
NOT_A_PLACE = "That place is not one of this list with these filters. This is its beginning."


@dataclass(frozen=True)
class Token:
    """A filter that is on: its label, what it lets pass (nothing for a yes), and the address of the list without it."""

    label: str
    words: str
    url: str


def list_response(
    request: HttpRequest,
    actor: Actor,
    listing: Listing,
    *,
    template: str = "pages/lists/page.html",
    more: Mapping[str, Any] | None = None,
    status: int = 200,
) -> HttpResponseBase:
    """A list as its URL asks for it; with `format` as a file. Raises PermissionDenied for who may not see it at all."""
    if not actor.may(listing.permission):
        raise PermissionDenied(f"This list needs the permission “{listing.permission}”, which your roles do not hold.")
    asked = listing.asked(actor, request.GET)
    format = request.GET.get("format", "")
    if format in FORMATS and not asked.errors:
        return exported(asked, format)
    panels = {f"{listing.row}-list": "pages/lists/rows.html"}
    return respond(request, actor, template, {**list_context(request, asked), **(more or {})}, panels, status)


def list_context(request: HttpRequest, asked: Asked) -> dict[str, Any]:
    """What the templates of a list take."""
    rows, after, notes = _page(asked)
    fields = asked.shown_fields()
    listing, first = asked.listing, not request.GET.get("after")
    return {
        "asked": asked,
        "listing": listing,
        "heads": asked.columns,
        "rows": [(row, listing.mark(row), [(column, column.cell(row)) for column in asked.columns]) for row in rows],
        "panel": f"{listing.row}-list",
        "self_url": request.get_full_path(),
        "count": asked.said_count if after or not first else said_count(len(rows)),
        "notes": [*asked.strange, *notes],
        "filtered": bool(asked.given),
        "sorted_by": asked.sort.name,
        "shown_columns": {column.key for column in asked.columns},
        "older_url": f"?{asked.kept(after=after)}" if after else "",
        "newer_url": "" if first else f"?{asked.kept()}",
        "file_urls": [(format.upper(), f"?{asked.kept(format=format)}") for format in FORMATS],
        "list_url": listing.url,
        "fields": fields,
        "tokens": [_token(asked, one) for one in fields if one.given],
        "kept": asked.kept(sort="", columns=[]),
        "address": asked.kept(),
        "keeps_views": not listing.place and listing is not VIEWS,  # a view of the views would lead to itself
        "views": [] if listing.place else list(views_visible(asked.actor).filter(listed=listing.key)),
    }


def _token(asked: Asked, shown: FieldShown) -> Token:
    picked = [words.plain(word) if shown.field.many else word for _, word, is_picked in shown.options if is_picked]
    said = "" if shown.field.widget == "flag" else ", ".join(picked or shown.given)
    return Token(shown.field.label, said, f"?{asked.kept(**{shown.field.name: []})}")


def _page(asked: Asked) -> tuple[list[Any], str | None, list[str]]:
    try:
        return *asked.page(), []
    except BadCursor:
        return [], None, [NOT_A_PLACE]


def listed(listing: Listing) -> Callable[..., HttpResponseBase]:
    """The view of a list that has a page of its own and nothing else on it."""

    @page
    def view(request: HttpRequest, actor: Actor) -> HttpResponseBase:
        return list_response(request, actor, listing)

    return view


wait_list, call_list, bulk_list = listed(WAITS), listed(CALLS), listed(BULKS)
notice_list, report_list = listed(NOTICES), listed(REPORTS)
