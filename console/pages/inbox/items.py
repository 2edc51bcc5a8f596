"""What needs a person, as ranked items: contradictions, calls of unknown outcome, open waits, held runs."""

from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from uuid import UUID

from django.db import connection
from django.db.models import Count, Exists, F, OuterRef, QuerySet, Subquery
from django.utils import timezone

from accounts.states import Actor, Permission
from approvals.models import Assignment, Vote, Wait
from approvals.selectors import waits_visible, waits_whose
from approvals.states import Risk, WaitKind, WaitStatus, Whose
from console.lists.fields import COUNT_LIMIT
from console.pages import signs, words
from console.pages.titles import call_title, publications_of, question_titles
from receipts.models import Attempt, Contradiction, Reconciliation, ToolCall
from receipts.selectors import calls_visible, contradictions_visible
from receipts.states import CallStatus, Verdict
from runs.models import Run, RunTransition
from runs.selectors import runs_visible
from runs.states import HoldReason, RunStatus
from runtime.masking import Masks

KIND_LIMIT = 40  # shown of each kind, and of waits of high risk beside the others; the counts stay true
ONE_KIND_LIMIT = 100  # where only one kind is asked for, so that a hundred waits can be gone through at once
SOON = timedelta(minutes=30)

# What a row says of its run and its wait; nothing else of them is read.
_RUN = ("run__title", "run__status")
_WAIT = (
    *("kind", "checkpoint_revision", "quorum", "required_role", "risk", "batchable", "opened_at", "deadline"),
    *("run__title", "tool_call__step_name", "tool_call__effect_class"),
)

# Every page asks this for the mark beside the door, so each kind is counted up to one more than the limit.
_COUNTS = """
SELECT (SELECT count(*) FROM (SELECT FROM receipts_toolcall t WHERE tenant_id = %(tenant)s AND unknown
            AND effect_class <> 'READ_ONLY' AND NOT EXISTS (SELECT FROM receipts_reconciliation r
                WHERE r.tool_call_id = t.id AND r.seen_attempts = t.attempts)
            LIMIT %(most)s) few),
       (SELECT count(*) FROM (SELECT FROM approvals_wait WHERE tenant_id = %(tenant)s AND status = 'OPEN'
            AND kind = 'APPROVAL' LIMIT %(most)s) few),
       (SELECT count(*) FROM (SELECT FROM approvals_wait WHERE tenant_id = %(tenant)s AND status = 'OPEN'
            AND kind = 'QUESTION' LIMIT %(most)s) few),
       (SELECT count(*) FROM (SELECT FROM runs_run WHERE tenant_id = %(tenant)s AND status = 'HELD'
            AND hold_reason <> 'UNCERTAIN_CALL' LIMIT %(most)s) few),
       (SELECT count(*) FROM (SELECT FROM receipts_contradiction WHERE tenant_id = %(tenant)s AND closed_at IS NULL
            LIMIT %(most)s) few),
       clock_timestamp(), coalesce((SELECT number FROM approvals_policyhead WHERE tenant_id = %(tenant)s), 0)"""


@dataclass(frozen=True)
class Counts:
    """How many items of each kind need a person, as far as they are counted, when that was by the database's clock, and the
    number of the policy in force then. An unknown call of which somebody has said that the run goes on without it is listed,
    the last of all, and not counted: nothing waits for it.
    """

    unknown: int
    approvals: int
    questions: int
    held: int
    flags: int
    at: datetime = field(default_factory=timezone.now)
    policy: int = 0

    @property
    def total(self) -> int:
        return sum(self._kinds)

    @property
    def said(self) -> str:
        """The total as it is read: “1,057+” where one kind was not counted to its end."""
        more = "+" if any(count > COUNT_LIMIT for count in self._kinds) else ""
        return f"{sum(min(count, COUNT_LIMIT) for count in self._kinds):,}{more}"

    @property
    def _kinds(self) -> tuple[int, ...]:
        return self.unknown, self.approvals, self.questions, self.held, self.flags


@dataclass(frozen=True)
class Item:
    """One thing that needs a person. `key` names it in the inbox's URL: `wait-<id>`, `call-<id>`, `run-<id>` or
    `flag-<id>`.
    """

    key: str
    kind: str
    id: UUID
    title: str
    run_title: str
    about: str
    lamp: str
    icon: str
    word: str
    since: datetime
    deadline: datetime | None
    url: str
    weight: int
    risk: str = ""
    said_by: str = ""
    """Who has said of an unknown call that the run goes on without it; `since` is when."""
    run_id: UUID | None = None
    of_run: int = 1
    """How many of the items that are shown belong to its run."""
    together: bool = False
    """Whether the policy lets it be approved with others."""


