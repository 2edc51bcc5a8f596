"""Pages of a list by keyset: a cursor names the last row that was shown, so rows that come or go move nothing."""

from dataclasses import dataclass
from typing import Any, TypeVar
from uuid import UUID

from django.core.signing import BadSignature, Signer
from django.db.models import Model, Q, QuerySet
from rest_framework import serializers

from console.api.parsing import Strict, Text, Whole
from runs.canonical import canonical, digest

PAGE_ROWS = 50
MAX_ROWS = 200

M = TypeVar("M", bound=Model)


class PageQuery(Strict):
    """What every list takes: `limit` rows, from `cursor` on."""

    limit = Whole(default=PAGE_ROWS, min_value=1, max_value=MAX_ROWS)
    cursor = Text(required=False, help_text="`next` of the page before; it belongs to one list with one set of filters")


@dataclass(frozen=True)
class Order:
    """The order of a list. Its fields name a row without doubt."""

    fields: tuple[str, ...]
    descending: bool = True

    def sort(self, rows: QuerySet[M]) -> QuerySet[M]:
        return rows.order_by(*(f"-{field}" if self.descending else field for field in self.fields))

    def behind(self, place: list[str]) -> Q:
        """The rows that come after a place."""
        compare = "lt" if self.descending else "gt"
        behind = Q()
        for index, field in enumerate(self.fields):
            same = dict(zip(self.fields[:index], place[:index], strict=True))
            behind |= Q(**same, **{f"{field}__{compare}": place[index]})
        return behind

    def place(self, row: Model) -> list[str]:
        return [str(getattr(row, field)) for field in self.fields]


def page_of(
    rows: QuerySet[M], order: Order, query: dict[str, Any], *, listed: str, tenant_id: UUID
) -> tuple[list[M], str | None]:
    """The rows of one page and the cursor of the next one, or None.

    The cursor is signed for this list (`listed`), tenant and filters. Raises ValidationError for any other one.
    """
    filters = {name: str(value) for name, value in query.items() if name not in {"limit", "cursor"}}
    signer = Signer(salt=digest(canonical([listed, str(tenant_id), filters])))
    if "cursor" in query:
        rows = rows.filter(order.behind(_read_place(signer, query["cursor"])))
    found = list(order.sort(rows)[: query["limit"] + 1])
    shown = found[: query["limit"]]
    more = len(found) > len(shown)
    return shown, signer.sign_object(order.place(shown[-1])) if more else None


def _read_place(signer: Signer, cursor: str) -> list[str]:
    try:
        place: list[str] = signer.unsign_object(cursor)
    except BadSignature as error:
        raise serializers.ValidationError({"cursor": ["It is not a cursor of this list."]}) from error
    return place
