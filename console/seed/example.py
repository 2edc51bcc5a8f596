"""The example that a seeded database is made from: one run that was really started, and what its followers are like."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from accounts.selectors import current_data_key, sealed_body
from accounts.states import Actor
from checkpoints.envelope import Snapshot
from checkpoints.selectors import load_head
from checkpoints.services import prepare, proved
from checkpoints.statements import Candidate, Prepared
from checkpoints.states import Phase, Trigger
from console.management.commands.tour import AGENT, SAMPLES
from runs.canonical import canonical, digest
from runs.models import Run
from runs.services import agent_open, artifact_store, version_store
from runtime.registry import agents, pinned
from runtime.services import Started, StartRequest, Upload, run_start
from runtime.tools.registry import TOOLS, definition_hash

OTHER_AGENT = "evidence_search"
REPORT = "# Overlap\n\nThe two funds share holdings. The figures are those of the run.\n"

# The phases that a run goes through, by where it ends. Its first revision is the same for all.
PATHS: Mapping[str, Sequence[tuple[Phase, str]]] = {
    "new": (),
    "asked": ((Phase.AWAITING_APPROVAL, "route"),),
    "calling": ((Phase.AWAITING_TOOL_RESULT, "act"),),
    "stopped": ((Phase.STOPPED, "end"),),
    "finished": ((Phase.READY_TO_VERIFY, "verify"), (Phase.FINISHED, "end")),
    "decided": (
        (Phase.AWAITING_APPROVAL, "route"),
        (Phase.READY_TO_DECIDE, "think"),
        (Phase.READY_TO_VERIFY, "verify"),
        (Phase.FINISHED, "end"),
    ),
}

# What is called in turn, and last what a person is asked about.
CALLED: Sequence[tuple[str, Mapping[str, Any]]] = (
    ("read_disclosure", {"input": "a"}),
    ("compute_overlap", {}),
    ("send_answer_part", {"version": 1, "title": "Larch and Maple", "summary": "The two funds share holdings."}),
    ("fetch_reference", {}),
    (
        "publish_report",
        {
            "channel": "wiki",
            "report_version": 2,
            "title": "Larch and Maple",
            "summary": "The two funds share holdings.",
        },
    ),
)


@dataclass(frozen=True)
class Example:
    """The started run, and the names that seeded rows share with it."""

    run: Run
    data_key: UUID

    def names(self) -> dict[str, Any]:
        """What the statements of a part call by name."""
        tenant = self.run.tenant_id
        other = pinned(agents()[OTHER_AGENT].spec)
        agent = agent_open(tenant_id=tenant, key=OTHER_AGENT)
        version = version_store(
            agent=agent,
            version=other["agent_version"],
            **{key: other[key] for key in ("model", "gateway", "manifest", "tool_texts")},
        )
        return {
            "tenant": tenant,
            "data_key": self.data_key,
            "example": self.run.id,
            "agent": self.run.agent_version.agent_id,
            "version": self.run.agent_version_id,
            "evidence_agent": agent.id,
            "evidence_version": version.id,
            "report": artifact_store(tenant_id=tenant, data=REPORT.encode(), media_type="text/markdown"),
        }

    def revisions(self) -> Iterator[dict[str, Any]]:
        """The revisions of each path, with the bytes that are stored for them."""
        head = load_head(self.run)
        first = proved(prepare(Candidate(head.snapshot, Trigger.INIT)))
        for path, phases in PATHS.items():
            yield self._revision(path, first)
            last = first
            for phase, node in phases:
                last = _following(last, phase, node)
                yield self._revision(path, last)

    def _revision(self, path: str, prepared: Prepared) -> dict[str, Any]:
        snapshot = prepared.candidate.snapshot
        return {
            "path": path,
            "revision": snapshot.revision,
            "digest": prepared.digest,
            "parent": snapshot.parent_digest,
            "phase": str(snapshot.phase),
            "node": snapshot.next_node,
            "trigger": str(prepared.candidate.trigger),
            "encoding": str(prepared.encoding),
            "body": sealed_body(key_id=self.data_key, plain=prepared.stored),
            "bytes": len(prepared.plain),
        }

    def tools(self) -> Iterator[dict[str, Any]]:
        """What is called, in its order, with arguments, answer and the turn that asks for it as they are stored."""
        for place, (key, args) in enumerate(CALLED):
            tool, stored, answer = TOOLS[key], canonical(dict(args)), canonical({"seeded": True})
            turn = {"text": f"I call {key}.", "proposals": [{"tool": key, "arguments": dict(args)}]}
            yield {
                "place": place,
                "tool": key,
                "version": tool.version,
                "hash": definition_hash(tool),
                "effect_class": tool.effect_class.value,
                "step_name": f"{key}/seeded",
                "args": sealed_body(key_id=self.data_key, plain=stored),
                "args_text": stored.decode(),
                "args_digest": digest(stored),
                "result": sealed_body(key_id=self.data_key, plain=answer),
                "result_digest": digest(answer),
                "turn_digest": artifact_store(
                    tenant_id=self.run.tenant_id, data=json.dumps(turn).encode(), media_type="application/json"
                ),
            }


def _following(before: Prepared, phase: Phase, node: str) -> Prepared:
    after = before.candidate.snapshot
    changed = {"revision": after.revision + 1, "parent_digest": before.digest, "phase": phase, "next_node": node}
    snapshot: Snapshot = after.model_copy(update=changed)
    return proved(prepare(Candidate(snapshot, Trigger.CURSOR, after=after, base=before.parts)))


def example_start(actor: Actor) -> Example | str:
    """Start the run that the others are made from, or say why it can't be started."""
    inputs = {name: Upload(path.name, path.read_bytes()) for name, path in SAMPLES.items()}
    started = run_start(actor=actor, wanted=StartRequest(agent=AGENT, inputs=inputs, key="seed"))
    if not isinstance(started, Started):
        return started.sentence
    run = Run.objects.select_related("agent_version").get(id=started.run_id)
    return Example(run, current_data_key(run.tenant_id))
