"""What programs read: the JSON records behind the command line and the API, each shape written down once.

A record is a read-only DRF serializer over rows that an `access_*` or `*_visible` selector gave out. Moments are ISO 8601
in UTC, people are labels such as `person:NAME`, digests are 64 hexadecimal characters.
"""

from collections.abc import Iterable
from typing import Any

from rest_framework import serializers

from accounts.states import Actor
from runtime.masking import Masks

MASKS = "masks"


def records_of(record: type[serializers.Serializer[Any]], rows: Iterable[Any]) -> list[dict[str, Any]]:
    """The records of several rows, in their order. What is marked as sensitive is masked in them, whoever asks."""
    return list(record(rows, many=True, context={MASKS: Masks()}).data)


def record_for(actor: Actor, record: type[serializers.Serializer[Any]], row: Any) -> dict[str, Any]:
    """The record of the one call or wait that somebody asked for, as they may see it. What they were shown is audited where
    that is wanted.
    """
    masks = Masks(actor)
    shown = dict(record(row, context={MASKS: masks}).data)
    masks.tell()
    return shown


def masks_in(record: serializers.BaseSerializer[Any]) -> Masks:
    """What a record masks; everything that is marked, where nobody has said who asks."""
    masks: Masks = record.context.get(MASKS) or Masks()
    return masks
