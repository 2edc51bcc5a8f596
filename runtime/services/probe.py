"""Ask once, on a person's word, whether the key of a call of unknown outcome was executed. Evidence, and no verdict."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction

from accounts.errors import NotAllowed, Refused
from accounts.states import Actor, Permission
from approvals.services import arguments_intact
from receipts.errors import AttemptsMoved, NothingToProbe, NotUncertain, ProbeUnderWay
from receipts.selectors import access_call, call_arguments, journal_entry, last_probe, seconds_under_way
from receipts.services import Against, call_lock, contradiction_raise, probe_answer, probe_open
from receipts.states import CallStatus, EffectClass, EvidenceSource, Found, Verdict
from runs.live import hint_changed
from runs.selectors import held_now, run_inputs, run_now
from runtime.contracts import Tool, ToolContext, ToolOutcome
from runtime.hosts import try_probe
from runtime.masking import hidden_texts
from runtime.registry import agents, tool_of
from runtime.services.guards import audit, audited
from runtime.tools.registry import definition_hash


@dataclass(frozen=True)
class Probed:
    """Somebody was asked. `found` is THERE, NOT_THERE, or UNTOLD where that can't be told. `early`: it may still be carried out."""

    probe_id: UUID
    call_id: UUID
    found: Found
    early: bool


@dataclass(frozen=True)
class _Sight:
    found: Found
    how: str
    external_ref: str | None = None
    early: bool = False


def call_probe(*, actor: Actor, call_id: UUID, attempts: int | None = None) -> Probed | Refused:
    """Look once whether a call of unknown outcome happened: in the effect journal, or by its tool's probe on the other side.

    What is found is stored as evidence, observed and not accepted: the call stays UNCERTAIN, the run stays where it is, and nobody's
    verdict is given. Where a verdict that says otherwise was given meanwhile, a flag is raised. One look at a time; it is stored
    before anybody is asked, and nobody is asked inside a transaction. Needs the permission to reconcile. `attempts`, where it is given,
    is the attempt that the person was looking at. Raises NotFound.
    """
    call = access_call(actor=actor, id=call_id)
    tool = _tool(call)
    opened = _refusal(actor, call, tool, attempts) or _open(actor, call_id, tool, attempts)
    if isinstance(opened, Refused):
        return audited(opened, actor, "call.probe", "call", call_id)
    sight = _look(call, tool)
    with transaction.atomic():
        now = call_lock(call_id)
        if probe_answer(opened, found=sight.found, how=sight.how, external_ref=sight.external_ref, early=sight.early):
            _flag(now, sight)
        audit(actor, "call.probe", "call", call_id, {"probe": str(opened), "found": str(sight.found)})
    hint_changed(tenant_id=call.tenant_id, run_id=call.run_id)
    return Probed(opened, call_id, sight.found, sight.early)


def can_probe(call: Any) -> bool:
    """Whether somebody can be asked about a call: it is UNCERTAIN, and its tool answers by key or writes here only."""
    return call.status == CallStatus.UNCERTAIN and not _why_not(call, _tool(call))


def _tool(call: Any) -> Tool | None:
    """The tool of a call, as it was when the call was bound to it."""
    agent = agents().get(call.run.agent_version.agent.key)
    tool = tool_of(agent.spec, call.tool) if agent else None
    return tool if tool is not None and definition_hash(tool) == call.tool_hash else None


def _refusal(actor: Actor, call: Any, tool: Tool | None, attempts: int | None) -> Refused | None:
    if not actor.may(Permission.RECONCILE):
        return NotAllowed({"permission": "reconcile", "actor": actor.name})
    if attempts not in (None, call.attempts):
        return AttemptsMoved({"seen": attempts, "attempts": call.attempts})
    if call.status != CallStatus.UNCERTAIN:
        return NotUncertain({"status": call.status})
    why = _why_not(call, tool)
    return NothingToProbe({"why": why}) if why else None


def _why_not(call: Any, tool: Tool | None) -> str:
    if tool is None:
        return "The tool is not installed here as the call was bound to it."
    if not tool.local and call.effect_class != EffectClass.QUERYABLE:
        return "This tool can't be asked by key; only a person can look in the other system."
    return "" if arguments_intact(call) else "The stored arguments are not the recorded ones."


def _open(actor: Actor, call_id: UUID, tool: Tool | None, attempts: int | None) -> UUID | Refused:
    if tool is None:
        raise LookupError("a call without a tool was refused before")
    with transaction.atomic():
        call = call_lock(call_id)
        if call.status != CallStatus.UNCERTAIN:
            return NotUncertain({"status": call.status})
        if attempts not in (None, call.attempts):
            return AttemptsMoved({"seen": attempts, "attempts": call.attempts})
        opened = probe_open(call, asked_by=actor.label, limit=tool.timeout_seconds)
        if opened is not None:
            return opened.id
        before = last_probe(call)
        by = before.asked_by.partition(":")[2] if before else ""
        return ProbeUnderWay({"by": by, "at": f"{before.asked_at:%Y-%m-%d %H:%M:%S} UTC" if before else ""})


def _look(call: Any, tool: Tool | None) -> _Sight:
    if tool is None:
        raise LookupError("a call without a tool was refused before")
    entry = journal_entry(call)
    if entry is not None:
        return _Sight(Found.THERE, "the effect journal has its row", entry.external_ref)
    if tool.local:
        # Whoever may still write holds the lease; without a holder its row can't come any more.
        writing = held_now(call.run_id)
        return _Sight(Found.NOT_THERE, "the effect journal has no row of it", early=writing)
    return _ask(call, tool)


def _ask(call: Any, tool: Tool) -> _Sight:
    early = (
        seconds_under_way(call, limit=tool.timeout_seconds) > 0
    )  # before the look: what comes during it counts as well
    found = try_probe(tool, _context(call, tool), tool.arguments.model_validate_json(call_arguments(call)))
    if isinstance(found, ToolOutcome):
        return _Sight(Found.THERE, "the probe found the key", found.external_ref)
    if found is False:
        return _Sight(Found.NOT_THERE, "the probe did not find the key", early=early)
    return _Sight(Found.UNTOLD, "the probe can't tell")


def _context(call: Any, tool: Tool) -> ToolContext:
    return ToolContext(
        run_id=call.run_id,
        call_id=call.id,
        idempotency_key=call.idempotency_key,
        attempt_no=call.attempts,
        timeout_seconds=tool.timeout_seconds,
        inputs=run_inputs(run_now(call.run_id)),
        results=(),
        outside_url=settings.OUTSIDE_URL,
        hidden=hidden_texts(call),
    )


def _flag(call: Any, sight: _Sight) -> None:
    """Raise the flag where a verdict was given while somebody was asked, and what was found speaks against it (T38)."""
    if sight.found == Found.UNTOLD or sight.early:
        return
    says = Verdict.EXECUTED if sight.found == Found.THERE else Verdict.NOT_EXECUTED
    contradiction_raise(
        call, Against(call.attempts, EvidenceSource.PROBE, says, sight.how, sight.external_ref, "probe")
    )
