"""What may change while somebody looks at a wait: its status, who decided, whether the run moved, what happened since."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from accounts.errors import Refused
from accounts.statements import together
from accounts.states import Actor
from approvals.errors import NotAsked, SelfApproval, SelfWritten
from approvals.models import Assignment, Decision, Vote, Wait
from approvals.services import Locked, Seen, asked, dwell_left, is_confirmed, voice_for, wait_found
from approvals.states import DEADLINE, DecisionVerdict, WaitStatus, can_decide
from checkpoints.models import Checkpoint, Head, Intent, Lapse
from console.pages.notice import Notice
from console.templatetags.signalbox import digest, exact, person, short_id, when
from receipts.models import Attempt, Publication
from runtime.services import INSTALLED


@dataclass(frozen=True)
class Moved:
    """One thing that is no longer as it was shown."""

    what: str
    shown: SafeString | str
    now: SafeString | str


@dataclass(frozen=True)
class Since:
    """The rows that may have changed since a wait was asked, each kind in its order."""

    decisions: list[Decision]
    heads: list[Head]
    asked: list[Wait]
    void: list[Wait]
    lapses: list[Lapse]
    attempts: list[Attempt]
    publications: list[Publication]
    votes: list[Vote]
    looking: list[Assignment]
    intents: list[Intent]


def since(wait: Wait) -> Since:
    """What happened around a wait that `access_wait` has given out, in one query."""
    run, call, opened = wait.run_id, wait.tool_call_id, wait.opened_at
    same = Wait.objects.filter(run=run, tool_call__step_name=wait.tool_call.step_name)
    void = same.filter(status=WaitStatus.INVALIDATED, opened_at__lt=opened)
    return Since(
        *together(
            Decision.objects.filter(wait=wait),
            Head.objects.filter(run=run),
            Wait.objects.filter(tool_call=call).order_by("-opened_at")[:1],
            void.select_related("decision").order_by("-opened_at")[:1],
            Lapse.objects.filter(run=run, at__lt=opened).order_by("at"),
            Attempt.objects.filter(tool_call=call).order_by("attempt_no"),
            Publication.objects.filter(tool_call=call).select_related("report_version"),
            Vote.objects.filter(wait=wait).order_by("at"),
            Assignment.objects.filter(wait=wait, ended_at=None),
            Intent.objects.filter(run=run).order_by("version"),
        )
    )


@dataclass
class WaitState:
    """A wait as it is now. Reads what it needs when it is asked, each thing once."""

    wait: Wait
    actor: Actor

    @cached_property
    def since(self) -> Since:
        return since(self.wait)

    @property
    def decision(self) -> Decision | None:
        return next(iter(self.since.decisions), None)

    @property
    def head(self) -> Head:
        return self.since.heads[0]

    @property
    def newest(self) -> Wait | None:
        """The wait that replaced this one, if one did."""
        return next((wait for wait in self.since.asked if wait.id != self.wait.id), None)

    @property
    def before(self) -> Wait | None:
        """The last wait for the same step of this run that became void, so that this one was asked."""
        return next(iter(self.since.void), None)

    @property
    def lapsed(self) -> list[Lapse]:
        """What the run had observed and did not hold any more by the time this was asked."""
        return self.since.lapses

    @property
    def attempts(self) -> list[Attempt]:
        return self.since.attempts

    @property
    def publication(self) -> Publication | None:
        """The publication that the call makes, if it publishes a report version."""
        return next(iter(self.since.publications), None)

    @cached_property
    def now(self) -> datetime:
        return self.found.now

    @property
    def open(self) -> bool:
        return can_decide(self.wait.status) and self.wait.deadline > self.now

    @cached_property
    def redefined(self) -> bool:
        """True if the tool is defined otherwise by now than when this was asked: nothing is decided about it."""
        installed = INSTALLED.definition(self.wait.run, self.wait.tool_call.tool)
        return installed not in (None, self.wait.tool_hash)

    @property
    def at_head(self) -> bool:
        """True while the run is still at the revision that the wait is bound to."""
        bound = (self.wait.checkpoint_revision, self.wait.checkpoint_digest)
        return (self.head.revision, self.head.digest) == bound

    @cached_property
    def found(self) -> Locked:
        return wait_found(self.wait)

    @cached_property
    def voice(self) -> str | Refused:
        """The label of the person with whose authority whoever looks may decide, or why there is none."""
        return voice_for(self.actor, self.found)

    @property
    def votes(self) -> list[Vote]:
        """Every vote, withdrawn ones too, the oldest first."""
        return self.since.votes

    @property
    def mine(self) -> Vote | None:
        """The vote of whoever looks, while it stands."""
        return next((vote for vote in self.found.votes if vote.actor == self.actor.label), None)

    @property
    def given(self) -> int:
        """How many approve so far."""
        return self.found.approvals

    @property
    def missing(self) -> int:
        return max(self.wait.quorum - self.given, 0)

    @property
    def decides_by_approving(self) -> bool:
        """True if one approval more meets the quorum."""
        return self.missing <= 1

    @property
    def asked(self) -> str:
        """Whom the wait asks, in words."""
        return asked(self.wait)

    @property
    def looking(self) -> Assignment | None:
        """Who looks at it now."""
        return next(iter(self.since.looking), None)

    @property
    def looks_myself(self) -> bool:
        return self.looking is not None and self.looking.person == self.actor.label

    @property
    def stands_in_for(self) -> str:
        """The label of who has whoever looks decide in their place; empty for one who decides for themselves."""
        return self.voice if isinstance(self.voice, str) and self.voice != self.actor.label else ""

    @cached_property
    def dwell_left(self) -> int:
        """Seconds until whoever looks will have looked for as long as the wait asks."""
        return dwell_left(self.actor, self.wait)

    @property
    def asks_password(self) -> bool:
        """True if an approval needs the password of whoever looks, which they have not given lately."""
        return not is_confirmed(self.actor, self.found)

    @cached_property
    def not_yours(self) -> str:
        """Why this person may not decide now, or an empty text. The service decides again."""
        if isinstance(self.voice, SelfApproval):
            return self._by_themselves(self.voice)
        if isinstance(self.voice, NotAsked):
            return f"This wait asks for {self.asked}, and you are none."
        if isinstance(self.voice, Refused):
            return "Deciding needs the role approver, which you do not have in this tenant."
        mine = self.mine
        if mine is not None:
            return f"You have approved. It waits for another person: {self.given} of {self.wait.quorum}."
        if any(vote.voice == self.voice for vote in self.found.votes):
            return "Somebody has voted with the authority that you would use."
        return ""

    def _by_themselves(self, refused: SelfApproval) -> str:
        did, who = (
            ("wrote this call", "author") if isinstance(refused, SelfWritten) else ("started this run", "starter")
        )
        where = "tenant" if self.wait.starter_may_decide else "wait"
        return f"You {did}, and this {where} does not let the {who} decide."

    @property
    def may_decide(self) -> bool:
        return self.open and not self.not_yours

    @property
    def self_approved(self) -> bool:
        """True if whoever looks would decide about a run that they started themselves."""
        return self.wait.run.created_by == self.actor.label


def wait_url(wait: Wait) -> str:
    return reverse("wait", args=[wait.id])


# ── the sentence under the title ─────────────────────────────────────────────


def closed_notice(state: WaitState) -> Notice | None:
    """What to say instead of the lead sentence once the wait can't be decided any more. None while it can."""
    if state.open:
        return None
    wait = state.wait
    if wait.status in (WaitStatus.SUPERSEDED, WaitStatus.INVALIDATED):
        return _replaced(state)
    if state.decision is not None and wait.status != WaitStatus.CANCELLED:
        return _decided(state.decision)
    if wait.status == WaitStatus.CANCELLED:
        return _cancelled(state)
    title = format_html("Nobody decided in time. The time to decide ended {}.", when(wait.deadline))
    return Notice("neutral", title, "It counts as rejected: the call is not sent, and the model is told.", "EXPIRED")


