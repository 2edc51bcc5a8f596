"""The list of runs."""

from collections.abc import Sequence
from decimal import Decimal

from django.db.models import Exists, OuterRef, Q, QuerySet, prefetch_related_objects

from accounts.states import Actor
from console.lists.cells import Cell, Column
from console.lists.fields import Amount, Choice, Flag, Moment, Options, Tags, Words, by, picks, tail_of
from console.lists.keyset import Order
from console.lists.listing import Empty, Listing, Sort
from console.lists.tails import ends_with, whole_id
from console.pages import words
from receipts.models import ToolCall
from runs.models import Agent, Allowance, Run
from runs.selectors import runs_tagged, runs_visible
from runs.states import BudgetUnit, HoldReason, RunStatus

USD = list(BudgetUnit).index(BudgetUnit.USD_MICROS)
MICROS = 1_000_000


def agents_of(actor: Actor) -> Options:
    """The agents of the tenant, as options."""
    keys = Agent.objects.filter(tenant_id=actor.tenant_id).order_by("key").values_list("key", flat=True)
    return [(key, key) for key in keys]


def _in_thread(rows: QuerySet[Run], thread: str) -> QuerySet[Run]:
    named = whole_id(thread)
    return rows.filter(thread_id=named) if named else rows.filter(thread__key=thread)


def _by(rows: QuerySet[Run], person: str) -> QuerySet[Run]:
    return rows.filter(created_by=person if ":" in person else f"person:{person}")


def _spent(rows: QuerySet[Run], dollars: Decimal) -> QuerySet[Run]:
    spent = Allowance.objects.filter(run=OuterRef("pk"), **{f"spent__{USD}__gte": int(dollars * MICROS)})
    return rows.filter(Exists(spent))


def _unknown(rows: QuerySet[Run], _: bool) -> QuerySet[Run]:
    return rows.filter(id__in=ToolCall.objects.filter(unknown=True).values("run_id"))


def _tagged(rows: QuerySet[Run], tags: Sequence[str]) -> QuerySet[Run]:
    for tag in tags:
        rows = runs_tagged(rows, tag)
    return rows


def runs_named(rows: QuerySet[Run], text: str) -> QuerySet[Run]:
    """Those whose title holds a text, and the one that it is the id or the end of the id of."""
    named, tail = whole_id(text), tail_of(text)
    found = Q(title__icontains=text)
    if named:
        return rows.filter(id=named)
    return rows.filter(found | ends_with(tail)) if tail else rows.filter(found)


def _rows(actor: Actor) -> QuerySet[Run]:
    return runs_visible(actor).defer("agent_version__manifest", "agent_version__tool_texts")


def _status(run: Run) -> Cell:
    note = words.held(run.hold_reason, run.hold_detail).title if run.hold_reason else ""
    return Cell("state", run.status, machine="run", note=note)


def _tags(run: Run) -> Cell:
    return Cell("tags", tuple(sorted(one.tag for one in run.tags.all())) or None)


def _dress(runs: Sequence[Run]) -> None:
    prefetch_related_objects(list(runs), "tags")


def _money(run: Run) -> Cell:
    spent = run.allowance.spent[USD]
    return Cell("number", None if spent is None else f"${spent / MICROS:,.2f}")


FIELDS = (
    Words("q", "Title or id", runs_named, "A part of the title, an id, or the end of one as …f04c3c."),
    Choice("status", "Status", by("status__in"), picks=picks(*RunStatus), several=True),
    Choice("agent", "Agent", by("agent_version__agent__key"), picks=agents_of),
    Tags("tag", "Tags", _tagged, "As month-end; with several, a run has all of them."),
    Words("thread", "Thread", _in_thread, "Its key or its id."),
    Words("person", "Started by", _by, "A username."),
    Choice(
        "hold_reason",
        "Held because",
        lambda rows, wanted: rows.filter(status=RunStatus.HELD, hold_reason__in=wanted),
        picks=picks(*HoldReason),
        several=True,
    ),
    Moment("since", "Started since", by("created_at__gte"), "A day as 2026-11-30, or 12 h for 12 hours ago."),
    Moment("until", "Started until", by("created_at__lt"), end_of_day=True),
    Amount("spend", "Spent at least, $", _spent),
    Flag("unknown", "With a call of unknown outcome", _unknown),
)

COLUMNS = (
    Column("title", "Run", lambda run: Cell("link", run.title, url=f"/runs/{run.id}/")),
    Column("id", "Id", lambda run: Cell("id", run.id)),
    Column("status", "Status", _status),
    Column("phase", "Phase", lambda run: Cell("phase", run.head.phase, note=f"revision {run.head.revision}"), "head"),
    Column(
        "agent",
        "Agent",
        lambda run: Cell("text", run.agent_version.agent.key, note=f"version {run.agent_version.version}"),
        "agent_version__agent",
    ),
    Column("tags", "Tags", _tags),
    Column("thread", "Thread", lambda run: Cell("thread", run.thread.key), "thread"),
    Column("created_at", "Started", lambda run: Cell("when", run.created_at)),
    Column("created_by", "By", lambda run: Cell("person", run.created_by)),
    Column("ended_at", "Ended", lambda run: Cell("when", run.ended_at)),
    Column("end_reason", "How it ended", lambda run: Cell("text", run.end_reason)),
    Column("spent", "Spent", _money, "allowance"),
    Column("takeovers", "Takeovers", lambda run: Cell("number", run.takeovers)),
)

RUNS = Listing(
    key="runs",
    row="run",
    title="Runs",
    url_name="runs",
    say="",
    rows=_rows,
    fields=FIELDS,
    sorts=(
        Sort("newest", "newest first", Order(("created_at", "id"))),
        Sort("oldest", "oldest first", Order(("created_at", "id"), descending=False)),
    ),
    columns=COLUMNS,
    shown=("title", "status", "phase", "agent", "tags", "created_at", "created_by"),
    empty=Empty(
        "There is no run yet.", "It takes two files, or claims that are typed, and a goal.", "run-new", "New run"
    ),
    dress=_dress,
    over=lambda run: run.ended_at is not None,
)
