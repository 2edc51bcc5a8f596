"""Reads of waits. `access_wait` is the only way to a wait that a user named."""

from collections.abc import Sequence
from uuid import UUID

from django.db.models import QuerySet

from accounts.errors import NotFound
from accounts.statements import fetch, stored_rows
from accounts.states import Actor, Permission
from approvals.models import Decision, Wait
from approvals.statements import PAST_DEADLINE
from approvals.states import LIVE_WAIT, WaitStatus


def waits_visible(actor: Actor) -> QuerySet[Wait]:
    """The waits of the actor's tenant; none without the permission to read."""
    if not actor.may(Permission.READ):
        return Wait.objects.none()
    return Wait.objects.filter(tenant_id=actor.tenant_id)


def access_wait(*, actor: Actor, id: UUID) -> Wait:
    """The wait with this id in the actor's tenant. Raises NotFound."""
    wait = waits_visible(actor).select_related("run", "tool_call").filter(id=id).first()
    if wait is None:
        raise NotFound
    return wait


def decision_of(wait: Wait) -> Decision | None:
    """The decision of a wait, or None."""
    return next(iter(stored_rows(Decision, "wait_id = %(wait)s", {"wait": wait.id})), None)


def newest_wait(*, call_id: UUID) -> Wait | None:
    """The wait that was opened last for a call."""
    return Wait.objects.filter(tool_call_id=call_id).order_by("-opened_at").first()


def newest_waits(*, call_ids: Sequence[UUID]) -> dict[UUID, Wait]:
    """By call, the wait that was opened last for it."""
    rows = stored_rows(Wait, "tool_call_id = ANY(%(calls)s) ORDER BY opened_at", {"calls": list(call_ids)})
    return {row.tool_call_id: row for row in rows}


def bound_revisions(run_id: UUID) -> frozenset[int]:
    """The revisions that live waits of a run are bound to."""
    rows = Wait.objects.filter(run_id=run_id, status__in=LIVE_WAIT)
    return frozenset(rows.values_list("checkpoint_revision", flat=True))


def wait_is_open(*, run_id: UUID) -> bool:
    """True while somebody is still asked about a call of the run."""
    return Wait.objects.filter(run_id=run_id, status=WaitStatus.OPEN).exists()


def approval_used(*, call_id: UUID) -> Wait | None:
    """The wait on whose approval a call was sent, or None where nobody was asked."""
    return Wait.objects.filter(tool_call_id=call_id, status=WaitStatus.CONSUMED, valid_until__isnull=False).first()


def approval_expired(wait: Wait) -> bool:
    """True if the time in which an approval may be used has passed."""
    expired = "SELECT 1 FROM approvals_wait WHERE id = %(wait)s AND valid_until <= clock_timestamp()"
    return bool(fetch(expired, {"wait": wait.id}))


def waits_past_deadline(limit: int = 200) -> list[tuple[UUID, UUID]]:
    """(wait, run) of open waits whose deadline has passed, by the database's clock."""
    return [(wait_id, run_id) for wait_id, run_id in fetch(PAST_DEADLINE, {"limit": limit})]