@dataclass(frozen=True)
class Group:
    title: str
    note: str
    items: list[Item]


def inbox_counts(actor: Actor, whose: Whose = Whose.ALL) -> Counts:
    """The counts of the actor's tenant; nothing without the permission to read. Only a wait is somebody's own."""
    if not actor.may(Permission.READ):
        return Counts(0, 0, 0, 0, 0)
    with connection.cursor() as cursor:
        cursor.execute(_COUNTS, {"tenant": actor.tenant_id, "most": COUNT_LIMIT + 1})
        counts = Counts(*cursor.fetchone())
    if whose == Whose.ALL:
        return counts
    asked = {kind: _asked_about(actor, whose, kind)[: COUNT_LIMIT + 1].count() for kind in WaitKind}
    approvals, questions = asked[WaitKind.APPROVAL], asked[WaitKind.QUESTION]
    if whose == Whose.MINE:
        return Counts(0, approvals, questions, 0, 0, counts.at, counts.policy)
    return replace(counts, approvals=approvals, questions=questions)


def unknown_calls(actor: Actor) -> QuerySet[ToolCall]:
    """Calls that may have happened, the oldest first, and after them those of which somebody has said that the run goes on
    without them: `gone_on_by`, `gone_on_at`.

    One that a final verdict stands on, though a person had its retry given up, takes no other verdict and is left out.
    """
    last = Attempt.objects.filter(tool_call=OuterRef("pk")).order_by("-attempt_no").values("dispatched_at")[:1]
    said = Reconciliation.objects.filter(tool_call=OuterRef("pk"), seen_attempts=OuterRef("attempts"))
    final, gone_on = said.exclude(verdict=Verdict.PROCEED_UNKNOWN), said.order_by("-at", "-id")
    calls = calls_visible(actor).filter(~Exists(final), unknown=True).exclude(effect_class="READ_ONLY")
    listed = calls.select_related("run").only("step_name", "effect_class", "attempts", "created_at", *_RUN)
    listed = listed.annotate(
        sent_at=Subquery(last),
        gone_on_by=Subquery(gone_on.values("actor")[:1]),
        gone_on_at=Subquery(gone_on.values("at")[:1]),
    )
    return listed.order_by(F("gone_on_at").asc(nulls_first=True), "sent_at", "id")


def gone_on_without(call: ToolCall) -> QuerySet[Reconciliation]:
    """Who has said of a call, after its newest attempt, that its run goes on without knowing, the newest first."""
    said = Reconciliation.objects.filter(tool_call=call, seen_attempts=call.attempts, verdict=Verdict.PROCEED_UNKNOWN)
    return said.order_by("-at", "-id")[:1]


def open_flags(actor: Actor) -> QuerySet[Contradiction]:
    """Evidence against what was accepted that nobody has closed, the oldest first."""
    flags = contradictions_visible(actor).filter(closed_at=None).select_related("tool_call__run")
    call = ("status", "step_name", "effect_class", *_RUN)
    said = flags.only("accepted", "source", "says", "raised_at", *(f"tool_call__{name}" for name in call))
    return said.order_by("raised_at", "id")


def _asked_about(actor: Actor, whose: Whose, kind: WaitKind | None) -> QuerySet[Wait]:
    """Open waits; those of one kind, where it is given."""
    waits = waits_whose(waits_visible(actor), actor=actor, whose=whose).filter(status=WaitStatus.OPEN)
    return waits if kind is None else waits.filter(kind=kind)


def _told(waits: QuerySet[Wait]) -> QuerySet[Wait]:
    """Waits with what their rows say of them, the one that runs out first in front."""
    votes = Vote.objects.filter(wait=OuterRef("pk"), verdict="APPROVE", withdrawn_at=None).order_by()
    looking = Assignment.objects.filter(wait=OuterRef("pk"), ended_at=None)
    said = {
        "approvals_given": Subquery(votes.values("wait").annotate(n=Count("pk")).values("n")),
        "looked_at_by": Subquery(looking.values("person")[:1]),
    }
    rows = waits.select_related("run", "tool_call").only(*_WAIT)
    return rows.annotate(**said).order_by("deadline", "id")


