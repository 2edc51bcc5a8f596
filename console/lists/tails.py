"""Ids as people write them: whole, or their end, which is what differs between ids of one minute."""

from uuid import UUID

from django.db.models import CharField, Q
from django.db.models.functions import Cast, Reverse
from django.db.models.lookups import StartsWith


def whole_id(text: str) -> UUID | None:
    """The id that a text is, or None."""
    try:
        return UUID(text.strip())
    except ValueError:
        return None


def ends_with(tail: str, field: str = "id") -> Q:
    """Rows whose id ends so. The index of each searched table holds its ids written backwards."""
    return Q(StartsWith(Reverse(Cast(field, CharField())), tail[::-1]))
