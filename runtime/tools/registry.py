"""The tools that ship, what a model sees of them, and the hash that pins one."""

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, get_args

from pydantic import BaseModel

from approvals.policies import Mark
from approvals.questions import FormFault, form_of
from receipts.states import EffectClass
from runs.canonical import canonical, digest
from runtime.contracts import QuestionArguments, Sensitive, Tool, ToolSpec
from runtime.progress import FIELD
from runtime.tools.answer import SendAnswerPart
from runtime.tools.ask import AskPerson
from runtime.tools.base import PlainTool
from runtime.tools.holdings import ComputeOverlap, ReadDisclosure
from runtime.tools.memory import Recall, Remember
from runtime.tools.prepared import PreparedArguments, PreparedTool
from runtime.tools.publish import PublishReport, PublishReportOnce, PublishReportQueryable
from runtime.tools.reference import FetchReference

TOOLS: dict[str, Tool] = {
    tool.key: tool
    for tool in (
        ReadDisclosure(),
        ComputeOverlap(),
        SendAnswerPart(),
        FetchReference(),
        PublishReport(),
        PublishReportOnce(),
        PublishReportQueryable(),
        Remember(),
        Recall(),
        AskPerson(),
    )
}


@cache
def tool_spec(tool: Tool, *, progress: bool = False) -> ToolSpec:
    """A tool as the model sees it: without the fields that `complete` fills in (`readOnly` in the schema), and with the
    workspaceCheckpoint only where the run may save one (A-014).
    """
    schema = tool.arguments.model_json_schema()
    hidden = set() if progress else {FIELD}
    fields = {
        name: field
        for name, field in schema.get("properties", {}).items()
        if not field.get("readOnly") and name not in hidden
    }
    return ToolSpec(tool.key, tool.description, schema | {"properties": fields})


@cache
def definition_hash(tool: Tool) -> str:
    """SHA-256 (hex) of what a run pins and an approval is bound to: key, version, effect class, timeout, schema and half-life."""
    definition: dict[str, Any] = {
        "key": tool.key,
        "version": tool.version,
        "effect_class": tool.effect_class.value,
        "timeout_seconds": str(tool.timeout_seconds),
        "window_seconds": str(tool.window_seconds),
        "schema": tool.arguments.model_json_schema(),
    }
    if tool.prepared_by:
        definition["prepared_by"] = tool.prepared_by
    if isinstance(tool, AskPerson) and tool.form is not None:
        definition["form"] = tool.form
    if tool.half_life_seconds is not None:
        definition["half_life_seconds"] = str(tool.half_life_seconds)
    return digest(canonical(definition))


@cache
def tool_marks(tool: Tool) -> tuple[Mark, ...]:
    """The arguments that a tool marks as sensitive, in those of its models that it nests and lists as well."""
    return tuple(_marks(tool.arguments, ()))


def _marks(model: type[BaseModel], above: tuple[str, ...]) -> Iterator[Mark]:
    for name, field in model.model_fields.items():
        marks = [one for one in field.metadata if isinstance(one, Sensitive)]
        if marks:
            yield Mark((*above, name), audited=marks[0].audited)
        else:
            for inner in _models(field.annotation):
                yield from _marks(inner, (*above, name))


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models that an annotation names, alone, in a list or as one of several."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models(part)


def misdeclared(tool: Tool, tools: Sequence[Tool]) -> str | None:
    """Why a tool can't be offered among these tools of an agent: what it declares can't be kept. None when it can (A-116)."""
    kind = tool.effect_class
    prepares = next((other for other in tools if other.key == tool.prepared_by), None)
    carries = isinstance(tool, PreparedTool) and issubclass(tool.arguments, PreparedArguments)
    faults = {
        "its key is plain ASCII without spaces, so that a policy that names it names no look-alike": not all(
            "!" <= char <= "~" for char in tool.key
        ),
        "a local effect is QUERYABLE: the effect journal answers for it": tool.local
        and kind not in (EffectClass.READ_ONLY, EffectClass.QUERYABLE),
        "an IDEMPOTENT tool declares its window_seconds, and no other tool does": (kind == EffectClass.IDEMPOTENT)
        != (tool.window_seconds > 0),
        "a QUERYABLE tool has a probe of its own": kind == EffectClass.QUERYABLE
        and not tool.local
        and getattr(type(tool), "probe", None) is PlainTool.probe,
        f"it is prepared by {tool.prepared_by}, which is no READ_ONLY tool of this agent": bool(tool.prepared_by)
        and (prepares is None or prepares.effect_class != EffectClass.READ_ONLY),
        "a tool that carries out what was prepared is a PreparedTool with PreparedArguments": bool(tool.prepared_by)
        != carries,
    }
    return next((why for why, found in faults.items() if found), None) or _misasked(tool)


def _misasked(tool: Tool) -> str | None:
    """Why a tool that asks people can't be offered; None where it can, or asks nobody."""
    if tool.asks is None:
        return None
    plain = tool.effect_class == EffectClass.READ_ONLY and not tool.local and not tool.publishes
    if not plain or not issubclass(tool.arguments, QuestionArguments):
        return "a tool that asks people is READ_ONLY, with QuestionArguments"
    try:
        if isinstance(tool, AskPerson) and tool.form is not None:
            form_of(tool.form)
    except FormFault as fault:
        return str(fault)
    return None
