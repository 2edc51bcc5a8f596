"""The handoff note of a run and its digest. Pure Python.

A snapshot holds where to go on and references to what happened, never the results themselves. Unknown fields are
refused; each text is bounded. The digest is SHA-256 over the canonical JSON of everything in it.
"""

from typing import Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from runs.canonical import canonical, digest

FORMAT_VERSION: Literal[1] = 1
Digest = str


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Promise(_Strict):
    """An obligation as the contract carries it."""

    step_name: str = Field(max_length=200)
    statement: str = Field(max_length=2000)
    status: Literal["OPEN", "FULFILLED", "RELEASED", "CARRIED"]


class Contract(_Strict):
    """The goal of the run at one version, and its obligations."""

    version: int = Field(ge=1)
    goal: str = Field(min_length=1, max_length=4000)
    obligations: tuple[Promise, ...] = Field(max_length=200)


class ResultRef(_Strict):
    """A stored result that the next step may build on."""

    call: UUID
    step_name: str = Field(max_length=200)
    key: Digest = Field(pattern="^[0-9a-f]{64}$")
    digest: Digest = Field(pattern="^[0-9a-f]{64}$")
    ok: bool


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
    message_seq: int = Field(ge=0)
    contract: Contract
    barrier: tuple[UUID, ...] = Field(max_length=64)
    results: tuple[ResultRef, ...] = Field(max_length=2000)
    nonce: str = Field(pattern="^[0-9a-f]{32}$")

    def body(self) -> bytes:
        """The canonical bytes that are stored and digested."""
        return canonical(self.model_dump(mode="json"))


def snapshot_digest(body: bytes) -> str:
    """The digest of a snapshot's canonical bytes."""
    return digest(body)
