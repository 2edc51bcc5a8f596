"""The sweep: look at everything that may have been forgotten, each run by itself, so that one can't keep it from others.

It is run again and again and may be killed anywhere: each unit is one transaction or one hint, and all may be repeated.
"""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from uuid import UUID

from django.db import connection

from accounts.states import Actor
from approvals.selectors import (
    runs_asking_about,
    runs_under_another_policy,
    tools_asked_about,
    waits_past_deadline,
    waits_to_escalate,
    waits_to_remind,
)
from approvals.services import wait_escalate, wait_expire, wait_remind
from receipts.selectors import runs_held_by_lineage
from runs.canonical import bounded
from runs.faults import reach
from runs.selectors import (
    bulk_items_pending,
    children_of_ended,
    children_to_pause,
    children_to_resume,
    children_to_stop,
    parents_to_settle,
    pauses_to_take_back,
    runs_to_look_at,
    runs_to_reach,
    runs_with_unheard_wakeups,
    standing_controls,
)
from runs.services import sweep_failures_record
from runs.wakeups import hint_run
from runtime.cascade import child_end, child_pause, child_resume, child_stop
from runtime.drain import draining
from runtime.registry import agents, tool_of
from runtime.requeue import requeue_woken, settle_children, supersede_waits, wake_descendant
from runtime.scopes import AT_ONCE, scope_reach, scope_release
from runtime.services import bulk_item_do
from runtime.tools.registry import definition_hash

logger = logging.getLogger(__name__)

BULK_AT_ONCE = 200  # runs of acts on many, a sweep


@dataclass(frozen=True)
class Unit:
    """One thing to do for one run."""

    run_id: UUID
    act: Callable[[], object]


def sweep_all() -> None:
    """Send again every hint that may have been lost: passed deadlines, pending wakeups, queued runs, expired leases.

    What fails for one run is logged, stored for its page, and left for the next sweep. A step whose units could not even
    be listed is raised once the others are done. A worker that was asked to stop leaves the rest, and what is stored of
    failures, to the next sweep. Called by the Celery task.
    """
    failures: dict[tuple[UUID, str], str] = {}
    broken: list[Exception] = []
    for step, units in STEPS.items():
        try:
            found = list(units())
        except Exception as error:
            logger.exception("sweep: the units of %s can't be listed", step)
            connection.close_if_unusable_or_obsolete()
            broken.append(error)
            continue
        for unit in found:
            if draining():
                return
            reach("during_sweep", step)
            failed = _try(step, unit)
            if failed:
                failures[unit.run_id, step] = failed
    sweep_failures_record(failures)
    if broken:
        raise broken[0]


def _try(step: str, unit: Unit) -> str:
    """Do one unit. Returns what went wrong, or nothing."""
    try:
        unit.act()
    except Exception as error:
        logger.exception("sweep: %s of run %s failed", step, unit.run_id)
        connection.close_if_unusable_or_obsolete()
        return bounded(f"{type(error).__name__}: {error}", 500)
    return ""


def _expiries() -> Iterable[Unit]:
    for wait_id, run_id in waits_past_deadline():
        yield Unit(run_id, partial(wait_expire, wait_id=wait_id))


def _policies() -> Iterable[Unit]:
    for run_id in runs_under_another_policy():
        why = "another version of the policy came into force"
        yield Unit(run_id, partial(supersede_waits, run_id, why=why, cause="POLICY_CHANGED"))


def _tools() -> Iterable[Unit]:
    """Runs that ask people about a tool which is another one by now. An agent that is not installed here is not judged."""
    for agent_key, key, asked_hash in tools_asked_about():
        agent = agents().get(agent_key)
        tool = tool_of(agent.spec, key) if agent else None
        if agent is None or (tool is not None and definition_hash(tool) == asked_hash):
            continue
        why = f"the tool {key} was changed after this was asked"
        for run_id in runs_asking_about(agent_key, key, asked_hash):
            yield Unit(run_id, partial(supersede_waits, run_id, why=why, cause="TOOL_CHANGED"))


def _escalations() -> Iterable[Unit]:
    for wait_id, run_id in waits_to_remind():
        yield Unit(run_id, partial(wait_remind, wait_id=wait_id))
    for wait_id, run_id in waits_to_escalate():
        yield Unit(run_id, partial(wait_escalate, wait_id=wait_id))


def _wakeups() -> Iterable[Unit]:
    for run_id in runs_with_unheard_wakeups():
        yield Unit(run_id, partial(requeue_woken, run_id))


def _hints() -> Iterable[Unit]:
    for run_id in runs_to_look_at():
        yield Unit(run_id, partial(hint_run, run_id=run_id))


def _descendants() -> Iterable[Unit]:
    for run_id, call_id in runs_held_by_lineage():
        yield Unit(run_id, partial(wake_descendant, run_id, call_id))


def _cascades() -> Iterable[Unit]:
    for child_id, stop_id in children_to_stop():
        yield Unit(child_id, partial(child_stop, child_id=child_id, parent_stop_id=stop_id))
    for child_id, parent_id in children_of_ended():
        yield Unit(child_id, partial(child_end, child_id=child_id, parent_id=parent_id))
    for child_id, pause_id in children_to_pause():
        yield Unit(child_id, partial(child_pause, child_id=child_id, parent_pause_id=pause_id))
    for child_id, tenant_id, pause_id in children_to_resume():
        actor = Actor(tenant_id, "sweep", kind="system", door="cascade")
        take_back = partial(child_resume, actor=actor, parent_pause_id=pause_id, reason="its parent's pause is over")
        yield Unit(child_id, partial(take_back, child_id=child_id))


def _scopes() -> Iterable[Unit]:
    for control in standing_controls():
        for run_id in runs_to_reach(control, AT_ONCE):
            yield Unit(run_id, partial(scope_reach, control_id=control.id, run_id=run_id))
    for run_id, control_id in pauses_to_take_back():
        yield Unit(run_id, partial(scope_release, control_id=control_id, run_id=run_id))


def _parents() -> Iterable[Unit]:
    for run_id in parents_to_settle():
        yield Unit(run_id, partial(settle_children, run_id))


def _bulks() -> Iterable[Unit]:
    """What is left of acts on many runs, some of it each time."""
    for item_id, run_id in bulk_items_pending(limit=BULK_AT_ONCE):
        yield Unit(run_id, partial(bulk_item_do, item_id))


STEPS: dict[str, Callable[[], Iterable[Unit]]] = {
    "expire": _expiries,
    "escalate": _escalations,
    "policy": _policies,
    "tools": _tools,
    "lineage": _descendants,
    "scopes": _scopes,
    "bulks": _bulks,
    "cascade": _cascades,
    "parents": _parents,
    "wake": _wakeups,
    "hint": _hints,
}
