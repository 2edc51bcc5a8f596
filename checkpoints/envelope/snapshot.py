"""The handoff note of a run and its digest. Pure Python.

A snapshot holds where to go on and references to what happened, never the results themselves. Unknown fields are
refused; each text is bounded. The digest is SHA-256 over the canonical JSON of everything in it.
"""

from collections.abc import Mapping
from typing import Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from runs.canonical import canonical, digest

FORMAT_VERSION: Literal[1] = 1
RESULT_LIMIT = 2000
Digest = str


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, revalidate_instances="always")


class Promise(_Strict):
    """An obligation as the contract carries it."""

    step_name: str = Field(max_length=200)
    statement: str = Field(max_length=2000)
    status: Literal["OPEN", "FULFILLED", "RELEASED", "CARRIED"]


class Term(_Strict):
    """A constraint or an assumption as the contract carries it: what, on whose word, and since which revision.

    `denies` names tools or effect classes that policy denies while the term is carried.
    """

    id: UUID
    statement: str = Field(min_length=1, max_length=2000)
    denies: tuple[str, ...] = Field(max_length=64)
    source_kind: Literal["AGENT", "PERSON"]
    source_ref: str = Field(min_length=1, max_length=200)
    source_version: str = Field(min_length=1, max_length=64)
    accepted_at: str = Field(max_length=40)
    accepted_revision: int = Field(ge=1)


class Contract(_Strict):
    """The goal of the run at one version, its obligations, the constraints it accepted and the assumptions it rests on."""

    version: int = Field(ge=1)
    goal: str = Field(min_length=1, max_length=4000)
    obligations: tuple[Promise, ...] = Field(max_length=200)
    constraints: tuple[Term, ...] = Field(default=(), max_length=100)
    assumptions: tuple[Term, ...] = Field(default=(), max_length=100)

    @property
    def terms(self) -> tuple[Term, ...]:
        """Everything that must still hold at its source."""
        return (*self.constraints, *self.assumptions)

    def forbids(self, *, tool: str, effect_class: str) -> str:
        """The carried constraint that denies a call of this tool, in its own words; "" when none does (C-004)."""
        return next((term.statement for term in self.constraints if {tool, effect_class} & set(term.denies)), "")


class ResultRef(_Strict):
    """A stored result that the next step may build on."""

    call: UUID
    step_name: str = Field(max_length=200)
    key: Digest = Field(pattern="^[0-9a-f]{64}$")
    digest: Digest = Field(pattern="^[0-9a-f]{64}$")
    ok: bool


class Material(_Strict):
    """What a run was given to work on: an upload by its name, and the digest of its bytes (A-055)."""

    name: str = Field(min_length=1, max_length=32)
    digest: Digest = Field(pattern="^[0-9a-f]{64}$")


def materials_of(inputs: Mapping[str, tuple[str, bytes]]) -> tuple[Material, ...]:
    """The materials of a new run, from its uploads: file name and bytes by name."""
    return tuple(Material(name=name, digest=digest(data)) for name, (_, data) in sorted(inputs.items()))


class Snapshot(_Strict):
    """One revision of a run's handoff note."""

    format_version: Literal[1] = FORMAT_VERSION
    tenant: UUID
    thread: UUID
    run: UUID
    revision: int = Field(ge=1)
    parent_digest: Digest | None = Field(pattern="^[0-9a-f]{64}$")
    manifest_digest: Digest = Field(pattern="^[0-9a-f]{64}$")
    phase: str = Field(pattern="^[A-Z_]{1,24}$")
    next_node: str = Field(max_length=128)
    turn_no: int = Field(ge=0)
    superstep: int = Field(default=0, ge=0)
    compacted_through: int = Field(default=0, ge=0)
    message_seq: int = Field(ge=0)
    contract: Contract
    materials: tuple[Material, ...] = Field(default=(), max_length=64)
    barrier: tuple[UUID, ...] = Field(max_length=64)
    results: tuple[ResultRef, ...] = Field(max_length=RESULT_LIMIT)
    nonce: str = Field(pattern="^[0-9a-f]{32}$")

    def body(self) -> bytes:
        """The canonical bytes that are stored and digested."""
        return canonical(self.model_dump(mode="json"))


# Each format that can be read, with its strict parser. A format that is not here is refused, never guessed (T03).
_PARSERS: dict[int, type[Snapshot]] = {FORMAT_VERSION: Snapshot}


class UnknownFormat(ValueError):
    """A stored body has a format version that this installation can't read."""


def parse_snapshot(plain: bytes, *, format_version: int) -> Snapshot:
    """The snapshot in a stored body of this format. Raises UnknownFormat, or pydantic's ValidationError."""
    parser = _PARSERS.get(format_version)
    if parser is None:
        raise UnknownFormat(f"format {format_version}, supported {', '.join(map(str, sorted(_PARSERS)))}")
    return parser.model_validate_json(plain)


def snapshot_digest(body: bytes) -> str:
    """The digest of a snapshot's canonical bytes."""
    return digest(body)
