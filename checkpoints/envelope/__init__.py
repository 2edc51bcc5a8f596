"""The handoff note of a run: its fields, its digest, and what may not stand in it. Pure Python."""

from checkpoints.envelope.fit import Unfit, fit
from checkpoints.envelope.parts import Parts, apply_delta, delta, joined, rebuilt, stored_parts
from checkpoints.envelope.secrets import secret_in, withheld
from checkpoints.envelope.snapshot import (
    FORMAT_VERSION,
    Contract,
    Digest,
    Material,
    Promise,
    ResultRef,
    Snapshot,
    Term,
    UnknownFormat,
    materials_of,
    parse_snapshot,
    snapshot_digest,
)
from checkpoints.envelope.written import unfit_text

__all__ = [
    "FORMAT_VERSION",
    "Contract",
    "Digest",
    "Material",
    "Parts",
    "Promise",
    "ResultRef",
    "Snapshot",
    "Term",
    "Unfit",
    "UnknownFormat",
    "apply_delta",
    "delta",
    "fit",
    "joined",
    "materials_of",
    "parse_snapshot",
    "rebuilt",
    "secret_in",
    "snapshot_digest",
    "stored_parts",
    "unfit_text",
    "withheld",
]
