"""Admission: a run with everything that it is made from, in the caller's transaction."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from accounts.keys import new_id
from accounts.selectors import current_data_key, proved_body, sealed_body
from accounts.statements import fetch, stored, stored_rows
from runs.canonical import bounded, canonical, digest
from runs.errors import ScopeStopped
from runs.models import Agent, AgentVersion, Artifact, Run
from runs.selectors import standing_over
from runs.services.control import pause_accept, stop_accept
from runs.services.run import run_move
from runs.statements import ADMIT, PINNED
from runs.states import ALWAYS_COUNTED, BudgetUnit, ControlKind, HoldReason, Origin, RunStatus


@dataclass(frozen=True)
class NewRun:
    """What admission fixes: the pinned agent, the inputs, the limits and who asked."""

    tenant_id: UUID
    agent_key: str
    agent_version: str
    model: str
    gateway: str
    manifest: dict[str, Any]
    thread_key: str
    title: str
    recovery_policy: str
    max_takeovers: int
    admission_key: str
    created_by: str
    caps: Mapping[str, int]
    inputs: Mapping[str, tuple[str, bytes]]
    descent: "Descent | None" = None
    id: UUID | None = None
    tool_texts: Mapping[str, str] = field(default_factory=dict)
    workspace_id: UUID | None = None


@dataclass(frozen=True)
class Descent:
    """What a run that is not new comes from. A child runs in a thread of its own; the others share their source's."""

    origin: Origin
    source: Run
    revision: int | None = None
    turns: int = 0
    messages: int = 0

    def fields(self) -> dict[str, Any]:
        """The columns of the new run."""
        shared: dict[str, Any] = {"origin": self.origin, "lineage_id": self.source.lineage_id}
        if self.origin == Origin.CHILD:
            return shared | {"parent_run_id": self.source.id, "root_run_id": self.source.root_run_id}
        shared |= {"inherited_turns": self.turns, "inherited_messages": self.messages}
        if self.origin == Origin.FORKED:
            return shared | {"forked_from_id": self.source.id, "forked_from_revision": self.revision}
        return shared | {"continued_from_id": self.source.id}


def run_admit(new: NewRun) -> Run:
    """Insert the run QUEUED with its lease at fence 0, budgets, inputs and first transition, in the caller's transaction.

    Raises ScopeStopped where its tenant, agent or thread is stopped; where one is paused, the run is held from the beginning.
    """
    agent_id, version_id, thread_id = _pinned(new)
    id = new.id or new_id()
    admitted = {
        "id": id,
        "tenant": new.tenant_id,
        "agent": agent_id,
        "version": version_id,
        "thread": thread_id or new_id(),
        "thread_key": new.thread_key,
        "new_thread": thread_id is None,
        **_origin(id, new.descent),
        "title": new.title,
        "workspace": new.workspace_id,
        "recovery_policy": new.recovery_policy,
        "max_takeovers": new.max_takeovers,
        "admission_key": new.admission_key,
        "created_by": new.created_by,
    }
    ((standing, *row),) = fetch(ADMIT, admitted | _budgets(new.caps) | _inputs(new))
    (run,) = stored(Run, [row])
    if standing:
        _meet(run)
    return run


def _meet(run: Run) -> None:
    """Have what stands over a new run apply to it before anybody can take it. Raises ScopeStopped: nothing is started in a scope
    that is stopped. A child is admitted with the call that asks for it, and is stopped with that. A paused run is held.
    """
    for control in standing_over(run):
        why: dict[str, Any] = {"reason": control.reason, "actor": control.requested_by, "scope_control": control.id}
        if control.kind == ControlKind.STOP:
            if run.origin != Origin.CHILD:
                raise ScopeStopped(control.id)
            stop_accept(run=run, **why)
        elif run.hold_reason is None:
            pause_accept(run=run, **why)
            held: dict[str, Any] = {"hold_reason": HoldReason.PAUSED, "detail": bounded(control.reason, 500)}
            run_move(run, RunStatus.HELD, cause="PAUSED", actor=control.requested_by, **held)