def _decided(decision: Decision) -> Notice:
    approved = decision.verdict == DecisionVerdict.APPROVE
    said = "approved" if approved else "rejected"
    by = "Its deadline" if decision.actor == DEADLINE else person(decision.actor)
    title = format_html("{} {} this call, {}.", by, said, when(decision.at))
    return Notice("clear" if approved else "neutral", title, format_html("“{}”", exact(decision.reason)))


def _cancelled(state: WaitState) -> Notice:
    wait = state.wait
    title = format_html("Cancelled {}: {}.", when(wait.closed_at), exact(wait.status_reason, "line"))
    decision = state.decision
    before = format_html("{} had decided before; that stays as evidence. ", person(decision.actor)) if decision else ""
    return Notice("neutral", title, format_html("{}The call was not sent on this wait.", before), "CANCELLED")


def _replaced(state: WaitState) -> Notice:
    wait, decision = state.wait, state.decision
    lead = "Out of date. Nothing was decided." if decision is None else "The decision was not used. Nothing was sent."
    why = format_html("This wait was closed {}: {}.", when(wait.closed_at), exact(wait.status_reason, "line"))
    if state.newest is None:
        return Notice("stop", lead, format_html("{} A worker asks again, if it still has to.", why), wait.status)
    link = format_html("Open the current wait {}", short_id(state.newest.id))
    bound = format_html("{} It was asked again at revision {}.", why, state.newest.checkpoint_revision)
    return Notice("stop", lead, bound, wait.status, wait_url(state.newest), link)


