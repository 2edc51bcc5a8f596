"""A checkpoint as one document for other systems: its identity, place, state, contract and what was written beside it."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from rest_framework import serializers

from accounts.errors import Refused
from accounts.states import Actor
from checkpoints.models import Checkpoint, Head, TaskWrite
from checkpoints.states import Trigger
from console.records.checkpoints import RevisionUnreadable, checkpoint_read
from console.records.ledger import TaskRecord
from receipts.models import ToolCall
from runs.canonical import digest
from runs.models import Message, Run


class IdentityRecord(serializers.Serializer[Any]):
    """Whose it is. `path` is tenant/agent/thread/run/revision."""

    path = serializers.CharField()
    tenant = serializers.UUIDField()
    agent = serializers.CharField()
    thread = serializers.UUIDField()
    run = serializers.UUIDField()


class VersionRecord(serializers.Serializer[Any]):
    """Which one it is: `format` says how to read it, `revision` which save of the run it is."""

    format = serializers.IntegerField()
    revision = serializers.IntegerField()
    digest = serializers.CharField()
    parent_digest = serializers.CharField(allow_null=True)


class MessagesRecord(serializers.Serializer[Any]):
    """The conversation by reference: the messages of the thread up to this number, and the digest over theirs."""

    thread = serializers.UUIDField()
    up_to_seq = serializers.IntegerField()
    digest = serializers.CharField()


class PlanStep(serializers.Serializer[Any]):
    """A call of the turn in hand."""

    call = serializers.UUIDField()
    step = serializers.CharField()


class StateRecord(serializers.Serializer[Any]):
    """The working state. `tool_results` are references by idempotency key: {"call", "step", "digest", "ok"}."""

    messages = MessagesRecord()
    plan = PlanStep(many=True)
    variables = serializers.DictField(child=serializers.IntegerField())
    tool_results = serializers.DictField(child=serializers.DictField())


class ExecutionRecord(serializers.Serializer[Any]):
    """The cursor: where this revision was saved, and where it goes on."""

    current_node = serializers.CharField(allow_null=True)
    next_node = serializers.CharField()
    status = serializers.CharField(help_text="its phase")
    is_head = serializers.BooleanField()


class MetadataRecord(serializers.Serializer[Any]):
    """By which agent, for which run, why and when."""

    agent_id = serializers.UUIDField()
    agent_version = serializers.CharField()
    manifest_digest = serializers.CharField()
    model = serializers.CharField()
    run_id = serializers.UUIDField()
    trigger = serializers.ChoiceField(choices=list(Trigger))
    fence = serializers.IntegerField()
    created_at = serializers.DateTimeField()


class ExportRecord(serializers.Serializer[Any]):
    """One revision as a document. `intent` is the contract it carries: goal, constraints, assumptions and obligations."""

    checkpoint_id = serializers.UUIDField()
    thread_id = serializers.UUIDField()
    parent_checkpoint_id = serializers.UUIDField(allow_null=True)
    sequence = serializers.IntegerField()
    identity = IdentityRecord()
    version = VersionRecord()
    state = StateRecord()
    execution = ExecutionRecord()
    intent = serializers.DictField()
    metadata = MetadataRecord()
    pending_writes = TaskRecord(many=True)


@dataclass(frozen=True)
class _Parent:
    id: UUID | None = None
    next_node: str | None = None


def checkpoint_exported(*, actor: Actor, run_id: UUID, revision: int) -> dict[str, Any] | Refused:
    """The document of one revision, its digest checked; refused where it can't be read. Raises NotFound."""
    reading = checkpoint_read(actor=actor, run_id=run_id, revision=revision)
    saved, body = reading.checkpoint, reading.body
    if body is None:
        return RevisionUnreadable({"revision": revision, "found": reading.unreadable})
    run = Run.objects.select_related("agent_version__agent").get(id=run_id)
    parent, pinned = _parent(run, revision), run.agent_version
    return {
        "checkpoint_id": saved.save_id,
        "thread_id": run.thread_id,
        "parent_checkpoint_id": parent.id,
        "sequence": revision,
        "identity": {
            "path": f"{run.tenant_id}/{pinned.agent.key}/{run.thread_id}/{run.id}/{revision}",
            "tenant": run.tenant_id,
            "agent": pinned.agent.key,
            "thread": run.thread_id,
            "run": run.id,
        },
        "version": {
            "format": saved.format_version,
            "revision": revision,
            "digest": saved.digest,
            "parent_digest": saved.parent_digest,
        },
        "state": _state(run, body),
        "execution": {
            "current_node": parent.next_node,
            "next_node": saved.next_node,
            "status": saved.phase,
            "is_head": Head.objects.get(run=run).revision == revision,
        },
        "intent": body["contract"],
        "metadata": {
            "agent_id": pinned.agent_id,
            "agent_version": pinned.version,
            "manifest_digest": body["manifest_digest"],
            "model": pinned.model,
            "run_id": run.id,
            "trigger": saved.trigger,
            "fence": saved.fence,
            "created_at": saved.created_at,
        },
        "pending_writes": TaskWrite.objects.filter(run=run, base_revision=revision).order_by("id"),
    }


def _parent(run: Run, revision: int) -> _Parent:
    """The revision before; of a run that goes on from another one, the revision where that begins. So all are one tree."""
    source, before = run.id, revision - 1
    if revision == 1 and run.forked_from_id is not None:
        source, before = run.forked_from_id, run.forked_from_revision or 0
    elif revision == 1 and run.continued_from_id is not None:
        source, before = run.continued_from_id, Head.objects.get(run_id=run.continued_from_id).revision
    row = Checkpoint.objects.filter(run_id=source, revision=before).values_list("save_id", "next_node").first()
    return _Parent(*row) if row else _Parent()


def _state(run: Run, body: dict[str, Any]) -> dict[str, Any]:
    heard = Message.objects.filter(thread_id=run.thread_id, seq__lte=body["message_seq"]).order_by("seq")
    steps = dict(ToolCall.objects.filter(id__in=body["barrier"]).values_list("id", "step_name"))
    return {
        "messages": {
            "thread": run.thread_id,
            "up_to_seq": body["message_seq"],
            "digest": digest("".join(heard.values_list("sha256", flat=True)).encode()),
        },
        "plan": [{"call": call, "step": steps[UUID(call)]} for call in body["barrier"]],
        "variables": {name: body[name] for name in ("turn_no", "superstep", "compacted_through")},
        "tool_results": {
            ref["key"]: {"call": ref["call"], "step": ref["step_name"], "digest": ref["digest"], "ok": ref["ok"]}
            for ref in body["results"]
        },
    }
