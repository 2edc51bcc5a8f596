"""Ids as people write them: whole, or their end, which is what differs between ids of one minute."""

from uuid import UUID

from django.db.models import BooleanField, CharField, Q, Value
from django.db.models.expressions import CombinedExpression
from django.db.models.functions import Cast, Reverse


def whole_id(text: str) -> UUID | None:
    """The id that a text is, or None."""
    try:
        return UUID(text.strip())
    except ValueError:
        return None


def ends_with(tail: str, field: str = "id") -> Q:
    """Rows whose id ends so. The index of each searched table holds its ids written backwards, byte by byte.

    Asked as a range, since the server keeps the plan of a LIKE for whatever pattern comes, and that one reads every row.
    """
    backwards, low = Reverse(Cast(field, CharField())), tail[::-1]
    high = low[:-1] + chr(ord(low[-1]) + 1)
    return Q(_compared(backwards, "~>=~", low), _compared(backwards, "~<~", high))


def _compared(expression: Reverse, operator: str, text: str) -> CombinedExpression:
    return CombinedExpression(expression, operator, Value(text), output_field=BooleanField())
