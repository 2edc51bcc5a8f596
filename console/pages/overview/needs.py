"""What needs a person, in one query: how many of each kind, and what is first of it."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection
from django.urls import reverse

from accounts.states import Actor, Permission
from console.pages.inbox.items import SOON, Counts

_NEEDS = """
WITH unknown AS (
    SELECT coalesce((SELECT max(a.dispatched_at) FROM receipts_attempt a WHERE a.tool_call_id = t.id), t.created_at) AS since
    FROM receipts_toolcall t WHERE t.tenant_id = %(tenant)s AND t.unknown AND t.effect_class <> 'READ_ONLY'
        AND NOT EXISTS (SELECT FROM receipts_reconciliation r
            WHERE r.tool_call_id = t.id AND r.seen_attempts = t.attempts)),
asked AS (SELECT w.kind, w.deadline FROM approvals_wait w WHERE w.tenant_id = %(tenant)s AND w.status = 'OPEN'),
held AS (
    SELECT coalesce((SELECT max(m.at) FROM runs_runtransition m WHERE m.run_id = r.id AND m.to_status = 'HELD'),
        r.created_at) AS since
    FROM runs_run r WHERE r.tenant_id = %(tenant)s AND r.status = 'HELD' AND r.hold_reason <> 'UNCERTAIN_CALL'),
flags AS (SELECT c.raised_at FROM receipts_contradiction c WHERE c.tenant_id = %(tenant)s AND c.closed_at IS NULL)
SELECT (SELECT count(*) FROM unknown), (SELECT min(since) FROM unknown),
    (SELECT count(*) FROM asked WHERE kind = 'APPROVAL'), (SELECT min(deadline) FROM asked WHERE kind = 'APPROVAL'),
    (SELECT count(*) FROM asked WHERE kind = 'APPROVAL' AND deadline <= clock_timestamp() + %(soon)s),
    (SELECT count(*) FROM asked WHERE kind = 'QUESTION'), (SELECT min(deadline) FROM asked WHERE kind = 'QUESTION'),
    (SELECT count(*) FROM asked WHERE kind = 'QUESTION' AND deadline <= clock_timestamp() + %(soon)s),
    (SELECT count(*) FROM held), (SELECT min(since) FROM held),
    (SELECT count(*) FROM flags), (SELECT min(raised_at) FROM flags)"""


@dataclass(frozen=True)
class Need:
    """One of the counts of what needs a person. `first` runs out or has waited longest."""

    word: str
    lamp: str
    icon: str
    count: int
    url: str
    first: datetime | None
    is_deadline: bool = False
    soon: int = 0


def needs(actor: Actor) -> list[Need]:
    """Unknown calls, approvals, held runs, and, where there are some, questions and evidence against what was accepted; nothing without READ."""
    if not actor.may(Permission.READ):
        return []
    params: dict[str, Any] = {"tenant": actor.tenant_id, "soon": SOON}
    with connection.cursor() as cursor:
        cursor.execute(_NEEDS, params)
        unknown, sent, asked, deadline, soon, *questions, held, since, flags, raised = cursor.fetchone()
    inbox = reverse("inbox")
    found = [
        Need("Unknown calls", "unknown", "unknown", unknown, f"{inbox}?kind=unknown", sent),
        Need(
            "Approvals", "caution", "caution", asked, f"{inbox}?kind=approvals", deadline, is_deadline=True, soon=soon
        ),
        Need("Held runs", "stop", "held", held, f"{inbox}?kind=held", since),
    ]
    count, until, late = questions
    asking = Need("Questions", "caution", "ask", count, f"{inbox}?kind=questions", until, is_deadline=True, soon=late)
    said_otherwise = Need("Said otherwise", "unknown", "flag", flags, f"{inbox}?kind=flags", raised)
    return [*found, *(one for one in (asking, said_otherwise) if one.count)]


def counts_of(needed: list[Need]) -> Counts:
    """The same as the counts that the bar and the title show."""
    by_word = {need.word: need.count for need in needed}
    unknown, approvals, questions, held, flags = (by_word.get(word, 0) for word in _COUNTED)
    return Counts(unknown, approvals, questions, held, flags)


# In the order of Counts.
_COUNTED = ("Unknown calls", "Approvals", "Questions", "Held runs", "Said otherwise")
