"""Tag a run, or take tags from it."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db import transaction

from accounts.errors import Invalid, NotAllowed, Refused
from accounts.states import Actor, Permission
from runs.errors import TooManyTags
from runs.live import hint_changed
from runs.selectors import access_run, tags_of
from runs.services import run_lock, tags_change
from runs.states import RUN_TAGS, tag_fault
from runtime.services.guards import audit, audited


@dataclass(frozen=True)
class Tagged:
    """The tags of a run afterwards, by their letters, and whether any of them changed."""

    run_id: UUID
    tags: Sequence[str]
    changed: bool


def tags_refusal(tags: Sequence[str]) -> Refused | None:
    """Why these can't be the tags of a run that is started; None when they can."""
    count = len(set(tags))
    return _form_refusal(tags, "tags") or (
        TooManyTags({"limit": RUN_TAGS, "count": count}) if count > RUN_TAGS else None
    )


def _form_refusal(tags: Sequence[str], field: str) -> Invalid | None:
    faults = (tag_fault(tag) for tag in tags)
    return next((Invalid({"field": field, "reason": fault}) for fault in faults if fault), None)


def run_tag(*, actor: Actor, run_id: UUID, add: Sequence[str] = (), remove: Sequence[str] = ()) -> Tagged | Refused:
    """Give a run tags, and take others from it, whatever its status: they say how people find it, and change nothing that it does.

    What comes and goes is named, so that two people who tag the same run lose nothing of each other. Each act that changes a tag is
    audited; one that changes nothing writes nothing. Needs the permission to revise. Raises NotFound.
    """
    access_run(actor=actor, id=run_id)
    with transaction.atomic():
        outcome = _tag(actor, run_id, add, remove)
    return audited(outcome, actor, "run.tag", "run", run_id)


def _tag(actor: Actor, run_id: UUID, add: Sequence[str], remove: Sequence[str]) -> Tagged | Refused:
    refused = _refusal(actor, add, remove)
    if refused is not None:
        return refused
    run = run_lock(run_id)
    outcome = tags_change(run=run, add=add, remove=remove)
    if isinstance(outcome, Refused):
        return outcome
    added, removed = outcome
    if added or removed:
        audit(actor, "run.tag", "run", run_id, {"added": added, "removed": removed})
        hint_changed(tenant_id=run.tenant_id, run_id=run_id)
    return Tagged(run_id, tags_of(run_id), bool(added or removed))


def _refusal(actor: Actor, add: Sequence[str], remove: Sequence[str]) -> Refused | None:
    if not actor.may(Permission.REVISE):
        return NotAllowed({"permission": str(Permission.REVISE), "actor": actor.name})
    both = sorted(set(add) & set(remove))
    if both:
        return Invalid({"field": "remove", "reason": f"{both[0]} is to come and to go; name it once."})
    return _form_refusal(add, "add") or _form_refusal(remove, "remove")
