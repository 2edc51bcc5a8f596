"""Identifiers."""

from uuid import UUID

from uuid_utils.compat import uuid7


def new_id() -> UUID:
    """A version 7 UUID. Its order is roughly the order of creation; no decision rests on that."""
    return uuid7()
