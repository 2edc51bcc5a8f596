"""The kinds of events that a run has: where their rows are, and what they read as."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import Q, QuerySet

from approvals.models import Wait
from checkpoints.models import Checkpoint, SaveAttempt
from console.pages.run import events as shown
from console.pages.run.events import Event
from receipts.models import Attempt, Publication, Reconciliation, ReportVersion
from runs.models import ControlRequest, Refusal, Run, RunTransition

Rows = QuerySet[Any]


@dataclass(frozen=True)
class Source:
    """Events of one kind: where their rows are, which of them are a run's, when they happened, and what they read as.

    `named` finds the rows that the rest of a key names; it raises ValueError where it names none. What `lasts` reaches into a
    window that it began before, until the time in the column `end`, if it has one.
    """

    kind: str
    rows: Callable[[], Rows]
    of: Callable[[Run], Q]
    clock: str
    named: Callable[[Sequence[str]], Q]
    event: Callable[[Any], Event]
    only: Q = Q()
    lasts: bool = False
    end: str = ""


def _attempts() -> Rows:
    return Attempt.objects.select_related("tool_call", "model_call").defer("tool_call__args")


def _waits() -> Rows:
    return Wait.objects.select_related("tool_call", "decision").defer("tool_call__args")


def _verdicts() -> Rows:
    return Reconciliation.objects.select_related("tool_call").defer("tool_call__args")


def _named(run: Run) -> Q:
    return Q(run=run)


def _through(receipt: str) -> Callable[[Run], Q]:
    """The rows whose receipt names the run."""
    return lambda run: Q(**{f"{receipt}__run": run})


def _id(rest: Sequence[str]) -> Q:
    return Q(pk=UUID(rest[0]))


def _number(rest: Sequence[str]) -> Q:
    return Q(pk=_counted(rest[0]))


def _counted(text: str) -> int:
    """A number of a key. Raises ValueError for one that no row has."""
    number = int(text)
    if not 0 <= number < 2**31:
        raise ValueError(text)
    return number


def _tried(receipt: str) -> Callable[[Sequence[str]], Q]:
    """`<call>` or `<call>:<attempt>`; the newest attempt where none is named."""

    def named(rest: Sequence[str]) -> Q:
        of = Q(**{receipt: UUID(rest[0])})
        return of & Q(attempt_no=_counted(rest[1])) if rest[1:] else of

    return named


def _control(stage: str) -> Source:
    def event(row: ControlRequest) -> Event:
        return shown.control_event(row, stage)

    return Source(
        stage, ControlRequest.objects.all, _named, f"{stage}_at", _id, event, Q(**{f"{stage}_at__isnull": False})
    )


SOURCES: tuple[Source, ...] = (
    Source("move", RunTransition.objects.all, _named, "at", _number, shown.status_event, lasts=True),
    Source(
        "rev",
        lambda: Checkpoint.objects.defer("body"),
        _named,
        "created_at",
        lambda rest: Q(revision=_counted(rest[0])),
        shown.checkpoint_event,
    ),
    Source(
        "turn",
        _attempts,
        _through("model_call"),
        "dispatched_at",
        _tried("model_call"),
        shown.attempt_event,
        lasts=True,
        end="finished_at",
    ),
    Source(
        "call",
        _attempts,
        _through("tool_call"),
        "dispatched_at",
        _tried("tool_call"),
        shown.attempt_event,
        lasts=True,
        end="finished_at",
    ),
    Source("wait", _waits, _named, "opened_at", _id, shown.wait_event, lasts=True, end="closed_at"),
    Source("decision", _waits, _named, "decision__at", _id, shown.decision_event, Q(decision__isnull=False)),
    Source(
        "closed",
        _waits,
        _named,
        "closed_at",
        _id,
        shown.closed_event,
        Q(status__in=shown.CLOSED, closed_at__isnull=False),
    ),
    Source("report", ReportVersion.objects.all, _named, "committed_at", _id, shown.version_event),
    Source(
        "publication",
        lambda: Publication.objects.select_related("report_version"),
        _through("report_version"),
        "changed_at",
        _id,
        shown.publication_event,
        ~Q(channel="console"),
    ),
    _control("accepted"),
    _control("adopted"),
    _control("settled"),
    Source("refusal", Refusal.objects.all, _named, "at", _number, shown.refusal_event),
    Source("save", SaveAttempt.objects.all, _named, "at", _id, shown.lost_save_event, Q(kind=None)),
    Source("verdict", _verdicts, _through("tool_call"), "at", _id, shown.verdict_event),
)
