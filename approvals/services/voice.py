"""Whose voice a vote is: a person decides with their own authority, or with that of somebody who has them decide meanwhile."""

from collections.abc import Collection
from dataclasses import dataclass
from uuid import UUID

from accounts.errors import NotAllowed, Refused
from accounts.selectors import authority_of
from accounts.states import Actor, Permission, permissions_of
from approvals.errors import NotAsked, SelfApproval, SelfWritten
from approvals.models import Wait
from approvals.selectors import givers_to, votes_of
from approvals.states import DecisionVerdict
from runs.models import Run


@dataclass(frozen=True)
class Holder:
    """Somebody whose authority may be used, as their membership says it now."""

    label: str
    roles: frozenset[str]
    groups: frozenset[str]

    def is_asked(self, wait: Wait) -> bool:
        """True if the wait asks for somebody like them; an escalated one asks those of `escalate_to` as well."""
        if Permission.DECIDE not in permissions_of(self.roles):
            return False
        named = wait.required_role in self.roles and (not wait.required_group or wait.required_group in self.groups)
        return named or (wait.escalated_at is not None and self._is_in(wait.escalate_to))

    def _is_in(self, target: str) -> bool:
        kind, _, name = target.partition(":")
        return name in (self.groups if kind == "group" else self.roles)


def voice_of(
    actor: Actor, run: Run, wait: Wait, *, self_approval: bool, author: str | None, spoken: Collection[str] = ()
) -> str | Refused:
    """The label of the person whose authority the actor decides this wait with, or why there is none.

    Their own comes first. Else that of the oldest delegation to them which fits and whose voice is not among those that
    have `spoken`. Whoever started the run, or wrote the call, is refused with any voice where tenant or wait say so, and so is
    anybody with the voice of such a person.
    """
    own = Holder(actor.label, actor.roles, actor.groups)
    holders = [own] if own.is_asked(wait) else _givers(actor, wait)
    if not holders:
        return _not_asked(actor, wait)
    unspoken = [one.label for one in holders if one.label not in spoken] or [holders[0].label]
    refusals = []
    for voice in unspoken:
        refused = _by_themselves(actor, voice, run, wait, self_approval=self_approval, author=author)
        if refused is None:
            return voice
        refusals.append(refused)
    return refusals[0]


def lapsed_voice(wait: Wait) -> str | None:
    """The label of somebody whose approval of this wait does not hold any more: they are no active member now, or whoever
    it rests on may not decide such a wait any more. None while all of them hold, which the transaction then keeps so.
    """
    votes = [vote for vote in votes_of(wait.id) if vote.verdict == DecisionVerdict.APPROVE]
    held = authority_of(
        tenant_id=wait.tenant_id, labels={vote.actor for vote in votes} | {vote.voice for vote in votes}
    )
    for vote in votes:
        holds = vote.actor in held and vote.voice in held and Holder(vote.voice, *held[vote.voice]).is_asked(wait)
        if not holds:
            return vote.actor
    return None


def is_backed(wait: Wait) -> bool:
    """True while as many votes as the wait asks for stand, each an approval of exactly what it is bound to. For the commit
    that sends the call: nothing that is written beside the votes stands for them.
    """
    bound = (wait.checkpoint_revision, wait.checkpoint_digest, wait.args_digest)
    votes = [vote for vote in votes_of(wait.id) if vote.verdict == DecisionVerdict.APPROVE]
    return sum((vote.seen_revision, vote.seen_digest, vote.seen_args_digest) == bound for vote in votes) >= wait.quorum


def asks(*, wait_id: UUID, actor: Actor) -> bool:
    """Whether a wait asks for this person, by their own authority or by one that was given to them. For what they are told:
    whether they may decide is found out when they do.
    """
    wait = Wait.objects.get(id=wait_id)
    return Holder(actor.label, actor.roles, actor.groups).is_asked(wait) or bool(_givers(actor, wait))


def asked(wait: Wait) -> str:
    """Whom a wait asks, in words."""
    one = f"a person with the role {wait.required_role}"
    who = f"{one} in the group {wait.required_group}" if wait.required_group else one
    if wait.escalated_at is None:
        return who
    kind, _, name = wait.escalate_to.partition(":")
    return f"{who}, or one {'in the group' if kind == 'group' else 'with the role'} {name}"


def _givers(actor: Actor, wait: Wait) -> list[Holder]:
    found = [Holder(*row) for row in givers_to(tenant_id=actor.tenant_id, taker=actor.label)]
    return [one for one in found if one.is_asked(wait)]


def _not_asked(actor: Actor, wait: Wait) -> Refused:
    if actor.may(Permission.DECIDE):
        return NotAsked({"asked": asked(wait), "actor": actor.name})
    return NotAllowed({"permission": "decide", "actor": actor.name})


def _by_themselves(
    actor: Actor, voice: str, run: Run, wait: Wait, *, self_approval: bool, author: str | None
) -> Refused | None:
    """Nobody decides about what they asked for where that is not let, whomever they stand in for."""
    both = {actor.label, voice}
    if run.created_by in both and not (self_approval and wait.starter_may_decide):
        return SelfApproval({"actor": run.created_by.partition(":")[2]})
    if author in both and not (self_approval and wait.starter_may_decide):
        return SelfWritten({"actor": str(author).partition(":")[2]})
    return None
