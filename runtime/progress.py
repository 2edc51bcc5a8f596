"""The optional workspaceCheckpoint of `send_answer_part`: its shape, and why one is not saved. Pure Python.

It is research progress, not an execution checkpoint. One that can't be used never takes the valid report with it (A-016).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from runs.canonical import NotCanonical, canonical

FIELD = "workspaceCheckpoint"
Line = Annotated[str, Field(min_length=1, max_length=300, pattern=r"^[^\x00-\x1f\x7f]*$")]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Question(_Strict):
    """One question of the research and where it stands."""

    id: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")
    text: Line
    status: Literal["OPEN", "ANSWERED", "DROPPED"]


class WorkspaceCheckpoint(_Strict):
    """How far the research got. `bodies` names report versions that it rests on, beside the one it comes with."""

    summary: str = Field(min_length=1, max_length=2000, pattern=r"^[^\x00-\x08\x0b-\x1f\x7f]*$")
    questions: tuple[Question, ...] = Field(default=(), max_length=50)
    bodies: tuple[UUID, ...] = Field(default=(), max_length=50)

    def texts(self) -> Iterator[tuple[str, str]]:
        """Every text in it, with its place."""
        yield "summary", self.summary
        for number, question in enumerate(self.questions):
            yield f"questions.{number}.text", question.text


class NotSaved(Exception):
    """Why a proposal is not saved: the kind of the refusal, the place in the proposal, and the reason."""

    def __init__(
        self, kind: Literal["SCHEMA", "MISSING_REF", "AUTHORITY", "FORBIDDEN_CONTENT"], where: str, why: str
    ) -> None:
        super().__init__(f"{where}: {why}")
        self.kind, self.where, self.why = kind, where, why


@dataclass(frozen=True)
class Proposed:
    """A workspaceCheckpoint as the model wrote it, and what the host made of it: checked, refused, or neither yet."""

    value: Any
    checked: WorkspaceCheckpoint | None = None
    refused: NotSaved | None = None


def read(value: Any) -> WorkspaceCheckpoint:
    """The proposal by its shape alone. Raises NotSaved with the place; the reason never quotes the text that stood there."""
    try:
        checked = WorkspaceCheckpoint.model_validate_json(canonical(value))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise NotSaved("SCHEMA", _place(first["loc"]), first["msg"]) from None
    except NotCanonical:
        raise NotSaved("SCHEMA", FIELD, "it has no canonical JSON") from None
    ids = [question.id for question in checked.questions]
    twice = next((number for number, id in enumerate(ids) if id in ids[:number]), None)
    if twice is not None:
        raise NotSaved("SCHEMA", f"questions.{twice}.id", "the same id stands more than once")
    return checked


def _place(parts: tuple[int | str, ...]) -> str:
    """The path of a field. A name that the model made up is not repeated."""
    known = {"summary", "questions", "bodies", "id", "text", "status"}
    return ".".join(str(part) if isinstance(part, int) or part in known else "?" for part in parts) or FIELD
