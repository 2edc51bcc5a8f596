"""When a person was first shown a wait: what a minimum time to look is counted from."""

from uuid import UUID

from accounts.keys import new_id
from accounts.statements import fetch
from accounts.states import Actor
from approvals.statements import LOOK


def wait_looked(*, actor: Actor, wait_id: UUID) -> None:
    """Store that this wait, which is bound to one revision and never to another, is shown whole to this person now, on this
    door. Only the first time counts. Called by the doors once they have access to it; it decides nothing.
    """
    fetch(LOOK, {"id": new_id(), "wait": wait_id, "actor": actor.label, "door": actor.door})
