"""What a stop means for a run: what stays, what may still land, what will not start. The same lists before and after."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from django.db.models import Q, QuerySet
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from accounts.statements import together
from approvals.models import Decision
from checkpoints.models import Head, Obligation
from checkpoints.states import ObligationStatus
from console.pages import signs, words
from console.pages.few import Few
from console.pages.units import amount
from console.templatetags.signalbox import exact, person
from receipts.models import Attempt, Publication, ToolCall
from receipts.selectors import attempts_of, on_the_wire
from receipts.states import UNSENT_CALL, CallStatus, PublicationStatus
from runs.models import Budget, ControlRequest, Lease, Run
from runs.selectors import latest_stop
from runs.states import ENDED_RUN, OPEN_CONTROL, BudgetUnit

SHOWN = 50  # items of one kind


@dataclass(frozen=True)
class Item:
    """One thing of a list. `attempt` adds when it was sent and when its time is up."""

    lamp: str
    icon: str
    text: SafeString | str
    why: SafeString | str = ""
    attempt: Attempt | None = None


@dataclass(frozen=True)
class Rows:
    """What a stop of a run meets. Of each kind at most one more than is shown, so that there are more is known."""

    heads: list[Head]
    published: list[Publication]
    results: list[ToolCall]
    decisions: list[Decision]
    budgets: list[Budget]
    attempts: list[Attempt]
    unknown: list[ToolCall]
    unsent: list[ToolCall]
    promises: list[Obligation]


def rows_of(run: Run, stop: ControlRequest | None) -> Rows:
    """The rows of a run that `access_run` has given out, in one query. `stop`: the newest stop of it."""
    calls = ToolCall.objects.filter(run=run).defer("args").order_by("ordinal")
    published = Publication.objects.filter(report_version__run=run, status=PublicationStatus.PUBLISHED)
    decided = Decision.objects.filter(wait__run=run).select_related("wait__tool_call").defer("wait__tool_call__args")
    return Rows(
        *together(
            Head.objects.filter(run=run),
            published.select_related("report_version").order_by("changed_at")[: SHOWN + 1],
            calls.filter(result__isnull=False)[: SHOWN + 1],
            decided.order_by("at")[: SHOWN + 1],
            Budget.objects.filter(run=run, unit=BudgetUnit.TOOL_CALLS),
            _on_its_way(run, stop).order_by("dispatched_at")[: SHOWN + 1],
            calls.filter(status=CallStatus.UNCERTAIN)[: SHOWN + 1],
            calls.filter(status__in=[*UNSENT_CALL, *([CallStatus.CANCELLED] if stop else [])])[: SHOWN + 1],
            Obligation.objects.filter(run=run, status=ObligationStatus.OPEN).order_by("promised_at", "id"),
        )
    )


def _on_its_way(run: Run, stop: ControlRequest | None) -> QuerySet[Attempt]:
    """What was on its way when the stop was accepted; before a stop, what is on its way now."""
    rows = on_the_wire(Run.objects.filter(id=run.id))
    if stop is not None:
        before = Q(dispatched_at__lt=stop.accepted_at, finished_at__gte=stop.accepted_at)
        rows = attempts_of(run.id, before | Q(outcome=None))
    return rows.select_related("tool_call", "model_call").defer("tool_call__args")


@dataclass
class Forecast:
    """The three lists of one run, each read once, when it is asked."""

    run: Run

    @cached_property
    def stop(self) -> ControlRequest | None:
        """The newest stop of the run, open or over."""
        return latest_stop(self.run)

    @property
    def stop_open(self) -> bool:
        return self.stop is not None and self.stop.status in OPEN_CONTROL

    @property
    def ended(self) -> bool:
        return self.run.status in ENDED_RUN

    @property
    def lease(self) -> Lease:
        return self.run.lease

    @cached_property
    def rows(self) -> Rows:
        return rows_of(self.run, self.stop)

    @property
    def head(self) -> Head:
        return self.rows.heads[0]

    # ── what stays ──────────────────────────────────────────────────────────────

    @cached_property
    def stays(self) -> Few[Item]:
        items = [*self._published(), *self._results(), *self._decided(), self._revisions(), *self._spent()]
        return _few(items, self.rows.published, self.rows.decisions)

    def _published(self) -> Iterator[Item]:
        for one in self.rows.published[:SHOWN]:
            version = one.report_version
            link = f"{reverse('report', args=[version.report_id])}?version={version.version_no}"
            text = format_html('<a href="{}">Report v{}</a>', link, version.version_no)
            yield Item("neutral", "flag", text, format_html("{}, published", exact(one.channel, "line")))

    def _results(self) -> Iterator[Item]:
        names = [call.step_name for call in self.rows.results]
        if names:
            results = ToolCall.objects.filter(run=self.run, result__isnull=False)
            count = results.count() if len(names) > SHOWN else len(names)
            listed = format_html_join(", ", "{}", ((exact(name, "line"),) for name in names[:SHOWN]))
            yield Item("neutral", "done", f"{count} call{_s(count)} with a result", listed)

    def _decided(self) -> Iterator[Item]:
        for one in self.rows.decisions[:SHOWN]:
            said = words.SAID[one.verdict]
            step = exact(one.wait.tool_call.step_name, "line")
            why = format_html("{} {} it; kept as evidence", person(one.actor), said)
            yield Item("neutral", "person", format_html("A decision on {}", step), why)

    def _revisions(self) -> Item:
        link = reverse("checkpoints", args=[self.run.id])
        text = format_html('<a href="{}">Revision{} 1{}</a>', link, _s(self.head.revision), _to(self.head.revision))
        return Item("neutral", "station", text, "readable and comparable")

    def _spent(self) -> Iterator[Item]:
        budget = next(iter(self.rows.budgets), None)
        if budget is not None and budget.spent:
            held = f"{budget.held_unknown} more held back until the outcome is known" if budget.held_unknown else ""
            yield Item(
                "neutral", "settled", f"{budget.spent} of {amount(budget.unit, budget.cap)} tool calls spent", held
            )

    # ── what may still land ─────────────────────────────────────────────────────

    @cached_property
    def lands(self) -> Few[Item]:
        items = [*map(_sent, self.rows.attempts[:SHOWN]), *self._unknown()]
        return _few(items, self.rows.attempts, self.rows.unknown)

    def _unknown(self) -> Iterator[Item]:
        """Calls that were unknown before the stop; those on their way are listed as attempts."""
        listed = {attempt.tool_call_id for attempt in self.rows.attempts}
        for call in self.rows.unknown[:SHOWN]:
            if call.id not in listed:
                why = "It may have happened already. It stays in the inbox for a verdict, although the run is over."
                yield Item("unknown", "unknown", _call_link(call), why)

    @property
    def open_attempts(self) -> list[Attempt]:
        return [attempt for attempt in self.rows.attempts if attempt.outcome is None]

    @property
    def latest(self) -> datetime | None:
        """When the last answer that is still awaited is out of time."""
        deadlines = [attempt.deadline_at for attempt in self.open_attempts if attempt.deadline_at]
        return max(deadlines) if deadlines else None

    # ── what will not start ─────────────────────────────────────────────────────

    @cached_property
    def never(self) -> Few[Item]:
        unsent = [Item("neutral", "slash", _call_link(call), _why_not(call)) for call in self.rows.unsent[:SHOWN]]
        if self.ended and self.run.status != "CANCELLED":
            return _few(unsent, self.rows.unsent)
        turn = Item("neutral", "slash", "The next model call", "no further model call")
        check = Item("neutral", "slash", "The check at the end", "whether everything promised is done")
        return _few([*unsent, turn, check], self.rows.unsent)

    @property
    def open_promises(self) -> list[Obligation]:
        return self.rows.promises


def _few(items: list[Item], *kinds: Sequence[object]) -> Few[Item]:
    """The items that are shown; there are more where a kind has more than are shown of one."""
    return Few(items, len(items), more=any(len(rows) > SHOWN for rows in kinds))


def _s(count: int) -> str:
    return "" if count == 1 else "s"


def _to(revision: int) -> str:
    return f" to {revision}" if revision > 1 else ""


def _call_link(call: ToolCall) -> SafeString:
    return format_html('<a href="{}">{}</a>', reverse("call", args=[call.id]), exact(call.step_name, "line"))


def _why_not(call: ToolCall) -> str:
    if call.status == CallStatus.CANCELLED:
        return "cancelled with no attempt" if call.attempts == 0 else "cancelled before its next attempt"
    return f"{call.status.replace('_', ' ').lower()}, {'never sent' if call.attempts == 0 else 'not sent again'}"


def _sent(attempt: Attempt) -> Item:
    if attempt.tool_call is None:
        turn = attempt.model_call.turn_no if attempt.model_call else 0
        why = "Its answer may be stored; nothing of it starts." if attempt.outcome is None else "Its answer came."
        return Item("neutral", "model", f"Model call {turn}", why, attempt)
    text = format_html("{}, attempt {}", _call_link(attempt.tool_call), attempt.attempt_no)
    if attempt.outcome is None:
        return Item("clear", "sent", text, "Sent. Stopping cannot call it back.", attempt)
    sign = signs.ATTEMPT[attempt.outcome]
    said = {
        "OK": "It answered: done. Stored as happened.",
        "ERROR_FINAL": "It answered: refused. Stored as failed.",
        "ERROR_RETRYABLE": "It answered: not now. It is not sent again.",
        "NO_RESPONSE": "It did not answer. It stays in the inbox for a verdict, although the run is over.",
    }[attempt.outcome]
    return Item(sign.lamp, sign.icon, text, said, attempt)
