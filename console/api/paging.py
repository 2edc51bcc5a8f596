"""Pages of a list over HTTP: the same keyset as on the pages of the console."""

from typing import Any, TypeVar
from uuid import UUID

from django.db.models import Model, QuerySet
from rest_framework import serializers

from console.api.parsing import Strict, Text, Whole
from console.lists.keyset import BadCursor, Order, Pager

PAGE_ROWS = 50
MAX_ROWS = 200

M = TypeVar("M", bound=Model)

__all__ = ["Order", "PageQuery", "page_of"]


class PageQuery(Strict):
    """What every list takes: `limit` rows, from `cursor` on."""

    limit = Whole(default=PAGE_ROWS, min_value=1, max_value=MAX_ROWS)
    cursor = Text(required=False, help_text="`next` of the page before; it belongs to one list with one set of filters")


def page_of(
    rows: QuerySet[M], order: Order, query: dict[str, Any], *, listed: str, tenant_id: UUID
) -> tuple[list[M], str | None]:
    """The rows of one page and the cursor of the next one, or None.

    The cursor is signed for this list (`listed`), tenant and filters. Raises ValidationError for any other one.
    """
    filters = {name: str(value) for name, value in query.items() if name not in {"limit", "cursor"}}
    pager = Pager(order, listed, tenant_id, filters)
    try:
        return pager.page(rows, limit=query["limit"], cursor=query.get("cursor"))
    except BadCursor as error:
        raise serializers.ValidationError({"cursor": ["It is not a cursor of this list."]}) from error
