"""The constraints and assumptions of a run: given at its start, and withdrawn at their source by a person."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import transaction

from accounts.errors import Invalid, Refused
from accounts.states import Actor, Permission
from checkpoints.errors import CommitmentGone
from checkpoints.selectors import access_commitment, commitments_of
from checkpoints.services import NewCommitment, commitment_close, commitment_lock, head_lock
from checkpoints.states import CommitmentKind, SourceKind, can_withdraw
from receipts.states import EffectClass
from runs.canonical import digest
from runs.leases import lease_lock_any
from runs.live import hint_changed
from runs.services import run_lock, run_move
from runs.states import ENDED_RUN, RunStatus, WakeupCause
from runs.wakeups import hint_run
from runtime.contracts import AgentSpec
from runtime.services.guards import act_refusal, audit, audited, text_refusal, wake

TERM_LIMIT = 2000
TERMS_LIMIT = 50


@dataclass(frozen=True)
class Terms:
    """What the person who starts a run binds it to: constraints and assumptions in words, and tools (or effect classes)
    that it must not use. Each of those is a constraint too, and policy holds it.
    """

    constraints: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()


def terms_refusal(terms: Terms, spec: AgentSpec) -> Refused | None:
    """Why these terms can't be accepted, naming the field; None when they can."""
    for name, texts in (("constraint", terms.constraints), ("assumption", terms.assumptions)):
        if len(texts) > TERMS_LIMIT:
            return Invalid({"field": name, "reason": f"{len(texts)} of them, at most {TERMS_LIMIT}."})
        for text in texts:
            refused = text_refusal(name, text, TERM_LIMIT, needed=True)
            if refused is not None:
                return refused
    known = [*(tool.key for tool in spec.tools), *EffectClass]
    unknown = next((name for name in terms.denied if name not in known), None)
    if unknown is None:
        return None
    reason = f"{unknown[:100]} is no tool of this agent and no effect class. Known: {', '.join(known)}."
    return Invalid({"field": "deny", "reason": reason})


def commitments_at_start(spec: AgentSpec, terms: Terms, actor: Actor) -> list[NewCommitment]:
    """What a new run commits to: what its agent declares, then what the person who starts it adds (C-013)."""
    constraint, assumption = CommitmentKind.CONSTRAINT, CommitmentKind.ASSUMPTION
    declared = [
        *(_by_agent(spec, constraint, limit.statement, limit.denies) for limit in spec.constraints),
        *(_by_agent(spec, assumption, statement) for statement in spec.assumptions),
    ]
    return [*declared, *by_person(terms, actor, "start")]


def by_person(terms: Terms, actor: Actor, version: str) -> list[NewCommitment]:
    """The terms of a person as they are stored; `version` says at which occasion they were given."""
    constraint, assumption = CommitmentKind.CONSTRAINT, CommitmentKind.ASSUMPTION
    given = [
        *((constraint, text.strip(), ()) for text in terms.constraints),
        *((constraint, denial(name), (name,)) for name in terms.denied),
        *((assumption, text.strip(), ()) for text in terms.assumptions),
    ]
    return [
        NewCommitment(kind, statement, SourceKind.PERSON, actor.label, version, denies)
        for kind, statement, denies in given
    ]


def denial(name: str) -> str:
    """The constraint that keeps a run from a tool or an effect class, in words."""
    return f"Send no {name} call." if name in set(EffectClass) else f"Do not call {name}."


def _by_agent(spec: AgentSpec, kind: CommitmentKind, statement: str, denies: tuple[str, ...] = ()) -> NewCommitment:
    return NewCommitment(kind, statement, SourceKind.AGENT, spec.key, spec.version, denies)


def same_terms(run_id: UUID, terms: Terms) -> bool:
    """Whether a run was started with exactly these terms."""
    given = [
        row for row in commitments_of(run_id) if row.source_kind == SourceKind.PERSON and row.source_version == "start"
    ]
    return sorted(row.statement for row in given) == sorted(
        [
            *(text.strip() for text in (*terms.constraints, *terms.assumptions)),
            *(denial(name) for name in terms.denied),
        ]
    )


@dataclass(frozen=True)
class Withdrawn:
    """The commitment no longer holds at its source."""

    commitment_id: UUID
    run_id: UUID


def commitment_withdraw(*, actor: Actor, commitment_id: UUID, reason: str) -> Withdrawn | Refused:
    """Record that a constraint or an assumption no longer holds at its source (C-029).

    From the commit on nothing with an effect is sent that rests on it: a run that waits is woken, and guard 11 holds it; a
    decision on it is refused. The contract that the run carries stays as it is. Needs the permission to revise. Raises
    NotFound.
    """
    run_id = access_commitment(actor=actor, id=commitment_id).run_id
    with transaction.atomic():
        outcome = _withdraw(actor, run_id, commitment_id, reason.strip())
    return audited(outcome, actor, "commitment.withdraw", "commitment", commitment_id)


def _withdraw(actor: Actor, run_id: UUID, commitment_id: UUID, reason: str) -> Withdrawn | Refused:
    refused = act_refusal(actor, Permission.REVISE, reason)
    if refused is not None:
        return refused
    lease_lock_any(run_id)
    run = run_lock(run_id)
    head_lock(run_id)
    commitment = commitment_lock(commitment_id)
    if not can_withdraw(commitment.status):
        at = f"{commitment.withdrawn_at:%Y-%m-%d %H:%M:%S} UTC"
        return CommitmentGone({"by": str(commitment.withdrawn_by).partition(":")[2], "at": at})
    commitment_close(commitment, actor=actor.label, reason=reason)
    if run.status not in ENDED_RUN:
        _tell(run, commitment_id, actor)
    detail = {"run": str(run_id), "reason_digest": digest(reason.encode())}
    audit(actor, "commitment.withdraw", "commitment", commitment_id, detail)
    hint_changed(tenant_id=run.tenant_id, run_id=run.id)
    return Withdrawn(commitment_id, run_id)


def _tell(run: Any, commitment_id: UUID, actor: Actor) -> None:
    wake(run, WakeupCause.WITHDRAWN, f"commitment:{commitment_id}")
    if run.status == RunStatus.WAITING:
        run_move(run, RunStatus.QUEUED, cause="WITHDRAWN", actor=actor.label)
        hint_run(run_id=run.id)


def lines_of(text: str) -> Sequence[str]:
    """Statements that were written one a line; empty lines are left out."""
    return [line.strip() for line in text.split("\n") if line.strip()]
