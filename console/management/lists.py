"""The filters of the lists on the command line: those of the pages, by the same names."""

from argparse import ArgumentParser
from collections.abc import Mapping
from typing import Any

from django.db.models import QuerySet
from django.http import QueryDict

from console.lists.listing import Listing
from console.management.noun import Asked, Usage, shown


def add_where(parser: ArgumentParser, listing: Listing) -> None:
    """Give a listing verb the filters of its page."""
    names = ", ".join(field.name for field in listing.fields)
    parser.add_argument(
        "--where", action="append", default=[], metavar="NAME=VALUE", help=f"one more filter; names: {names}"
    )


def where(listing: Listing, asked: Asked, plain: Mapping[str, Any] | None = None) -> QuerySet[Any]:
    """The rows that pass `--where`, and `plain` filters that have options of their own. Raises Usage naming what can't be read."""
    query = QueryDict(mutable=True)
    for name, value in (plain or {}).items():
        query.setlist(name, [str(one) for one in (value if isinstance(value, list | tuple) else [value])])
    for given in asked["where"]:
        name, _, value = given.partition("=")
        query.appendlist(name, value)
    wanted = listing.asked(asked.actor, query)
    if wanted.errors:
        raise Usage(
            " ".join(f"--where {shown(name)[:200]}: {shown(said)[:400]}" for name, said in wanted.errors.items())
        )
    return wanted.rows()
