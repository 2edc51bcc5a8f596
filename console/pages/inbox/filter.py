"""What of the inbox is shown: kept in its URL, and carried by the links to an item, so that one comes back to it."""

from dataclasses import dataclass
from functools import cached_property
from urllib.parse import urlencode

from django.http import HttpRequest, QueryDict
from django.urls import reverse

from approvals.states import Whose

KINDS = {
    "": ("All", "", ""),
    "approvals": ("Approvals", "caution", "caution"),
    "questions": ("Questions", "caution", "ask"),
    "flags": ("Said otherwise", "unknown", "flag"),
    "unknown": ("Unknown calls", "unknown", "unknown"),
    "held": ("Held runs", "stop", "held"),
}
WHOSE = {Whose.ALL: "All", Whose.MINE: "Mine", Whose.UNCLAIMED: "Unclaimed"}


@dataclass(frozen=True)
class Filter:
    """What of the inbox is shown. It is kept in the URL, on the way to an item and back."""

    kind: str = ""
    whose: Whose = Whose.ALL

    @cached_property
    def query(self) -> str:
        """As the inbox itself takes it, empty for everything."""
        kept = {"kind": self.kind, "whose": "" if self.whose == Whose.ALL else str(self.whose)}
        return urlencode({name: value for name, value in kept.items() if value})

    @property
    def url(self) -> str:
        return reverse("inbox") + (f"?{self.query}" if self.query else "")

    @cached_property
    def item_prefix(self) -> str:
        """What the key of an item is added to, to look at it beside the list."""
        return f"{reverse('inbox')}?{f'{self.query}&' if self.query else ''}item="

    @cached_property
    def carried(self) -> str:
        """What a link to an item carries, so that its page leads back here."""
        return f"?{urlencode({'inbox': self.query})}" if self.query else ""


def filter_of(asked: QueryDict) -> Filter:
    """The filter that a URL of the inbox holds; what it does not know counts for nothing."""
    kind, whose = asked.get("kind", ""), asked.get("whose", "")
    return Filter(kind if kind in KINDS else "", Whose(whose) if whose in set(Whose) else Whose.ALL)


def came_from(request: HttpRequest) -> Filter:
    """The filter of the inbox from which somebody came to the page of an item."""
    return filter_of(QueryDict(request.GET.get("inbox", "")[:200]))