# ── what moved ───────────────────────────────────────────────────────────────


def what_moved(state: WaitState, seen: Seen) -> list[Moved]:
    """What was shown against what is, only where they differ. Call it for a wait that is out of date."""
    wait, head = state.wait, state.head
    bound = state.newest or wait
    moved = [
        _if_moved("Revision", str(seen.revision), str(head.revision)),
        _if_moved("Checkpoint", _short(seen.digest), _short(head.digest)),
        _if_moved("Arguments", _short(seen.args_digest), _short(bound.args_digest)),
        _contract_moved(state, seen.revision),
    ]
    if state.newest is not None:
        link = format_html('<a href="{}">{}</a>', wait_url(state.newest), short_id(state.newest.id))
        moved.append(Moved("Wait", short_id(wait.id), format_html("{}, {}", link, state.newest.status)))
    return [one for one in moved if one is not None]


def _if_moved(what: str, shown: SafeString | str, now: SafeString | str) -> Moved | None:
    return Moved(what, shown, now) if shown != now else None


def _short(value: str) -> SafeString:
    return digest(value, 12) if value else format_html("<i>{}</i>", "nothing")


def _contract_moved(state: WaitState, revision: int) -> Moved | None:
    saved = Checkpoint.objects.filter(run_id=state.wait.run_id, revision=revision)
    version = saved.values_list("intent_version", flat=True).first()
    intents = state.since.intents
    then = next((intent for intent in intents if intent.version == version), None)
    if then is None or then == intents[-1]:
        return None
    now = intents[-1]
    said = '<b>version {}</b>, “{}” <span class="why">{}, {}</span>'
    shown = format_html("version {}, “{}”", then.version, exact(then.goal))
    return Moved(
        "Contract",
        shown,
        format_html(said, now.version, exact(now.goal), person(now.revised_by), when(now.at)),
    )


# ── what happens now ─────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Happening:
    """One step of what became of a decided call. `due` has not happened yet."""

    lamp: str
    icon: str
    text: SafeString | str
    why: SafeString | str = ""
    at: datetime | None = None
    due: bool = False


def what_happens(state: WaitState) -> Sequence[Happening]:
    """What has happened since the decision and what comes next; nothing for a wait that nobody decided."""
    decision = state.decision
    if decision is None or state.wait.status in (WaitStatus.INVALIDATED, WaitStatus.CANCELLED):
        return []
    approved = decision.verdict == DecisionVerdict.APPROVE
    return _approved(state) if approved else _rejected(state)


def _approved(state: WaitState) -> list[Happening]:
    if state.wait.status == WaitStatus.APPROVED:
        why = "It takes a new lease and checks everything again. If anything moved, nothing is sent and you are asked anew."
        return [
            Happening("neutral", "queued", "A worker takes the run", why, due=True),
            Happening("neutral", "sent", "The call is sent once", due=True),
        ]
    tries = [_tried(attempt) for attempt in state.attempts]
    return [*tries, *_now(state)]


def _tried(attempt: Attempt) -> Happening:
    text = f"Attempt {attempt.attempt_no} was sent, fence {attempt.fence}"
    if attempt.outcome is None:
        return Happening("clear", "sent", text, "No answer yet.", attempt.dispatched_at)
    words = {
        "OK": ("clear", "done", "Answered, and the answer is stored."),
        "ERROR_RETRYABLE": ("caution", "retry", "Answered: not now. The same call is sent again later."),
        "ERROR_FINAL": ("stop", "failed", "Answered: no."),
        "NO_RESPONSE": ("unknown", "unknown", "No answer was stored. It may have happened or not."),
    }
    lamp, icon, why = words[attempt.outcome]
    error = format_html(" {}", exact(attempt.error)) if attempt.error else ""
    return Happening(lamp, icon, text, format_html("{}{}", why, error), attempt.dispatched_at)


def _rejected(state: WaitState) -> list[Happening]:
    if state.wait.status == WaitStatus.REJECTED:
        why = "The call ends as REJECTED with no attempt, and the model is told the reason."
        return [Happening("neutral", "queued", "A worker takes the run", why, due=True)]
    ended = Happening("neutral", "rejected", "The call ended as REJECTED, with no attempt", "The model was told why.")
    return [ended, *_now(state)]


def _now(state: WaitState) -> list[Happening]:
    call, run = state.wait.tool_call, state.wait.run
    link = reverse("call", args=[call.id])
    about = format_html('The call is <a href="{}">{}</a>, its run {}.', link, call.status, run.status)
    there = format_html("There: {}", exact(call.external_ref, "line")) if call.external_ref else ""
    return [Happening("neutral", "flag", about, there)]
