"""Raise the cap of a budget."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import transaction

from accounts.errors import Invalid, Refused
from accounts.selectors import last_audited
from accounts.states import Actor, Permission
from runs.errors import CapMoved, CapNotHigher, NoCap
from runs.leases import lease_lock_any
from runs.live import hint_changed
from runs.selectors import access_run
from runs.services import budget_cap_raise, budget_lock, run_lock, run_move
from runs.states import ENDED_RUN, BudgetUnit, HoldReason, RunStatus, WakeupCause
from runs.wakeups import hint_run
from runtime.services.guards import act_refusal, audit, audited, run_ended, wake

CAP_LIMIT = 2**53 - 1


@dataclass(frozen=True)
class CapRaised:
    """The cap is higher now. `status` is what the run is after it."""

    run_id: UUID
    unit: str
    cap: int
    status: str


def budget_raise(
    *, actor: Actor, run_id: UUID, unit: str, cap: int, reason: str, seen: int | None = None
) -> CapRaised | Refused:
    """Raise the cap of one unit of a live run (ruling 17). Needs the permission to raise caps. Raises NotFound.

    `cap` is the new cap in the unit: calls, tokens, millionths of a dollar, or milliseconds. A run that is held for its budget
    is queued; whatever its status, a wakeup is stored under its lock, so that a worker that parks it meanwhile finds it
    (ruling 27). `seen`, where it is given, is the cap that the person was reading: one that was raised since then is not written over.
    """
    access_run(actor=actor, id=run_id)
    with transaction.atomic():
        outcome = _raise(actor, run_id, Wanted(unit, cap, seen), reason.strip())
    return audited(outcome, actor, "run.budget", "run", run_id)


@dataclass(frozen=True)
class Wanted:
    """A cap that somebody wants for a unit, and the one that they were reading."""

    unit: str
    cap: int
    seen: int | None


def _raise(actor: Actor, run_id: UUID, wanted: Wanted, reason: str) -> CapRaised | Refused:
    unit, cap = wanted.unit, wanted.cap
    refused = act_refusal(actor, Permission.BUDGET, reason) or _unusable(unit, cap)
    if refused is not None:
        return refused
    lease_lock_any(run_id)
    run = run_lock(run_id)
    if run.status in ENDED_RUN:
        return run_ended(run)
    budget = budget_lock(run_id=run_id, unit=unit)
    if budget is None or budget.cap is None:
        return NoCap({"unit": unit})
    before = budget.cap
    refused = _not_over(run, before, wanted)
    if refused is not None:
        return refused
    budget_cap_raise(budget, cap=cap)
    wake(run, WakeupCause.RESUME, f"budget:{run.id}:{unit}:{cap}")
    if run.status == RunStatus.HELD and run.hold_reason == HoldReason.BUDGET:
        run_move(run, RunStatus.QUEUED, cause="CAP_RAISED", actor=actor.label, detail=f"{unit}: {before} to {cap}")
        hint_run(run_id=run.id)
    hint_changed(tenant_id=run.tenant_id, run_id=run.id)
    audit(actor, "run.budget", "run", run_id, {"unit": unit, "from": before, "to": cap}, reason=reason)
    return CapRaised(run.id, unit, cap, str(run.status))


def _unusable(unit: str, cap: int) -> Invalid | None:
    if unit not in set(BudgetUnit):
        return Invalid(
            {"field": "unit", "reason": f"there is no unit {unit[:40]!r}; they are {', '.join(BudgetUnit)}."}
        )
    if not 0 < cap <= CAP_LIMIT:
        return Invalid({"field": "cap", "reason": f"give a whole number from 1 to {CAP_LIMIT}."})
    return None


def _not_over(run: Any, before: int, wanted: Wanted) -> Refused | None:
    """Why a cap can't take the place of the one that stands; None when it can."""
    if wanted.seen is not None and wanted.seen != before:
        return _moved(run, before, wanted.unit, wanted.seen)
    return None if wanted.cap > before else CapNotHigher({"unit": wanted.unit, "cap": before, "wanted": wanted.cap})


def _moved(run: Any, before: int, unit: str, seen: int) -> CapMoved | Invalid:
    """Who raised it to what it is; without one, nobody can have seen another cap."""
    last = last_audited(
        tenant_id=run.tenant_id, action="run.budget", object_type="run", object_id=run.id, unit=unit, to=before
    )
    if last is None:
        return Invalid({"field": "seen", "reason": f"{seen} is no cap that this run had; it is {before}."})
    by, at = last.actor.partition(":")[2], f"{last.at:%Y-%m-%d %H:%M:%S} UTC"
    return CapMoved({"unit": unit, "cap": before, "by": by, "at": at, "seen": seen})
