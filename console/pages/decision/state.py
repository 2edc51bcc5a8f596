"""What may change while somebody looks at a wait: its status, who decided, whether the run moved, what happened since."""

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from accounts.errors import Refused
from accounts.statements import together
from accounts.states import Actor, Permission
from approvals.errors import NotAsked, SelfApproval, SelfWritten
from approvals.models import Assignment, Decision, Vote, Wait
from approvals.services import Locked, Seen, asked, dwell_left, is_confirmed, voice_for, wait_found
from approvals.states import DEADLINE, DecisionVerdict, WaitKind, WaitStatus, can_decide
from checkpoints.models import Checkpoint, Head, Intent, Lapse
from console.pages.notice import Notice
from console.pages.text import exact
from console.pages.words import needs_role
from console.templatetags.moments import digest, short_id, when
from console.templatetags.signalbox import person, seconds
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
    waiting: list[Wait]


def since(wait: Wait) -> Since:
    """What happened around a wait that `access_wait` has given out, in one query."""
    run, call, opened = wait.run_id, wait.tool_call_id, wait.opened_at
    others = Wait.objects.filter(run=run, status=WaitStatus.OPEN).exclude(id=wait.id)
    same = Wait.objects.filter(run=run, tool_call__step_name=wait.tool_call.step_name)
    void = same.filter(status=WaitStatus.INVALIDATED, opened_at__lt=opened)
    return Since(
        *together(
            Decision.objects.filter(wait=wait),
            Head.objects.filter(run=run),
            same.filter(opened_at__gt=opened).order_by("-opened_at")[:1],
            void.select_related("decision").order_by("-opened_at")[:1],
            Lapse.objects.filter(run=run).order_by("at"),
            Attempt.objects.filter(tool_call=call).order_by("attempt_no"),
            Publication.objects.filter(tool_call=call).select_related("report_version"),
            Vote.objects.filter(wait=wait).order_by("at"),
            Assignment.objects.filter(wait=wait, ended_at=None),
            Intent.objects.filter(run=run).order_by("version"),
            others.select_related("tool_call").order_by("opened_at"),
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
        """The newest wait for the same step of this run that was asked after this one, if one was."""
        return next(iter(self.since.asked), None)

    @property
    def before(self) -> Wait | None:
        """The last wait for the same step of this run that became void, so that this one was asked."""
        return next(iter(self.since.void), None)

    @property
    def lapsed(self) -> list[Lapse]:
        """What the run had observed and did not hold any more by the time this was asked."""
        return [lapse for lapse in self.since.lapses if lapse.at < self.wait.opened_at]

    @property
    def lapsed_since(self) -> list[Lapse]:
        """What was let go of since this was asked, until it was asked anew: why an approval of it was not used."""
        until = self.newest.opened_at if self.newest else None
        since = [lapse for lapse in self.since.lapses if lapse.at >= self.wait.opened_at]
        return [lapse for lapse in since if until is None or lapse.at <= until]

    @property
    def waiting(self) -> list[Wait]:
        """What else its run asks people now, the oldest first."""
        return self.since.waiting

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
            return needs_role(Permission.DECIDE, "Deciding")
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
        return _decided(state, state.decision)
    if wait.status == WaitStatus.CANCELLED:
        return _cancelled(state)
    title = format_html("Nobody decided in time. The time to decide ended {}.", when(wait.deadline))
    return Notice("neutral", title, "It counts as rejected: the call is not sent, and the model is told.", "EXPIRED")


def _decided(state: WaitState, decision: Decision) -> Notice:
    approved = decision.verdict == DecisionVerdict.APPROVE
    said = "approved" if approved else "rejected"
    by = "Its deadline" if decision.actor == DEADLINE else person(decision.actor)
    title = format_html("{} {} this call, {}.", by, said, when(decision.at))
    reason = format_html("“{}”", exact(decision.reason))
    if not state.waiting:
        return Notice("clear" if approved else "neutral", title, reason)
    first = state.waiting[0]
    reason = format_html("{} {}.", reason, more_answers(len(state.waiting)))
    return Notice(
        "caution",
        title,
        reason,
        url=wait_url(first),
        link=format_html("<span>{}</span>", asks(first, after=state.wait)),
    )


def _cancelled(state: WaitState) -> Notice:
    wait = state.wait
    title = format_html("Cancelled {}: {}.", when(wait.closed_at), exact(wait.status_reason, one_line=True))
    decision = state.decision
    before = format_html("{} had decided before; that stays as evidence. ", person(decision.actor)) if decision else ""
    return Notice("neutral", title, format_html("{}The call was not sent on this wait.", before), "CANCELLED")


def _replaced(state: WaitState) -> Notice:
    wait, decision = state.wait, state.decision
    if decision is None:
        lead = "Out of date. Nothing was decided."
    elif decision.verdict == DecisionVerdict.APPROVE:
        lead = "The approval was not used. Nothing was sent."
    else:
        lead = "The decision was not used. Nothing was sent."
    why = format_html("This wait was closed {}: {}.{}", when(wait.closed_at), _closed_because(state), _too_old(state))
    lamp = "stop" if decision is None else "caution"
    if state.newest is None:
        return Notice(lamp, lead, format_html("{} A worker asks again, if it still has to.", why), wait.status)
    link = format_html("Open the current wait {}", short_id(state.newest.id))
    bound = format_html("{} It was asked again at revision {}.", why, state.newest.checkpoint_revision)
    return Notice(lamp, lead, bound, url=wait_url(state.newest), link=link)


def _closed_because(state: WaitState) -> SafeString:
    return exact(state.wait.status_reason, one_line=True)


def _too_old(state: WaitState) -> SafeString | str:
    """Which facts had become too old, as a sentence with a space before it."""
    if state.decision is None or not state.lapsed_since:
        return ""
    told = (
        (exact(one.step_name, one_line=True), when(one.observed_at), seconds(one.half_life_seconds))
        for one in state.lapsed_since
    )
    return format_html(
        " Too old by then, whoever decided: {}.",
        format_html_join("; ", "<code>{}</code>, read {}, holds for {}", told),
    )


def more_answers(count: int) -> str:
    """That a run asks for more, as a sentence without its stop."""
    return f"This run waits for {count} more answer{'' if count == 1 else 's'}"


def asks(wait: Wait, *, after: Wait) -> SafeString:
    """What another wait of the same run asks, as the words of a link. `after`: the wait whose page it stands on."""
    call = wait.tool_call
    step = exact(call.step_name, one_line=True)
    if wait.kind == WaitKind.QUESTION:
        return format_html("Open the question {}", step)
    if call.author and call.instead_of_id == after.tool_call_id:
        return format_html("Open {}, which {} wrote in its place", step, person(call.author))
    return format_html("Open {}", step)


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
