"""What a decision is held against, under the locks of its run and its wait: is it still asked, on exactly this, by this person?"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil
from typing import Any, Protocol
from uuid import UUID

from django.conf import settings

from accounts.codec import BodyChanged
from accounts.errors import Invalid, Refused
from accounts.statements import fetch, gather, stored
from accounts.states import Actor
from approvals.errors import (
    AlreadyAnswered,
    AlreadyDecided,
    AlreadyVoted,
    ArgsChanged,
    AskerStopped,
    CheckpointChanged,
    CheckpointDiffers,
    Dwell,
    Expired,
    GroundWithdrawn,
    IncompleteView,
    NotACall,
    NotAQuestion,
    PolicyChanged,
    RunStopped,
    StaleRevision,
    StepUp,
    Superseded,
    TooLate,
    ToolChanged,
    YouAnswered,
    YouDecided,
)
from approvals.models import Decision, Vote, Wait
from approvals.policies import version_name
from approvals.selectors import decision_of, last_activation, newest_wait, policy_number_kept
from approvals.services.voice import voice_of
from approvals.statements import LOOKED, WAIT_FOUND, WAIT_LOCK
from approvals.states import OF_A_QUESTION, DecisionVerdict, WaitKind, WaitStatus
from checkpoints.envelope import unfit_text
from checkpoints.errors import Unreadable
from checkpoints.models import Checkpoint, Commitment
from checkpoints.selectors import commitments_in, verified_body, withdrawn_of
from receipts.models import ToolCall
from receipts.selectors import call_arguments
from runs.canonical import bounded, digest
from runs.models import Run

REASON_LIMIT = 4000
SAID = {
    DecisionVerdict.APPROVE: "approved",
    DecisionVerdict.REJECT: "rejected",
    DecisionVerdict.ANSWER: "answered",
    DecisionVerdict.DECLINE: "declined to answer",
}


@dataclass(frozen=True)
class Seen:
    """What the person was shown when they decided. `not_shown`: the paths of arguments that their page could not show whole."""

    revision: int
    digest: str
    args_digest: str
    not_shown: tuple[str, ...] = ()


class Tools(Protocol):
    """What a decision asks about the tool of a call, which only the runtime knows; asked inside the decision's transaction."""

    def definition(self, run: Run, tool: str) -> str | None:
        """The hash of its definition as the run's agent has it now; "" where it has no such tool, None where the agent is not here."""
        ...

    def unseen(self, actor: Actor, locked: "Locked") -> Sequence[str]:
        """The paths of arguments that are marked as sensitive and that this person was never shown."""
        ...


@dataclass(frozen=True)
class Locked:
    """A wait with what a decision on it depends on, under the locks of its run and of itself. `votes` are those that stand,
    `policy` is the number of the version in force, `checkpoint` the revision that the wait is bound to, `withdrawn` a commitment of the
    run that holds no more.
    """

    run: Run
    wait: Wait
    self_approval: bool
    now: datetime
    votes: list[Vote]
    policy: int
    checkpoint: Checkpoint | None
    withdrawn: Commitment | None

    @property
    def approvals(self) -> int:
        """How many approve so far."""
        return sum(vote.verdict == DecisionVerdict.APPROVE for vote in self.votes)


def wait_locked(run: Run, wait_id: Any) -> Locked:
    """Lock a wait, with its run locked (ruling 37), and read what a decision on it depends on."""
    found = gather(WAIT_LOCK, {"run": run.id, "tenant": run.tenant_id, "wait": wait_id})
    (wait,) = stored(Wait, found["locked_wait"])
    (wait.tool_call,) = stored(ToolCall, found["its_call"])
    checkpoint = next(iter(stored(Checkpoint, found["its_revision"])), None)
    ((self_approval, now),) = found["its_tenant"]
    number = found["governing"][0][0] if found["governing"] else policy_number_kept(run.tenant_id)
    votes = stored(Vote, found["standing_votes"])
    withdrawn = withdrawn_of(commitments_in(found["committed"]))
    return Locked(run, wait, self_approval, now, votes, number, checkpoint, withdrawn)


def wait_found(wait: Wait) -> Locked:
    """The same without a lock, for a page that says beforehand what would be refused. The service decides again."""
    place = {"run": wait.run_id, "revision": wait.checkpoint_revision, "wait": wait.id, "tenant": wait.tenant_id}
    found = gather(WAIT_FOUND, place)
    ((self_approval, now, policy),) = found["its_tenant"]
    checkpoint = next(iter(stored(Checkpoint, found["its_revision"])), None)
    withdrawn = withdrawn_of(commitments_in(found["committed"]))
    votes = stored(Vote, found["standing_votes"])
    return Locked(wait.run, wait, self_approval, now, votes, policy, checkpoint, withdrawn)


