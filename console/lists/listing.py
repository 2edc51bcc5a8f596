"""A list: what it shows to whom, its filters, orders and columns; and what a URL asks of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import urlencode

from django.db.models import QuerySet
from django.http import QueryDict
from django.urls import reverse

from accounts.states import Actor, Permission
from console.lists.cells import Column
from console.lists.fields import COUNT_LIMIT, BadValue, Field
from console.lists.keyset import Order, Pager

PAGE_ROWS = 50
# What a URL says beside the filters.
_OWN = {"sort", "after", "columns", "format", "view", "selected"}


@dataclass(frozen=True)
class Sort:
    """An order that an index has, by its name in the URL."""

    name: str
    word: str
    order: Order


@dataclass(frozen=True)
class Empty:
    """What an empty list says to do first."""

    title: str
    say: str
    url_name: str = ""
    word: str = ""


@dataclass(frozen=True)
class Listing:
    """One list. `row` is what one of it is called in the page. `rows` are those that an actor may see; `dress` reads what the cells of a page of them need; `topic` is what
    changes it; `under` names the page that leads to it; `permission` is what one needs to see it at all; `over` says of a row that nothing is due any more;
    `place` are the arguments of its address, where it is about one thing: such a list keeps no views; `mark` names a row in the page.
    """

    key: str
    row: str
    title: str
    url_name: str
    say: str
    rows: Callable[[Actor], QuerySet[Any]]
    fields: Sequence[Field]
    sorts: Sequence[Sort]
    columns: Sequence[Column]
    shown: Sequence[str]
    empty: Empty
    dress: Callable[[Sequence[Any]], None] = lambda _: None
    topic: str = "runs"
    under: str = ""
    permission: Permission = Permission.READ
    over: Callable[[Any], bool] = lambda _: False
    place: Sequence[Any] = ()
    mark: Callable[[Any], Any] = lambda row: row.pk

    @property
    def url(self) -> str:
        """Its address."""
        return reverse(self.url_name, args=self.place)

    def asked(self, actor: Actor, query: QueryDict) -> "Asked":
        """What a query string asks of this list."""
        return Asked(self, actor, query)


@dataclass(frozen=True)
class FieldShown:
    """A filter as the form shows it: what was given, what can be picked, and what is wrong with it."""

    field: Field
    given: Sequence[str]
    error: str
    options: Sequence[tuple[str, str, bool]]

    @property
    def value(self) -> str:
        return self.given[-1] if self.given else ""


@dataclass(frozen=True)
class Asked:
    """A list as one URL asks for it. With an error nothing is listed, so that nobody takes other rows for those they wanted."""

    listing: Listing
    actor: Actor
    query: QueryDict

    @cached_property
    def given(self) -> Mapping[str, list[str]]:
        """The filters that are given, by name, without the empty ones."""
        names = (one.name for one in self.listing.fields)
        found = {name: [text for text in self.query.getlist(name) if text.strip()] for name in names}
        return {name: texts for name, texts in found.items() if texts}

    @cached_property
    def _reading(self) -> tuple[dict[str, Any], dict[str, str]]:
        values: dict[str, Any] = {}
        errors = self._unknown()
        for one in self.listing.fields:
            if one.name in self.given:
                try:
                    values[one.name] = one.read(self.given[one.name], self.actor)
                except BadValue as bad:
                    errors[one.name] = str(bad)
        return values, errors

    @property
    def values(self) -> Mapping[str, Any]:
        """What the filters have read, by name."""
        return self._reading[0]

    @property
    def errors(self) -> Mapping[str, str]:
        """What can't be read, by the name of its field, as the sentence beside it."""
        return self._reading[1]

    def _unknown(self) -> dict[str, str]:
        known = _OWN | {one.name for one in self.listing.fields}
        errors = {name: f"This list has no filter “{name[:60]}”." for name in self.query if name not in known}
        sort, sorts = self.query.get("sort", ""), [sort.name for sort in self.listing.sorts]
        if sort and sort not in sorts:
            errors["sort"] = f"There is no order “{sort[:60]}”. Known: {', '.join(sorts)}."
        columns = {column.key for column in self.listing.columns}
        for wanted in self.query.getlist("columns"):
            if wanted not in columns:
                errors["columns"] = f"There is no column “{wanted[:60]}”. Known: {', '.join(sorted(columns))}."
        return errors

    @cached_property
    def sort(self) -> Sort:
        """The order that is asked for, or the first."""
        return next((sort for sort in self.listing.sorts if sort.name == self.query.get("sort")), self.listing.sorts[0])

    @cached_property
    def columns(self) -> Sequence[Column]:
        """The columns that are asked for, in their own order; those of the list where none is."""
        wanted = self.query.getlist("columns") or list(self.listing.shown)
        chosen = [column for column in self.listing.columns if column.key in wanted]
        return chosen or [column for column in self.listing.columns if column.key in self.listing.shown]

    def rows(self) -> QuerySet[Any]:
        """All rows that pass the filters, without order."""
        rows = self.listing.rows(self.actor)
        if self.errors:
            return rows.none()
        for one in self.listing.fields:
            if one.name in self.values:
                rows = one.narrow(rows, self.values[one.name])
        return rows

    def shown_rows(self) -> QuerySet[Any]:
        """The same, joined with what the cells of the columns look into."""
        rows = self.rows()
        for column in self.columns:
            rows = rows.select_related(column.reads) if column.reads else rows
        return rows

    @property
    def pager(self) -> Pager:
        """Its pages: a cursor holds for these filters in this order."""
        filters = {name: list(texts) for name, texts in sorted(self.given.items())}
        listed = "/".join(str(part) for part in (self.listing.key, *self.listing.place, self.sort.name))
        return Pager(self.sort.order, listed, self.actor.tenant_id, filters)

    def page(self, limit: int = PAGE_ROWS) -> tuple[list[Any], str | None]:
        """The rows of the page that is asked for, dressed, and the cursor of the next one. Raises BadCursor."""
        if self.errors:
            return [], None
        shown, after = self.pager.page(self.shown_rows(), limit=limit, cursor=self.query.get("after") or None)
        self.listing.dress(shown)
        return shown, after

    @property
    def said_count(self) -> str:
        """How many rows there are, counted as far as each filter lets it."""
        limit = min((one.counted for one in self.listing.fields if one.name in self.given), default=COUNT_LIMIT)
        return said_count(self.rows().order_by()[: limit + 1].count(), limit)

    def shown_fields(self) -> list[FieldShown]:
        """The form of the filters."""
        return [self._shown(one) for one in self.listing.fields]

    def _shown(self, one: Field) -> FieldShown:
        given = self.given.get(one.name, [])
        options = [(value, word, _picked(value, given)) for value, word in one.options(self.actor)]
        return FieldShown(one, given, self.errors.get(one.name, ""), options)

    @property
    def strange(self) -> list[str]:
        """What is wrong beside the fields of the form."""
        names = {one.name for one in self.listing.fields}
        return [said for name, said in self.errors.items() if name not in names]

    def kept(self, **changed: Any) -> str:
        """The query string of this list with some of it changed, without its place in the pages."""
        now: dict[str, Any] = {name: list(texts) for name, texts in self.given.items()}
        now |= {"sort": self.query.get("sort", ""), "columns": self.query.getlist("columns")}
        return urlencode({name: value for name, value in {**now, **changed}.items() if value}, doseq=True)


def _picked(value: str, given: Sequence[str]) -> bool:
    return value.casefold() in {text.casefold() for text in given}


def said_count(number: int, limit: int = COUNT_LIMIT) -> str:
    """A count that stops at a limit, in words: “1,000+”."""
    return f"{limit:,}+" if number > limit else f"{number:,}"
