"""What programs read: the JSON records behind the command line and the API, each shape written down once.

A record is a read-only DRF serializer over rows that an `access_*` or `*_visible` selector gave out. Moments are ISO 8601
in UTC, people are labels such as `person:NAME`, digests are 64 hexadecimal characters.
"""

from collections.abc import Iterable
from typing import Any

from rest_framework import serializers


def records_of(record: type[serializers.Serializer[Any]], rows: Iterable[Any]) -> list[dict[str, Any]]:
    """The records of several rows, in their order."""
    return list(record(rows, many=True).data)
