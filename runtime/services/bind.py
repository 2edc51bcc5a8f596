"""Bind a run that is under way to more: constraints and assumptions, as a revision of its contract."""

from uuid import UUID

from django.db import transaction

from accounts.errors import Invalid, Refused
from accounts.states import Actor, Permission
from checkpoints.services import SaveRefused
from runs.canonical import digest
from runs.selectors import access_run
from runtime.registry import agents
from runtime.services.goal import GoalRevised, Revision, contract_lock, contract_store
from runtime.services.guards import act_refusal, audit, audited, save_refusal
from runtime.services.terms import Terms, by_person, terms_refusal


def run_bind(*, actor: Actor, run_id: UUID, terms: Terms, reason: str) -> GoalRevised | Refused:
    """Add constraints and assumptions to a run that no worker holds: a version of its contract, as a revised goal is one.

    Live waits are superseded and asked again at the new revision, where the new terms hold. What a run has accepted is never
    taken out of its contract; it can be withdrawn at its source. Needs the permission to revise. Raises NotFound.
    """
    run = access_run(actor=actor, id=run_id)
    outcome: GoalRevised | Refused
    try:
        with transaction.atomic():
            outcome = _bind(actor, run_id, run.agent_version.agent.key, terms, reason.strip())
    except SaveRefused as refused:
        outcome = save_refusal(refused.outcome)
    return audited(outcome, actor, "run.bind", "run", run_id)


def _bind(actor: Actor, run_id: UUID, agent: str, terms: Terms, reason: str) -> GoalRevised | Refused:
    refused = act_refusal(actor, Permission.REVISE, reason) or _refusal(terms, agent)
    if refused is not None:
        return refused
    found = contract_lock(run_id)
    if isinstance(found, Refused):
        return found
    run, position = found
    contract = position.snapshot.contract
    added = by_person(terms, actor, f"contract-{contract.version + 1}")
    said = "\n".join(f"- {new.statement} ({str(new.kind).lower()})" for new in added)
    notice = f"A person bound this run to more. Reason: {reason}\nFrom now on:\n{said}"
    revised = contract_store(
        actor,
        run,
        position,
        Revision("BOUND", "the run was bound to more", contract.goal, reason, notice, tuple(added)),
    )
    detail = {
        "version": revised.version,
        "revision": revised.revision,
        "terms": [digest(new.statement.encode()) for new in added],
        "reason_digest": digest(reason.encode()),
    }
    audit(actor, "run.bind", "run", run.id, detail)
    return revised


def _refusal(terms: Terms, agent: str) -> Refused | None:
    if not (terms.constraints or terms.assumptions or terms.denied):
        return Invalid({"field": "constraint", "reason": "give a constraint, an assumption or a tool that is denied."})
    registered = agents().get(agent)
    if registered is None:
        return Invalid({"field": "agent", "reason": f"{agent} is not registered here."})
    return terms_refusal(terms, registered.spec)
