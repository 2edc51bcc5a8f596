"""The filters of the lists over HTTP: those of the pages, by the same names."""

from collections.abc import Mapping
from typing import Any

from django.db.models import QuerySet
from django.http import QueryDict
from rest_framework import serializers

from accounts.states import Actor
from console.lists.listing import Listing


def narrowed(listing: Listing, actor: Actor, query: Mapping[str, Any]) -> QuerySet[Any]:
    """The rows of a list that pass the filters in a parsed query. Raises ValidationError that names what can't be read."""
    given = QueryDict(mutable=True)
    for field in listing.fields:
        value = query.get(field.name, ())
        given.setlist(field.name, [str(one) for one in (value if isinstance(value, list | tuple) else [value])])
    asked = listing.asked(actor, given)
    if asked.errors:
        raise serializers.ValidationError({name: [said] for name, said in asked.errors.items()})
    return asked.rows()
