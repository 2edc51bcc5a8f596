"""The line: how many runs stand where, in one query."""

from dataclasses import dataclass

from django.db import connection

from accounts.states import Actor, Permission
from console.pages.overview.day import Day
from runs.states import ENDED_RUN, RunStatus

_LIVE = """
SELECT status, count(*) FROM runs_run WHERE tenant_id = %(tenant)s AND status = ANY(%(live)s) GROUP BY status"""


@dataclass(frozen=True)
class Line:
    """How many runs stand where: each live status, and each end of the last 24 hours."""

    live: dict[str, int]
    ended: list[tuple[str, int]]

    @property
    def ended_total(self) -> int:
        return sum(count for _, count in self.ended)

    @property
    def live_total(self) -> int:
        return sum(self.live.values())


def line_of(actor: Actor, day: Day) -> Line:
    """The counts of the line; zeros without READ."""
    live = [str(status) for status in RunStatus if status not in ENDED_RUN]
    counts = dict(day.ended)
    if actor.may(Permission.READ):
        with connection.cursor() as cursor:
            cursor.execute(_LIVE, {"tenant": actor.tenant_id, "live": live})
            counts |= dict(cursor.fetchall())
    ended = [(str(status), counts.get(status, 0)) for status in RunStatus if status in ENDED_RUN]
    return Line({status: counts.get(status, 0) for status in live}, ended)
