"""Pages of a list by keyset: a cursor names the last row that was shown, so rows that come or go move nothing."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

from django.core.signing import BadSignature, Signer
from django.db.models import Model, Q, QuerySet

from runs.canonical import canonical, digest

M = TypeVar("M", bound=Model)


class BadCursor(ValueError):
    """A cursor that is not of this list with these filters."""


@dataclass(frozen=True)
class Order:
    """The order of a list. Its fields name a row without doubt, and an index has them in this order."""

    fields: tuple[str, ...]
    descending: bool = True

    def sort(self, rows: QuerySet[M]) -> QuerySet[M]:
        """The rows in this order."""
        return rows.order_by(*(f"-{field}" if self.descending else field for field in self.fields))

    def behind(self, place: list[str]) -> Q:
        """The rows that come after a place. The bound of the first field alone is what an index begins to read at."""
        compare = "lt" if self.descending else "gt"
        behind = Q()
        for index, field in enumerate(self.fields):
            same = dict(zip(self.fields[:index], place[:index], strict=True))
            behind |= Q(**same, **{f"{field}__{compare}": place[index]})
        return Q(**{f"{self.fields[0]}__{compare}e": place[0]}) & behind

    def place(self, row: Model) -> list[str]:
        """Where a row stands."""
        return [_exact(getattr(row, field)) for field in self.fields]


def _exact(value: Any) -> str:
    return value.isoformat(timespec="microseconds") if isinstance(value, datetime) else str(value)


@dataclass(frozen=True)
class Pager:
    """Pages of one list with one set of filters in one tenant: a cursor of another one is refused."""

    order: Order
    listed: str
    tenant_id: UUID
    filters: dict[str, Any]

    def page(self, rows: QuerySet[M], *, limit: int, cursor: str | None = None) -> tuple[list[M], str | None]:
        """The rows from a cursor on, and the cursor of the next page or None. Raises BadCursor."""
        if cursor is not None:
            rows = rows.filter(self.order.behind(self._place(cursor)))
        found = list(self.order.sort(rows)[: limit + 1])
        shown = found[:limit]
        return shown, self.cursor(shown[-1]) if len(found) > limit else None

    def cursor(self, row: Model) -> str:
        """Where the page begins that comes after a row."""
        return self._signer.sign_object(self.order.place(row))

    @property
    def _signer(self) -> Signer:
        return Signer(salt=digest(canonical([self.listed, str(self.tenant_id), self.filters])))

    def _place(self, cursor: str) -> list[str]:
        try:
            place: list[str] = self._signer.unsign_object(cursor)
        except BadSignature as error:
            raise BadCursor from error
        return place
