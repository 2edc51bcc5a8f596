"""The resume guards 9 to 13: may this run go on, on this approval, on what it was told?

Each is asked in its order when a run is resumed, and again inside the commit that sends a call or finishes the run
(DESIGN.md rulings 4, 31, 35 and 36). A guard that fails says why, under a refusal kind of its own, and what follows: the
run is held, or the approval is void and asked afresh. Guards 1 to 8 are `runtime.recovery`'s.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from accounts.selectors import may_still, people_in, still_may
from accounts.statements import gather
from accounts.states import Permission
from approvals.policies import version_name
from approvals.selectors import approval_expired, approval_used, grant_stands, grant_used, policy_number_kept
from approvals.services import decided_waits_invalidate, is_backed, lapsed_voice
from checkpoints.selectors import commitments_in, withdrawn_commitment, withdrawn_of
from receipts.selectors import last_verdict
from receipts.states import EffectClass
from runs.canonical import bounded
from runs.errors import LeaseLost
from runs.leases import lease_lock
from runs.selectors import refused_before
from runs.services import refusal_record
from runs.statements import fence_params
from runs.states import RefusalKind
from runtime.drift import drift_of
from runtime.ending import held_run, refuse_resume
from runtime.facts import LAPSED, lapsed_under
from runtime.registry import tool_of
from runtime.session import Session
from runtime.statements import GROUND
from runtime.tools.registry import definition_hash


@dataclass(frozen=True)
class Failed:
    """A guard that failed. `holds`: the run is held until a person acts; else the approval is void and asked afresh."""

    kind: RefusalKind
    why: str
    subject: UUID | None = None
    holds: bool = True


def ground(session: Session) -> Failed | None:
    """Guards 10 and 11 of a run that goes on without an approval in hand: whom it acts for, and what it rests on."""
    return _principal(session) or _withdrawn(session)


def ground_found(run: Any, members: Iterable[Sequence[Any]], commitments: Iterable[Any]) -> Failed | None:
    """The same, by what was read together with other things of the run: the members that count, and its commitments."""
    return _acts(run, may_still(run.created_by, Permission.START, members)) or _holds(withdrawn_of(commitments))


@dataclass(frozen=True)
class Kept:
    """What the guards of a dispatch look at, as its transaction has read it and keeps it: the members that count, what the run
    has committed to, which approvals stand and which of them are out of time, and the number of the policy, if a row says it.
    """

    members: Sequence[Sequence[Any]]
    commitments: Sequence[Any]
    approved: frozenset[UUID]
    expired: frozenset[UUID]
    governing: int | None

    def policy_number(self, tenant_id: UUID) -> int:
        """The version in force, and it stays so; for a tenant that never had another one, the row that says so is made now."""
        return policy_number_kept(tenant_id) if self.governing is None else self.governing


def kept(session: Session, waits: Sequence[UUID]) -> Kept:
    """Lock the lease and read under it, in one statement, what a dispatch by these approvals rests on, first in its
    transaction. Raises LeaseLost.
    """
    members = people_in([session.run.created_by])
    found = gather(GROUND, fence_params(session.holding) | {"members": members, "waits": list(waits)})
    if not found["fence"]:
        raise LeaseLost
    number = found["governing"][0][0] if found["governing"] else None
    approved = frozenset(id for id, _ in found["waits_kept"])
    expired = frozenset(id for id, over in found["waits_kept"] if over)
    return Kept(found["members"], commitments_in(found["committed"]), approved, expired, number)


def approval(session: Session, kept: Kept, call: Any, wait: Any) -> Failed | None:
    """Guards 9 to 12 of a call that people have approved, in their order. Called inside the commit that consumes the wait."""
    return (
        _binding(session, kept, call, wait)
        or _acts(session.run, may_still(session.run.created_by, Permission.START, kept.members))
        or _deciders(kept, wait)
        or _holds(withdrawn_of(kept.commitments))
        or _stale(session, call)
    )


def unasked(session: Session, kept: Kept, call: Any) -> Failed | None:
    """Guards 10 to 12 of a call that policy asks nobody about. What only reads is sent all the same."""
    if call.effect_class == EffectClass.READ_ONLY:
        return None
    return ground_found(session.run, kept.members, kept.commitments) or _stale(session, call)


def retry(session: Session, call: Any) -> Failed | None:
    """The same for a call that is sent another time, first in its transaction (ruling 36), and whose word it goes on."""
    if call.effect_class == EffectClass.READ_ONLY:
        return None
    if lease_lock(session.holding) is None:
        raise LeaseLost
    return ground(session) or word(call)


def word(call: Any) -> Failed | None:
    """Guard 10 of a call with an effect that is sent another time: who had it sent may still decide here, and the approval
    is still in time. That is the person who said that it did not happen and has it sent again, or else its approver.
    """
    if call.effect_class == EffectClass.READ_ONLY:
        return None
    verdict = last_verdict(call)
    if verdict is not None and verdict.method == "HUMAN" and verdict.seen_attempts == call.attempts:
        may = still_may(tenant_id=call.tenant_id, label=verdict.actor, permission=Permission.DECIDE)
        return None if may else _no_longer(verdict.actor, "had it sent again", call.id)
    wait = approval_used(call_id=call.id)
    if wait is None:
        return _grant(call)
    if approval_expired(wait):
        return _asked_afresh(RefusalKind.AUTHORITY, wait, "the approval lapsed before the next try")
    return _approvers(wait)


def _grant(call: Any) -> Failed | None:
    """The same for a call that went by a standing grant, if it did: the grant stands, and its giver may still decide."""
    grant = grant_used(call_id=call.id)
    if grant is None:
        return None
    if not grant_stands(grant):
        why = "the grant that it went by ended before the next try"
        return Failed(RefusalKind.AUTHORITY, why, grant.id, holds=False)
    may = still_may(tenant_id=call.tenant_id, label=grant.owner, permission=Permission.DECIDE)
    return None if may else _no_longer(grant.owner, "gave the grant that it goes by", grant.id)


def _approvers(wait: Any) -> Failed | None:
    """Everybody whose approval counts may still decide such a wait."""
    lapsed = lapsed_voice(wait)
    if lapsed is not None:
        return _no_longer(lapsed, "approved it", wait.id)
    why = "fewer people than the wait asks for have approved what it is bound to"
    return None if is_backed(wait) else Failed(RefusalKind.AUTHORITY, why, wait.id, holds=False)


def _no_longer(label: str, did: str, subject: UUID) -> Failed:
    why = f"{label.partition(':')[2]}, who {did}, may not decide here any more"
    return Failed(RefusalKind.AUTHORITY, why, subject, holds=False)


def _binding(session: Session, kept: Kept, call: Any, wait: Any) -> Failed | None:
    """Guard 9: the run is where the approval was bound, and tool and policy are those that were shown."""
    bound = (wait.checkpoint_revision, wait.checkpoint_digest)
    if wait.args_digest != call.args_digest:
        return _asked_afresh(RefusalKind.SUPERSEDED, wait, "other arguments were approved than the call has")
    if bound != (session.position.revision, session.position.digest):
        return _asked_afresh(RefusalKind.SUPERSEDED, wait, "the run is no longer where the approval was bound")
    tool = tool_of(session.spec, call.tool)
    if tool is None or definition_hash(tool) != wait.tool_hash:
        return _asked_afresh(RefusalKind.SUPERSEDED, wait, "the tool was changed after it was approved")
    if wait.policy_version != version_name(kept.policy_number(wait.tenant_id)):
        return _asked_afresh(RefusalKind.SUPERSEDED, wait, "the policy was changed after it was approved")
    return None


def _principal(session: Session) -> Failed | None:
    """Guard 10, first half: the person that the run acts for is still a member who may start runs."""
    run = session.run
    return _acts(run, still_may(tenant_id=run.tenant_id, label=run.created_by, permission=Permission.START))


def _acts(run: Any, may: bool) -> Failed | None:
    if may:
        return None
    name = run.created_by.partition(":")[2]
    return Failed(RefusalKind.AUTHORITY, f"the run acts for {name}, who may not start runs here any more")


def _deciders(kept: Kept, wait: Any) -> Failed | None:
    """Guard 10, second half: the approval is used in time, and all who gave it may still decide."""
    if wait.id in kept.expired:
        return _asked_afresh(RefusalKind.AUTHORITY, wait, "the approval was not used in time")
    return _approvers(wait)


def _withdrawn(session: Session) -> Failed | None:
    """Guard 11: everything that the contract carries still holds at its source (C-029)."""
    return _holds(withdrawn_commitment(session.run.id))


def _holds(gone: Any) -> Failed | None:
    if gone is None:
        return None
    kind = str(gone.kind).lower()
    why = f"the {kind} “{bounded(gone.statement, 200)}” was withdrawn by {str(gone.withdrawn_by).partition(':')[2]}"
    return Failed(RefusalKind.WITHDRAWN, f"{why}: {bounded(gone.withdrawal_reason, 150)}", gone.id)


def _stale(session: Session, call: Any) -> Failed | None:
    """Guard 12: no observation that the call rests on has passed its half-life (C-027, T20)."""
    lapsed = lapsed_under(session, call)
    return Failed(RefusalKind.STALE_FACTS, LAPSED, lapsed[0], holds=False) if lapsed else None


def _asked_afresh(kind: RefusalKind, wait: Any, why: str) -> Failed:
    return Failed(kind, why, wait.id, holds=False)


def hold(session: Session, failed: Failed) -> bool:
    """Hold the run: live waits void, wakeups refused, the refusal recorded. Always returns False."""
    refuse_resume(session.holding, failed.kind, failed.why, failed.subject, void_waits=True)
    session.trace("guard_failed", failed.subject, kind=str(failed.kind))
    return False


def ask_afresh(session: Session, failed: Failed) -> None:
    """Void an approval whose check failed, and its decided siblings (ruling 31): waits INVALIDATED, wakeups REFUSED, the
    refusal recorded. All of them are asked afresh.
    """
    with held_run(session.holding) as (run, _):
        decided_waits_invalidate(run_id=run.id, why=failed.why)
    record(session, failed)


def record(session: Session, failed: Failed) -> None:
    """Record that a guard has refused a call, after the refused transaction has ended (ruling 14)."""
    refusal_record(
        tenant_id=session.run.tenant_id,
        run_id=session.run.id,
        kind=failed.kind,
        fence=session.holding.fence,
        subject_id=failed.subject,
        detail={"why": failed.why},
    )


def note_drift(session: Session) -> None:
    """Guard 13: where the agent declares other constraints or assumptions than the run carries, say so once. What is carried
    wins; only an act of a person changes it (C-004, C-005).
    """
    terms = session.snapshot.contract.terms
    drift = drift_of([(term.source_kind, term.statement, term.denies) for term in terms], session.spec)
    if not drift or refused_before(session.run, RefusalKind.CONFIG_DRIFT, drift.digest):
        return
    refusal_record(
        tenant_id=session.run.tenant_id,
        run_id=session.run.id,
        kind=RefusalKind.CONFIG_DRIFT,
        fence=session.holding.fence,
        evidence_digest=drift.digest,
        detail={"carried": len(drift.carried), "declared": len(drift.declared)},
    )


def goes_on(session: Session) -> bool:
    """True if guards 10 and 11 hold; else the run was held."""
    return passed(session, ground(session))


def passed(session: Session, failed: Failed | None) -> bool:
    """True if they have been asked and hold; else the run was held."""
    if failed is not None:
        return hold(session, failed)
    session.trace("guards_passed", guards="10 11")
    return True