def agent_open(*, tenant_id: UUID, key: str) -> Agent:
    """The tenant's row of an agent that is registered here, made if no run of it was ever admitted."""
    agent, _ = Agent.objects.get_or_create(tenant_id=tenant_id, key=key)
    return agent


def _pinned(new: NewRun) -> tuple[UUID, UUID, UUID | None]:
    """Agent, version and thread of a new run; the thread is None where it is new too."""
    names = {"tenant": new.tenant_id, "agent_key": new.agent_key, "thread_key": new.thread_key}
    found = fetch(PINNED, names | {"manifest_digest": digest(canonical(new.manifest))})
    agent_id, version_id, thread_id = found[0] if found else (None, None, None)
    if agent_id is None or version_id is None:
        agent = agent_open(tenant_id=new.tenant_id, key=new.agent_key)
        version = version_store(
            agent=agent,
            version=new.agent_version,
            model=new.model,
            gateway=new.gateway,
            manifest=new.manifest,
            tool_texts=new.tool_texts,
        )
        agent_id, version_id = agent.id, version.id
    return agent_id, version_id, thread_id


def _origin(id: UUID, descent: Descent | None) -> dict[str, Any]:
    """Where the run comes from: nothing, unless it descends from another."""
    nothing: dict[str, Any] = dict.fromkeys(
        ("parent_run_id", "continued_from_id", "forked_from_id", "forked_from_revision")
    )
    new = {"origin": Origin.NEW, "lineage_id": id, "root_run_id": id, "inherited_turns": 0, "inherited_messages": 0}
    fields = nothing | new | (descent.fields() if descent else {})
    return fields | {"origin": str(fields["origin"])}


def _budgets(caps: Mapping[str, int]) -> dict[str, Any]:
    """A cap where the agent has one; what is counted anyway has none, and is never refused."""
    counted = {*ALWAYS_COUNTED, *caps}
    return {
        "caps": [caps.get(unit) for unit in BudgetUnit],
        "nothing": [0 if unit in counted else None for unit in BudgetUnit],
    }


def _inputs(new: NewRun) -> dict[str, Any]:
    given = [(name, filename, data) for name, (filename, data) in new.inputs.items()]
    return {
        "input_names": [name for name, _, _ in given],
        "input_files": [filename for _, filename, _ in given],
        "input_sizes": [len(data) for _, _, data in given],
        "input_digests": [
            artifact_store(tenant_id=new.tenant_id, data=data, media_type="text/csv") for _, _, data in given
        ],
    }


def version_store(
    *,
    agent: Agent,
    version: str,
    model: str,
    gateway: str,
    manifest: Mapping[str, Any],
    tool_texts: Mapping[str, str],
) -> AgentVersion:
    """The stored version of an agent with exactly this manifest; stored now, with what its tools say of themselves, if it is new."""
    row, _ = AgentVersion.objects.get_or_create(
        agent=agent,
        manifest_digest=digest(canonical(manifest)),
        defaults={
            "version": version,
            "model": model,
            "gateway": gateway,
            "manifest": manifest,
            "tool_texts": tool_texts,
        },
    )
    return row


def artifact_store(*, tenant_id: UUID, data: bytes, media_type: str) -> str:
    """Store bytes once per tenant. Returns their SHA-256. Raises BodyChanged if what is stored under it was changed."""
    sha256 = digest(data)
    stored = stored_rows(Artifact, "tenant_id = %(tenant)s AND sha256 = %(sha)s", {"tenant": tenant_id, "sha": sha256})
    if stored:
        proved_body(key_id=stored[0].data_key_id, body=stored[0].body, sha256=sha256)
        return sha256
    key_id = current_data_key(tenant_id)
    artifact = Artifact(
        tenant_id=tenant_id,
        sha256=sha256,
        size=len(data),
        media_type=media_type,
        body=sealed_body(key_id=key_id, plain=data),
        data_key_id=key_id,
    )
    Artifact.objects.bulk_create([artifact], ignore_conflicts=True)
    return sha256