def voice_to_decide(actor: Actor, locked: Locked, verdict: DecisionVerdict, seen: Seen, reason: str) -> str | Refused:
    """The label of the person with whose authority the actor may decide this locked wait so, on what they saw; or why they
    can't. What an approval needs beyond that, to be shown whole, time to look and the password, a rejection never does; an
    answer needs no reason.
    """
    refused: Refused | None
    voice = voice_for(actor, locked)
    if isinstance(voice, Refused):
        return voice
    refused = (
        _of_another_kind(locked.wait, verdict)
        or (reason_refusal(reason) if verdict != DecisionVerdict.ANSWER else None)
        or still_decidable(actor, locked)
        or _already_voted(actor, voice, locked)
        or _seen_is_bound(locked, seen)
        or _ground_holds(locked.withdrawn)
        or _policy_holds(locked)
    )
    if refused is None and verdict == DecisionVerdict.APPROVE:
        refused = unseen_refusal(seen.not_shown) or _looked_long_enough(actor, locked.wait) or _confirmed(actor, locked)
    return refused or voice


def voice_for(actor: Actor, locked: Locked) -> str | Refused:
    """The label of the person with whose authority the actor may decide this wait at all, or why there is none."""
    spoken = [vote.voice for vote in locked.votes]
    author = locked.wait.tool_call.author
    # An answer allows nothing, so whoever started the run may give it, unless the wait itself says otherwise.
    own = locked.self_approval or locked.wait.kind == WaitKind.QUESTION
    return voice_of(actor, locked.run, locked.wait, self_approval=own, author=author, spoken=spoken)


def _of_another_kind(wait: Wait, verdict: DecisionVerdict) -> Refused | None:
    """A call is approved or rejected, a question is answered or declined."""
    if (wait.kind == WaitKind.QUESTION) == (verdict in OF_A_QUESTION):
        return None
    return NotACall() if wait.kind == WaitKind.QUESTION else NotAQuestion()


def may_decide_call(*, actor: Actor, call_id: UUID) -> bool:
    """Whether a person may decide the newest wait of a call, or could have while it was open."""
    wait = newest_wait(call_id=call_id)
    return wait is not None and isinstance(voice_for(actor, wait_found(wait)), str)


def reason_refusal(reason: str) -> Invalid | None:
    """Why these words can't be stored as somebody's reason. They are stored to be read, so they hold no secret."""
    why = unfit_text(reason, REASON_LIMIT) if reason else "a decision needs a reason in words."
    return Invalid({"field": "reason", "reason": why}) if why else None


def still_decidable(actor: Actor, locked: Locked) -> Refused | None:
    """Why nobody can decide a wait any more: who did, or what closed it; None while somebody can."""
    wait = locked.wait
    asks = wait.kind == WaitKind.QUESTION
    late = (TooLate if asks else Expired)({"deadline": clock(wait.deadline)})
    if wait.status == WaitStatus.OPEN:
        return late if wait.deadline <= locked.now else None
    decision = decision_of(wait)
    if decision is not None:
        return _decided(actor, decision)
    closed = clock(wait.closed_at) if wait.closed_at else ""
    if wait.status == WaitStatus.EXPIRED:
        return late
    if wait.status == WaitStatus.CANCELLED:
        return (AskerStopped if asks else RunStopped)({"at": closed})
    newest = newest_wait(call_id=wait.tool_call_id)
    fresh = newest is not None and newest.id != wait.id
    follow = f"Decide wait {newest.id} instead." if fresh and newest is not None else ""
    return Superseded({"at": closed, "reason": wait.status_reason or wait.status, "next": follow})


def _decided(actor: Actor, decision: Decision) -> AlreadyDecided:
    """Who decided. A browser whose line broke sends a form again by itself: nobody is to read then that theirs was not stored."""
    by, said = decision.actor.partition(":")[2], SAID[DecisionVerdict(decision.verdict)]
    mine = decision.actor == actor.label
    kind: type[AlreadyDecided] = YouDecided if mine else AlreadyDecided
    if decision.verdict in OF_A_QUESTION:
        kind = YouAnswered if mine else AlreadyAnswered
    return kind({"by": by, "verdict": said, "at": clock(decision.at), "decided_at": decision.at.isoformat()})


