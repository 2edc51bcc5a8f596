"""The handoff note of a run: its fields, its digest, and what may not stand in it. Pure Python."""

from checkpoints.envelope.fit import Unfit, fit
from checkpoints.envelope.snapshot import (
    FORMAT_VERSION,
    Contract,
    Digest,
    Promise,
    ResultRef,
    Snapshot,
    Term,
    UnknownFormat,
    parse_snapshot,
    snapshot_digest,
)

__all__ = [
    "FORMAT_VERSION",
    "Contract",
    "Digest",
    "Promise",
    "ResultRef",
    "Snapshot",
    "Term",
    "Unfit",
    "UnknownFormat",
    "fit",
    "parse_snapshot",
    "snapshot_digest",
]
