"""A stored call against what it follows from: the bytes of its arguments, the keys that run, step and arguments make, its tool."""

from typing import Any

from approvals.services import arguments_intact
from receipts.selectors import call_arguments
from runs.canonical import idempotency_key, intent_key, parse
from runtime.contracts import AgentSpec
from runtime.registry import tool_of
from runtime.tools.registry import definition_hash


def moved_of(call: Any, spec: AgentSpec) -> str:
    """What of a stored call is not as it was recorded, in words that go on with “call …: ”; empty if all of it is.

    Asked by workers before a call is sent, so that nothing that was changed in the store decides what is sent, under which
    key, or how often. A tool that was redefined since is not looked at here: guard 9 does.
    """
    if not arguments_intact(call):
        return "its arguments are not those that were recorded"
    return _keys_moved(call) or _tool_moved(call, spec)


def _keys_moved(call: Any) -> str:
    args = parse(call_arguments(call))
    if call.idempotency_key != idempotency_key(run_id=call.run_id, step_name=call.step_name, args=args):
        return "its key is not that of its run, step and arguments"
    if call.intent_key != intent_key(step_name=call.step_name, args=args):
        return "its intent is not that of its step and arguments"
    return ""


def _tool_moved(call: Any, spec: AgentSpec) -> str:
    tool = tool_of(spec, call.tool)
    if tool is None or not call.step_name.startswith(f"{tool.key}/"):
        return "its tool is not that of its step"
    redefined = definition_hash(tool) != call.tool_hash
    if redefined or (call.tool_version, call.effect_class) == (tool.version, tool.effect_class):
        return ""
    return "its version and effect class are not those of its tool"
