"""How a team decides: how fast, how often yes, what ran out, what was asked again. Counts over the waits of one tenant."""

from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from accounts.statements import fetch
from accounts.states import Actor, Permission
from approvals.statements import MEASURES, MEASURES_BY_PERSON, MEASURES_BY_TOOL

QUICK_SECONDS = 3.0


@dataclass(frozen=True)
class Totals:
    """Of the waits that opened in the time. Seconds are medians and 95th percentiles; None where nothing was measured.

    `expired`: nobody decided in time, whatever the policy took that for. `asked_again`: taken back before the decision was
    used, since the run, the tool, the policy or a fact had moved. `quick`: votes of yes within QUICK_SECONDS of the voter's first look.
    """

    opened: int
    decided: int
    approved: int
    expired: int
    asked_again: int
    look_median: float | None
    look_p95: float | None
    decision_median: float | None
    decision_p95: float | None
    votes: int
    quick: int


@dataclass(frozen=True)
class OfPerson:
    """What one person voted. `own_median`: seconds from their first look to their vote."""

    person: str
    votes: int
    approved: int
    withdrawn: int
    quick: int
    own_median: float | None


@dataclass(frozen=True)
class OfTool:
    """What became of the waits for one tool."""

    tool: str
    opened: int
    decided: int
    approved: int
    expired: int
    decision_median: float | None


@dataclass(frozen=True)
class Measures:
    """The measures of a team since so many days."""

    days: int
    totals: Totals
    people: list[OfPerson]
    tools: list[OfTool]


def measures_of(*, actor: Actor, days: int) -> Measures:
    """The measures of the actor's tenant over the waits that opened within `days`; nothing without the permission to read."""
    tenant = actor.tenant_id if actor.may(Permission.READ) else UUID(int=0)
    asked = {"tenant": tenant, "since": timedelta(days=days), "quick": QUICK_SECONDS}
    return Measures(
        days,
        Totals(*fetch(MEASURES, asked)[0]),
        [OfPerson(*row) for row in fetch(MEASURES_BY_PERSON, asked)],
        [OfTool(*row) for row in fetch(MEASURES_BY_TOOL, asked)],
    )
