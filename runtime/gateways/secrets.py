"""Keys by reference: where a secret stands, never the secret itself, is what settings and manifests hold."""

import os
from pathlib import Path


class SecretMissing(Exception):
    """The reference names no secret. The message names the reference, never a value."""


def resolve(reference: str) -> str:
    """The secret behind `env:NAME` or `file:PATH`; "" for an empty reference. Raises SecretMissing."""
    if not reference:
        return ""
    kind, _, place = reference.partition(":")
    if kind == "env" and place:
        value = os.environ.get(place, "")
    elif kind == "file" and place:
        value = _read(Path(place), reference)
    else:
        raise SecretMissing("The key reference must be env:NAME or file:PATH.")
    if not value.strip():
        raise SecretMissing(f"The key reference {reference} holds nothing.")
    return value.strip()


def _read(path: Path, reference: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SecretMissing(f"The key reference {reference} can't be read.") from error
