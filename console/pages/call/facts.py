"""What the call page reads of one call: each thing once, when it is asked."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import OuterRef

from accounts.statements import together
from accounts.states import Actor, Permission
from approvals.models import Grant, PolicyDecision, Vote, Wait
from approvals.selectors import grant_used, now_and_policy, two_have_to_say
from checkpoints.models import Obligation
from console.pages.call.before import Before, against, sent_before
from console.pages.few import Few
from console.pages.stored import Stored, stored_arguments, stored_result
from console.pages.words import needs_role
from receipts.models import (
    Attachment,
    Attempt,
    Contradiction,
    Effect,
    FirstWord,
    Probe,
    Publication,
    Reconciliation,
    Result,
    ToolCall,
)
from receipts.selectors import accepted_by
from receipts.states import CallStatus, Verdict, can_reconcile
from runs.models import BudgetEntry, Lease, Refusal, RunTransition
from runs.states import ENDED_RUN
from runtime.masking import Mask, Masks

REFUSED = 50  # refused writes that are shown, the newest ones
HOLDERS = 20  # changes of the lease that are shown, the newest ones


@dataclass(frozen=True)
class Holder:
    """Who took the lease, when, under which fence."""

    at: datetime
    worker: str
    fence: int
    takeover: bool


@dataclass(frozen=True)
class Around:
    """The rows around a call, each kind in its order."""

    attempts: list[Attempt]
    results: list[Result]
    verdicts: list[Reconciliation]
    refusals: list[Refusal]
    rulings: list[PolicyDecision]
    flags: list[Contradiction]
    probes: list[Probe]
    words: list[FirstWord]
    attachments: list[Attachment]
    effects: list[Effect]
    publications: list[Publication]
    waits: list[Wait]
    obligations: list[Obligation]
    budget: list[BudgetEntry]
    taken: list[RunTransition]
    leases: list[Lease]
    before: list[ToolCall]


@dataclass(frozen=True)
class Said:
    """Something that was said of an attempt. `time_up` is there where it says that it did not happen and was said before the time of the attempt
    was up: it could still land then.
    """

    row: Reconciliation | FirstWord | Contradiction
    time_up: datetime | None


def in_doubt(call: ToolCall) -> bool:
    """Whether somebody should look outside: nobody knows the outcome, a retry waits, or evidence speaks against what was accepted."""
    return call.status in (CallStatus.UNCERTAIN, CallStatus.RETRY_WAIT) or call.contradicted


def around(call: ToolCall) -> Around:
    """What is around a call that `access_call` has given out, in one query."""
    votes = Vote.objects.filter(wait=OuterRef("pk"), verdict="APPROVE", withdrawn_at=None).order_by("at")
    asked = Wait.objects.select_related("decision").filter(tool_call=call)
    taken = RunTransition.objects.filter(run_id=call.run_id, to_status="RUNNING", fence__isnull=False)
    return Around(
        *together(
            Attempt.objects.filter(tool_call=call).order_by("attempt_no"),
            Result.objects.select_related("reconciliation").filter(tool_call=call),
            Reconciliation.objects.filter(tool_call=call).order_by("at"),
            Refusal.objects.filter(run_id=call.run_id, subject_id=call.id).order_by("-id")[: REFUSED + 1],
            PolicyDecision.objects.filter(tool_call=call).order_by("at"),
            Contradiction.objects.filter(tool_call=call).order_by("raised_at", "id"),
            Probe.objects.filter(tool_call=call).order_by("asked_at", "id"),
            FirstWord.objects.filter(tool_call=call).order_by("at", "id"),
            Attachment.objects.filter(tool_call=call).order_by("added_at", "id"),
            Effect.objects.filter(tool_call=call),
            Publication.objects.select_related("report_version").filter(tool_call=call),
            asked.annotate(approvers=ArraySubquery(votes.values("actor"))).order_by("opened_at"),
            Obligation.objects.filter(run_id=call.run_id, step_name=call.step_name).order_by("id")[:1],
            BudgetEntry.objects.filter(receipt_id=call.id).order_by("at", "kind"),
            taken.order_by("-id")[: HOLDERS + 1],
            Lease.objects.filter(run_id=call.run_id),
            sent_before(call) if in_doubt(call) else ToolCall.objects.none(),
        )
    )


@dataclass
class CallFacts:
    """One call with everything around it."""

    call: ToolCall
    actor: Actor

    @cached_property
    def around(self) -> Around:
        return around(self.call)

    @property
    def attempts(self) -> list[Attempt]:
        return self.around.attempts

    @property
    def result(self) -> Result | None:
        return next(iter(self.around.results), None)

    @cached_property
    def answer(self) -> Stored | None:
        """The value of the result; None without one, or when its bytes can't be opened."""
        return stored_result(self.result, self.mask) if self.result else None

    @cached_property
    def arguments(self) -> Stored | None:
        return stored_arguments(self.call, self.mask)

    @cached_property
    def masks(self) -> Masks:
        return Masks(self.actor, policy=self.now_and_policy[1])

    @property
    def mask(self) -> Mask:
        """What is masked of it for whoever looks."""
        return self.masks.of(self.call)

    @property
    def verdicts(self) -> list[Reconciliation]:
        return self.around.verdicts

    @property
    def refusals(self) -> list[Refusal]:
        """The newest refused writes about this call, among them late answers: evidence, not results."""
        return Few(self.around.refusals, REFUSED)[::-1]

    @property
    def more_refusals(self) -> bool:
        """Whether there are older ones."""
        return len(self.around.refusals) > REFUSED

    @cached_property
    def prepared_by(self) -> ToolCall | None:
        """The call whose stored result this one carries out, by the digest that its arguments are bound to."""
        bound = self.arguments.value.get("prepared") if self.arguments else None
        if not bound:
            return None
        calls = ToolCall.objects.defer("args").filter(run_id=self.call.run_id, result__digest=bound)
        return calls.order_by("-ordinal").first()

    @property
    def rulings(self) -> list[PolicyDecision]:
        """What policy said about the call, the oldest first."""
        return self.around.rulings

    @cached_property
    def grant(self) -> Grant | None:
        """The standing grant by which the call was sent."""
        by_grant = any(attempt.authorised_by.startswith("grant:") for attempt in self.attempts)
        return grant_used(call_id=self.call.id) if by_grant else None

    @property
    def flags(self) -> list[Contradiction]:
        """Evidence against what was accepted, the oldest first."""
        return self.around.flags

    @property
    def open_flag(self) -> Contradiction | None:
        """The flag that waits for a person."""
        return next((one for one in self.flags if one.closed_at is None), None)

    @property
    def probes(self) -> list[Probe]:
        """The looks that people asked for, the oldest first. Observed, and accepted by nobody."""
        return self.around.probes

    @property
    def words(self) -> list[FirstWord]:
        """What first people said where two have to say the same, the oldest first."""
        return self.around.words

    @property
    def said(self) -> list[Said]:
        """The verdicts, the oldest first, each with whether it came too early to prove an absence."""
        return [self._said(one, one.verdict, one.seen_attempts, one.at) for one in self.verdicts]

    @property
    def first_words(self) -> list[Said]:
        """The words of `words`, in the same way."""
        return [self._said(one, one.verdict, one.seen_attempts, one.at) for one in self.words]

    @property
    def raised(self) -> list[Said]:
        """The flags of `flags`, in the same way."""
        return [self._said(one, one.says, one.attempt_no, one.raised_at) for one in self.flags]

    def _said(self, row: Reconciliation | FirstWord | Contradiction, says: str, attempt_no: int, at: datetime) -> Said:
        time_up = next((one.deadline_at for one in self.attempts if one.attempt_no == attempt_no), None)
        early = says == Verdict.NOT_EXECUTED and time_up is not None and at < time_up
        return Said(row, time_up if early else None)

    @property
    def in_doubt(self) -> bool:
        return in_doubt(self.call)

    @cached_property
    def before(self) -> Before | None:
        """The last call of the same step that was sent, to be held against one in doubt."""
        found = next(iter(self.around.before), None)
        return against(self.call, found, Masks(policy=self.now_and_policy[1])) if found is not None else None

    @property
    def time_is_up(self) -> bool:
        """Whether the time of the newest attempt is up, so that what is read outside now is the last word on it."""
        return self.last is not None and self.last.deadline_at is not None and self.last.deadline_at <= self.now

    @property
    def waiting_word(self) -> FirstWord | None:
        """The word that waits for a second person."""
        return next((one for one in self.words if one.closed_at is None), None)

    @cached_property
    def two_needed(self) -> bool:
        return self.uncertain and two_have_to_say(self.call)

    @property
    def attachments(self) -> list[Attachment]:
        """The files that people put beside it, the oldest first."""
        return self.around.attachments

    @property
    def may_contradict(self) -> bool:
        """Whether something is accepted about its newest attempt that this person may speak against."""
        accepted = accepted_by(self.call, self.call.attempts, verdicts=self.verdicts, result=self.result)
        return self.actor.may(Permission.RECONCILE) and accepted is not None

    @property
    def effect(self) -> Effect | None:
        return next(iter(self.around.effects), None)

    @property
    def publication(self) -> Publication | None:
        return next(iter(self.around.publications), None)

    @property
    def waits(self) -> list[Wait]:
        """What people were asked about it, each with `approvers`: everybody whose approval stands, not only who decided."""
        return self.around.waits

    def authors_of(self, attempt: Attempt) -> list[str]:
        """Who had it sent: all who approved it together, or the one that the attempt names."""
        for wait in self.waits:
            approvers: list[str] = wait.approvers  # type: ignore[attr-defined]
            if attempt.authorised_by in approvers:
                return approvers
        return [attempt.authorised_by]

    @property
    def open_wait(self) -> Wait | None:
        return next((wait for wait in self.waits if wait.status == "OPEN"), None)

    @property
    def obligation(self) -> Obligation | None:
        """The promise that this call fulfils."""
        return next(iter(self.around.obligations), None)

    @property
    def budget(self) -> list[BudgetEntry]:
        return self.around.budget

    @cached_property
    def holders(self) -> Sequence[Holder]:
        """The newest changes of the run's lease, oldest first."""
        rows = Few(self.around.taken, HOLDERS)[::-1]
        return [Holder(row.at, row.actor, row.fence or 0, row.from_status == "RUNNING") for row in rows]

    @property
    def more_holders(self) -> bool:
        """Whether there are older ones."""
        return len(self.around.taken) > HOLDERS

    @property
    def lease(self) -> Lease:
        return self.around.leases[0]

    @cached_property
    def now_and_policy(self) -> tuple[datetime, int]:
        return now_and_policy(self.call.tenant_id)

    @property
    def now(self) -> datetime:
        return self.now_and_policy[0]

    @cached_property
    def results_kept(self) -> int:
        """How many calls of the run have a stored result."""
        return Result.objects.filter(tool_call__run_id=self.call.run_id).count()

    @property
    def uncertain(self) -> bool:
        return can_reconcile(self.call.status)

    @property
    def said_finally(self) -> bool:
        """Whether a verdict on the newest attempt stands that says whether it happened: no other one is taken."""
        final = [one for one in self.verdicts if one.verdict != Verdict.PROCEED_UNKNOWN]
        return any(one.seen_attempts == self.call.attempts for one in final)

    @property
    def gone_on(self) -> Reconciliation | None:
        """Who said last that the run goes on without knowing, while nothing more is known."""
        said = [one for one in self.verdicts if one.seen_attempts == self.call.attempts]
        return said[-1] if self.uncertain and said and said[-1].verdict == Verdict.PROCEED_UNKNOWN else None

    @property
    def ended(self) -> bool:
        return self.call.run.status in ENDED_RUN

    @property
    def last(self) -> Attempt | None:
        return self.attempts[-1] if self.attempts else None

    @property
    def asserted(self) -> bool:
        """True if the result is a person's word on whether the call happened. It must never look like something observed."""
        return self.result is not None and self.result.reconciliation is not None and self.result.source == "HUMAN"

    @property
    def never_sent(self) -> bool:
        return not self.attempts and self.call.status in {CallStatus.DENIED, CallStatus.REJECTED, CallStatus.CANCELLED}

    @cached_property
    def not_yours(self) -> str:
        """Why this person may not give a verdict, or an empty text."""
        if self.actor.may(Permission.RECONCILE):
            return ""
        return needs_role(Permission.RECONCILE, "A verdict")

    @cached_property
    def no_retry(self) -> str:
        """Why “send again” is not offered, or an empty text."""
        if self.ended:
            return "The run has ended."
        if not self.call.blocking:
            return "The run has gone on without it."
        return "" if self.actor.may(Permission.DECIDE) else "Sending again also needs the role approver."

    def holder_of(self, fence: int) -> str:
        """Who held the lease under a fence, if that is still in the window."""
        return next((holder.worker for holder in self.holders if holder.fence == fence), "")

    @property
    def tries(self) -> list[dict[str, Any]]:
        """The attempts with who sent them."""
        return [
            {"attempt": one, "worker": self.holder_of(one.fence), "authors": self.authors_of(one)}
            for one in self.attempts
        ]
