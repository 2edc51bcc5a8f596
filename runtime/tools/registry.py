"""The tools that ship, what a model sees of them, and the hash that pins one."""

from functools import cache
from typing import Any

from runs.canonical import canonical, digest
from runtime.contracts import Tool, ToolSpec
from runtime.progress import FIELD
from runtime.tools.answer import SendAnswerPart
from runtime.tools.holdings import ComputeOverlap, ReadDisclosure
from runtime.tools.memory import Recall, Remember
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
    if tool.half_life_seconds is not None:
        definition["half_life_seconds"] = str(tool.half_life_seconds)
    return digest(canonical(definition))