def _first_waits(actor: Actor, whose: Whose, kind: WaitKind | None, most: int) -> list[Wait]:
    """The open waits that are shown: those of high risk first, so that no flood of others hides one, and at most `most` others. Which
    ones they are is found by an index, before anything else of them is read.
    """
    first = _asked_about(actor, whose, kind).order_by("deadline", "id").values("id")
    grave, rest = first.filter(risk=Risk.HIGH)[:KIND_LIMIT], first.exclude(risk=Risk.HIGH)[:most]
    return list(_told(Wait.objects.filter(id__in=grave.union(rest, all=True))))


def held_runs(actor: Actor) -> QuerySet[Run]:
    """Held runs but those whose unknown call is in the inbox itself, the longest held first."""
    since = RunTransition.objects.filter(run=OuterRef("pk"), to_status="HELD").order_by("-id").values("at")[:1]
    runs = runs_visible(actor).filter(status=RunStatus.HELD).exclude(hold_reason=HoldReason.UNCERTAIN_CALL)
    listed = runs.only("title", "hold_reason", "hold_detail", "created_at").annotate(held_at=Subquery(since))
    return listed.order_by("held_at", "id")


def inbox_groups(actor: Actor, now: datetime, kind: str, whose: Whose, masks: Masks) -> list[Group]:
    """Items in rank: unknown first, then high risk, then what runs out soon, then held runs, then the rest by how grave it
    is, last the unknown calls that somebody has let go, with what is masked for everybody masked in their titles. `kind` keeps one kind; one's own are waits only, since nothing else is taken or given.
    """
    others, most = whose != Whose.MINE, ONE_KIND_LIMIT if kind else KIND_LIMIT
    calls = list(unknown_calls(actor)[:most]) if others and kind in ("", "unknown") else []
    raised = list(open_flags(actor)[:most]) if others and kind in ("", "flags") else []
    asked = _first_waits(actor, whose, _KIND_OF.get(kind), most) if kind in ("", *_KIND_OF) else []
    about = [*calls, *(flag.tool_call for flag in raised), *(wait.tool_call for wait in asked)]
    made = publications_of(call.id for call in about)
    listed = [_unknown_item(call, call_title(call, made.get(call.id))) for call in calls]
    unknown, gone_on = [item for item in listed if not item.said_by], [item for item in listed if item.said_by]
    flags = [_flag_item(flag, call_title(flag.tool_call, made.get(flag.tool_call_id))) for flag in raised]
    titles = question_titles(asked, masks)
    waits = [
        _wait_item(wait, titles.get(wait.tool_call_id) or call_title(wait.tool_call, made.get(wait.tool_call_id)))
        for wait in asked
    ]
    held = [_held_item(run) for run in held_runs(actor)[:most]] if others and kind in ("", "held") else []
    waits.sort(key=lambda item: (item.deadline or now, -item.weight))
    grave = [item for item in waits if item.risk == Risk.HIGH]
    rest = [item for item in waits if item.risk != Risk.HIGH]
    soon = [item for item in rest if _is_due_soon(item, now)]
    later = [item for item in rest if not _is_due_soon(item, now)]
    later.sort(
        key=lambda item: (item.risk == Risk.LOW, -item.weight)
    )  # so that no flood of trivial ones hides a grave one
    groups = [
        Group("Said otherwise", "evidence against what was accepted", flags),
        Group("Outcome unknown", "may have happened, will not repeat", unknown),
        Group("High risk", "look at these first", grave),
        Group("Due within 30 minutes", "time left, then closed", soon),
        Group("Held runs", "no deadline, nothing moves", held),
        Group(_rest(later, first=not (flags or unknown or grave or soon or held)), "time left, then closed", later),
        Group("Gone on without knowing", "a person said so; nothing waits, and none is counted", gone_on),
    ]
    return _with_siblings([group for group in groups if group.items])


def _is_due_soon(item: Item, now: datetime) -> bool:
    return item.deadline is not None and item.deadline <= now + SOON


def _with_siblings(groups: list[Group]) -> list[Group]:
    """The same, where each item knows how many of them belong to its run: they stand apart, since they differ in rank."""
    of_run = Counter(item.run_id for group in groups for item in group.items)
    return [
        replace(group, items=[replace(item, of_run=of_run[item.run_id]) for item in group.items]) for group in groups
    ]


