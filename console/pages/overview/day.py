"""The last 24 hours of a tenant, read once: what ended hour by hour with what it used, and how old the oldest wait was."""

import json
from dataclasses import dataclass, field
from datetime import datetime

from django.db import connection

from accounts.states import Actor, Permission
from runs.states import BudgetUnit

# Where the amounts of a unit stand in an allowance.
TOKENS, MICROS = (list(BudgetUnit).index(unit) + 1 for unit in (BudgetUnit.TOKENS, BudgetUnit.USD_MICROS))

# What the runs that ended in an hour used, how old the oldest wait was when the hour ended, or is now, and, the same on each row,
# how many runs ended how. By the time of the statement, which the server knows as it plans, so that it takes the indexes of what
# ended; and open waits are read by the index that holds only these (OFFSET 0), not from the first wait that there ever was.
_DAY = """
WITH hours AS (
    SELECT h, least(h + interval '1 hour', statement_timestamp()) AS until
    FROM generate_series(date_trunc('hour', statement_timestamp()) - interval '23 hours',
        date_trunc('hour', statement_timestamp()), interval '1 hour') h),
ended AS MATERIALIZED (
    SELECT date_trunc('hour', r.ended_at) AS h, r.status, count(*) AS runs, sum(a.spent[%(tokens)s]) AS tokens,
        sum(a.spent[%(micros)s]) AS micros
    FROM runs_run r LEFT JOIN runs_allowance a ON a.run_id = r.id
    WHERE r.tenant_id = %(tenant)s AND r.ended_at >= date_trunc('hour', statement_timestamp()) - interval '23 hours'
    GROUP BY 1, 2),
by_hour AS (SELECT h, sum(runs) AS runs, sum(tokens) AS tokens, sum(micros) AS micros FROM ended GROUP BY h),
by_status AS (SELECT status, sum(runs)::bigint AS runs FROM ended GROUP BY status),
waits AS (
    SELECT min(opened_at) AS opened_at, NULL::timestamptz AS closed_at
    FROM (SELECT opened_at FROM approvals_wait WHERE tenant_id = %(tenant)s AND status = 'OPEN' OFFSET 0) unclosed
    UNION ALL
    SELECT opened_at, closed_at FROM approvals_wait
    WHERE tenant_id = %(tenant)s AND closed_at >= date_trunc('hour', statement_timestamp()) - interval '23 hours'),
oldest AS (
    SELECT hours.h, extract(epoch FROM hours.until - min(w.opened_at)) AS seconds
    FROM hours JOIN waits w ON w.opened_at < hours.until AND (w.closed_at IS NULL OR w.closed_at >= hours.until)
    GROUP BY hours.h, hours.until)
SELECT hours.h, coalesce(by_hour.runs, 0)::float, coalesce(oldest.seconds, 0)::float, coalesce(by_hour.tokens, 0)::float,
    coalesce(by_hour.micros, 0)::float, (SELECT coalesce(jsonb_object_agg(status, runs), '{}') FROM by_status)
FROM hours LEFT JOIN by_hour USING (h) LEFT JOIN oldest USING (h) ORDER BY hours.h"""

# An hour, the runs that ended in it, the seconds of the oldest wait, and the tokens and the millionths of a dollar of these runs.
Hour = tuple[datetime, float, float, float, float]


@dataclass(frozen=True)
class Day:
    """The hours, the oldest first, and how many runs ended how in them."""

    hours: list[Hour] = field(default_factory=list)
    ended: dict[str, int] = field(default_factory=dict)


def last_day(actor: Actor) -> Day:
    """The last 24 hours of the actor's tenant, the present one included; nothing without the permission to read."""
    if not actor.may(Permission.READ):
        return Day()
    with connection.cursor() as cursor:
        cursor.execute(_DAY, {"tenant": actor.tenant_id, "tokens": TOKENS, "micros": MICROS})
        rows = cursor.fetchall()
    return Day(
        [(hour, ended, oldest, tokens, micros) for hour, ended, oldest, tokens, micros, _ in rows],
        json.loads(rows[0][5]),
    )
