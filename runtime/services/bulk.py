"""One act on many runs: accepted as a set that was shown, carried out run by run, with a result for each."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db import transaction

from accounts.errors import NotFound, Refused
from accounts.selectors import actor_in
from accounts.states import Actor, Permission
from runs.errors import BulkEmpty, BulkMoved, BulkTooMany
from runs.selectors import BulkOrder, bulk_digest, bulk_items_pending, bulk_order
from runs.services import bulk_item_close, bulk_item_take, bulk_store
from runs.states import BULK_RUNS, BulkAct, BulkStatus
from runtime.services.guards import act_refusal, audited, text_refusal
from runtime.services.pause import run_pause
from runtime.services.resume import PauseShown, run_resume
from runtime.services.stop import run_stop

AT_ONCE = 0.7  # seconds that the request itself gives to it; the sweep does the rest
QUERY_LIMIT = 4000
CUT_OFF = "A first try was cut off, and may have done it. Asked for once more:"
NEEDS = {BulkAct.STOP: Permission.STOP, BulkAct.PAUSE: Permission.PAUSE, BulkAct.RESUME: Permission.RESUME}


@dataclass(frozen=True)
class BulkAccepted:
    """The act is stored and under way."""

    bulk_id: UUID


def bulk_accept(
    *, actor: Actor, act: BulkAct, reason: str, query: str, run_ids: Sequence[UUID], shown: str, count: int
) -> BulkAccepted | Refused:
    """Accept an act on the runs that a filter finds now. `shown` is the digest of the set that the person was shown, `count` its size: where
    it is another set by now, nothing is done. Needs the permission of the act; each run is acted on in the person's name
    when its turn comes, by what they may do then. The first ones are done before this returns.
    """
    outcome = _accept(actor, act, reason.strip(), query, run_ids, shown, count)
    if isinstance(outcome, BulkAccepted):
        _begin(outcome.bulk_id)
    return audited(outcome, actor, "bulk.accept", "tenant", actor.tenant_id)


def _accept(
    actor: Actor, act: BulkAct, reason: str, query: str, run_ids: Sequence[UUID], shown: str, count: int
) -> BulkAccepted | Refused:
    refused = act_refusal(actor, NEEDS[act], reason) or text_refusal("query", query, QUERY_LIMIT)
    if refused is not None:
        return refused
    if len(run_ids) > BULK_RUNS:
        return BulkTooMany({"limit": BULK_RUNS})
    if bulk_digest(act, run_ids) != shown:
        return BulkMoved({"shown": count, "now": len(run_ids)})
    if not run_ids:
        return BulkEmpty()
    with transaction.atomic():
        bulk = bulk_store(actor=actor, act=act, reason=reason, query=query, digest=shown, run_ids=run_ids)
    return BulkAccepted(bulk.id)


def _begin(bulk_id: UUID) -> None:
    until = time.monotonic() + AT_ONCE
    for item_id, _ in bulk_items_pending(limit=BULK_RUNS, bulk_id=bulk_id):
        if time.monotonic() > until:
            return
        bulk_item_do(item_id)


def bulk_item_do(item_id: int) -> None:
    """Act on one run of a bulk and store what came of it. Called by the accepting request and by the sweep.

    Who dies between the act and its result leaves the item to be taken again: the act is asked for once more, and where
    it is refused then, what is stored says that the first try may have done it.
    """
    taken = bulk_item_take(item_id)
    if taken is None:
        return
    outcome = _act(bulk_order(item_id))
    if isinstance(outcome, Refused):
        said = f"{CUT_OFF} {outcome.sentence}" if taken.again else outcome.sentence
        bulk_item_close(item_id, status=BulkStatus.REFUSED, code=outcome.code, said=said)
    else:
        bulk_item_close(item_id, status=BulkStatus.DONE)


class NobodyAnyMore(Refused):
    """Nothing was done. Who asked for it is no member here any more."""

    code = "NO_MEMBER"


def _act(order: BulkOrder) -> object:
    name = order.requested_by.removeprefix("person:")
    try:
        actor = actor_in(tenant_id=order.tenant_id, username=name, door=order.door)
    except NotFound:
        return NobodyAnyMore()
    acts: dict[BulkAct, Callable[..., object]] = {
        BulkAct.STOP: run_stop,
        BulkAct.PAUSE: run_pause,
        BulkAct.RESUME: run_resume,
    }
    shown = {"shown": PauseShown(by=order.accepted_at)} if order.act == BulkAct.RESUME else {}
    try:
        return acts[BulkAct(order.act)](actor=actor, run_id=order.run_id, reason=order.reason, **shown)
    except NotFound:
        return NobodyAnyMore()