def _rest(items: list[Item], *, first: bool) -> str:
    """The title of what has time, by whether something stands before it."""
    if not first:
        return "Later"
    kinds = {item.kind for item in items}
    return {frozenset({"approvals"}): "Approvals", frozenset({"questions"}): "Questions"}.get(frozenset(kinds), "Open")


_KIND_OF = {"approvals": WaitKind.APPROVAL, "questions": WaitKind.QUESTION}


def _unknown_item(call: ToolCall, title: str) -> Item:
    sign = signs.CALL[CallStatus.UNCERTAIN]
    tries = f"{call.attempts} attempt{'s' if call.attempts != 1 else ''}"
    said_by, said_at = getattr(call, "gone_on_by", None) or "", getattr(call, "gone_on_at", None)
    said = f"{said_by.partition(':')[2]} said: still unknown, go on without it · " if said_by else ""
    return Item(
        key=f"call-{call.id}",
        kind="unknown",
        id=call.id,
        title=title,
        run_title=call.run.title,
        run_id=call.run_id,
        about=f"{said}{call.effect_class} · {tries} · its run is {call.run.status}",
        lamp=sign.lamp,
        icon=sign.icon,
        word="Outcome unknown",
        since=said_at or getattr(call, "sent_at", None) or call.created_at,
        deadline=None,
        url=f"/calls/{call.id}/",
        weight=signs.EFFECT[call.effect_class].step,
        said_by=said_by,
    )


def _flag_item(flag: Contradiction, title: str) -> Item:
    sign = signs.CALL[CallStatus.UNCERTAIN]
    call = flag.tool_call
    waits = " · a retry waits" if call.status == CallStatus.RETRY_WAIT else ""
    return Item(
        key=f"flag-{flag.id}",
        kind="flags",
        id=flag.id,
        title=title,
        run_title=call.run.title,
        run_id=call.run_id,
        about=f"accepted: {words.VERDICT[flag.accepted]}; {words.SOURCE[flag.source]} says: {words.VERDICT[flag.says]}{waits}",
        lamp=sign.lamp,
        icon="flag",
        word="Said otherwise",
        since=flag.raised_at,
        deadline=None,
        url=f"/contradictions/{flag.id}/close/",
        weight=signs.EFFECT[call.effect_class].step,
    )


def _wait_item(wait: Wait, title: str) -> Item:
    sign = signs.WAIT[WaitStatus.OPEN]
    asks = wait.kind == WaitKind.QUESTION
    return Item(
        key=f"wait-{wait.id}",
        kind="questions" if asks else "approvals",
        id=wait.id,
        title=title,
        run_title=wait.run.title,
        run_id=wait.run_id,
        together=wait.batchable,
        about=_asked(wait),
        lamp=sign.lamp,
        icon="ask" if asks else sign.icon,
        word="Question" if asks else "Approval",
        since=wait.opened_at,
        deadline=wait.deadline,
        url=f"/waits/{wait.id}/",
        weight=signs.EFFECT[wait.tool_call.effect_class].step,
        risk=wait.risk,
    )


def _asked(wait: Wait) -> str:
    """What a wait asks for, how far it is, and who looks."""
    needs = f"needs one {wait.required_role}"
    if wait.quorum > 1:
        needs = f"{getattr(wait, 'approvals_given', None) or 0} of {wait.quorum} have approved"
    looking = (getattr(wait, "looked_at_by", None) or "").partition(":")[2]
    kind = "question" if wait.kind == WaitKind.QUESTION else wait.tool_call.effect_class
    said = [kind, f"revision {wait.checkpoint_revision}", needs]
    return " · ".join([*said, f"{looking} looks at it"] if looking else said)


def _held_item(run: Run) -> Item:
    sign, said = signs.RUN[RunStatus.HELD], words.held(run.hold_reason or "", run.hold_detail)
    return Item(
        key=f"run-{run.id}",
        kind="held",
        id=run.id,
        title=said.title,
        run_title=run.title,
        run_id=run.id,
        about=said.found or f"{said.helps}.",
        lamp=sign.lamp,
        icon=sign.icon,
        word="Held",
        since=getattr(run, "held_at", None) or run.created_at,
        deadline=None,
        url=f"/runs/{run.id}/",
        weight=0,
    )