def _already_voted(actor: Actor, voice: str, locked: Locked) -> AlreadyVoted | None:
    """One person has one vote, and one voice is heard once."""
    for vote in locked.votes:
        if vote.actor == actor.label or vote.voice == voice:
            return AlreadyVoted(
                {
                    "by": vote.actor.partition(":")[2],
                    "verdict": SAID[DecisionVerdict(vote.verdict)],
                    "at": clock(vote.at),
                    "given": locked.approvals,
                    "quorum": locked.wait.quorum,
                }
            )
    return None


def _seen_is_bound(locked: Locked, seen: Seen) -> Refused | None:
    wait = locked.wait
    if seen.revision != wait.checkpoint_revision:
        return StaleRevision({"seen_revision": seen.revision, "revision": wait.checkpoint_revision})
    if seen.digest != wait.checkpoint_digest:
        return CheckpointDiffers({"seen_revision": seen.revision, "revision": wait.checkpoint_revision})
    found = _found_changed(locked)
    if found:
        return CheckpointChanged({"revision": wait.checkpoint_revision, "found": found})
    bound = seen.args_digest == wait.args_digest == wait.tool_call.args_digest
    return None if bound and arguments_intact(wait.tool_call) else ArgsChanged()


def _found_changed(locked: Locked) -> str:
    """What is wrong with the stored revision that a wait is bound to; empty if it is there as it was saved."""
    if locked.checkpoint is None:
        return "it is not stored any more"
    try:
        verified_body(locked.checkpoint)
    except Unreadable as error:
        return error.found
    return "" if locked.checkpoint.digest == locked.wait.checkpoint_digest else "it has another digest"


def _ground_holds(gone: Commitment | None) -> Refused | None:
    """Nothing is decided on a constraint or an assumption that was withdrawn; the rows stay so until the commit (ruling 35)."""
    if gone is None:
        return None
    by = str(gone.withdrawn_by).partition(":")[2]
    statement = bounded(gone.statement, 200)
    return GroundWithdrawn(
        {"kind": str(gone.kind).lower(), "statement": statement, "by": by, "at": clock(gone.withdrawn_at)}
    )


def _policy_holds(locked: Locked) -> PolicyChanged | None:
    """Nothing is decided on what a policy asked that is not in force any more (ruling 35)."""
    asked = locked.wait.policy_version
    now = version_name(locked.policy)
    if asked == now:
        return None
    last = last_activation(locked.run.tenant_id)
    by, at = (last.activated_by.partition(":")[2], clock(last.at)) if last else ("nobody", "")
    return PolicyChanged({"now": now, "asked": asked, "by": by, "at": at})


def tool_refusal(wait: Wait, installed: str | None) -> ToolChanged | None:
    """Why nothing is decided about a tool that is defined otherwise by now; None where it is not, or can't be told here."""
    if installed is None or installed == wait.tool_hash:
        return None
    tool, at = wait.tool_call.tool, clock(wait.opened_at)
    return ToolChanged({"tool": tool, "at": at, "asked": wait.tool_hash, "now": installed})


def unseen_refusal(paths: Sequence[str]) -> IncompleteView | None:
    """Why a call is not approved of which this was not shown; None where all of it was."""
    return IncompleteView({"paths": bounded(", ".join(paths), 400)}) if paths else None


def _looked_long_enough(actor: Actor, wait: Wait) -> Dwell | None:
    """By the server's own record of the first look, whatever the browser says."""
    left = dwell_left(actor, wait)
    return Dwell({"seconds": wait.dwell_seconds, "left": left}) if left else None


def dwell_left(actor: Actor, wait: Wait) -> int:
    """Seconds until the actor has looked at a wait for as long as it asks before an approval; all of them before the first
    look, none where enough have passed.
    """
    if not wait.dwell_seconds:
        return 0
    looked = fetch(LOOKED, {"wait": wait.id, "actor": actor.label})
    passed: float = looked[0][0] if looked else 0
    return max(ceil(wait.dwell_seconds - passed), 0)


def _confirmed(actor: Actor, locked: Locked) -> StepUp | None:
    """The person has given their password lately on this very session."""
    return None if is_confirmed(actor, locked) else StepUp({"minutes": settings.STEP_UP_SECONDS // 60})


def is_confirmed(actor: Actor, locked: Locked) -> bool:
    """True unless the wait asks for a password that the actor has not given lately."""
    within = timedelta(seconds=settings.STEP_UP_SECONDS)
    lately = actor.confirmed_at is not None and locked.now - actor.confirmed_at <= within
    return lately or not locked.wait.step_up


def arguments_intact(call: ToolCall) -> bool:
    """True while the stored argument bytes have the digest that the call was recorded with."""
    try:
        return digest(call_arguments(call)) == call.args_digest
    except BodyChanged:
        return False


def clock(moment: Any) -> str:
    """A moment as refusals say it."""
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"
