"""The first of many: what a page lists, and whether there is more than it lists."""

from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")


class Few(list[T]):
    """The first `limit` of some rows. `more`: whether there are others, so that nobody takes these for all. Rows of a query are asked
    for up to one more than the limit.
    """

    def __init__(self, rows: Iterable[T], limit: int, *, more: bool = False) -> None:
        found = list(rows)
        super().__init__(found[:limit])
        self.more = more or len(found) > limit

    @property
    def said(self) -> str:
        """How many there are, as far as it is known: “50+” where there are more."""
        return f"{len(self):,}{'+' if self.more else ''}"
