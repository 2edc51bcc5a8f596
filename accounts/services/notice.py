"""The outbox of what people are told outside the pages: written with the fact, claimed, and closed."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction

from accounts.audit import audit_append
from accounts.keys import new_id
from accounts.statements import fetch
from accounts.states import Actor, NoticeKind, NoticeStatus, Subject

_NOTICE = """
INSERT INTO accounts_notice (id, endpoint_id, kind, dedupe_key, subject, subject_id, facts, gathered, due_at)
SELECT gen_random_uuid(), e.id, %(kind)s::text, %(key)s::text, %(subject)s::text, %(id)s::uuid, %(facts)s::jsonb,
    e.digest AND %(low_risk)s::boolean,
    CASE WHEN e.digest AND %(low_risk)s::boolean
        THEN to_timestamp(ceil(extract(epoch FROM clock_timestamp()) / %(every)s::int) * %(every)s::int)
        ELSE clock_timestamp() END
FROM accounts_endpoint e
LEFT JOIN accounts_membership m ON m.id = e.membership_id LEFT JOIN accounts_user u ON u.id = m.user_id
WHERE e.tenant_id = %(tenant)s::uuid AND e.removed_at IS NULL AND e.paused_at IS NULL AND %(kind)s::text = ANY(e.hears)
    AND coalesce(u.username <> %(but)s::text, true)
    AND (%(to)s::text = '' OR coalesce(u.username = %(to)s::text, true))
ON CONFLICT (endpoint_id, dedupe_key) DO NOTHING RETURNING id"""


def notice_write(
    *,
    tenant_id: UUID,
    kind: NoticeKind,
    subject: Subject,
    subject_id: UUID,
    dedupe_key: str,
    facts: Mapping[str, str],
    but: str = "",
    to: str = "",
    low_risk: bool = False,
) -> int:
    """Tell every endpoint of a tenant that hears of this kind, once per dedupe key, in the transaction of the fact.

    `facts` are names and words of ours, never arguments or texts of others; `but` is the username of who did it, and
    knows; what is `to` one person goes to the endpoints of that username, and to those of the whole tenant. What is of low
    risk waits for the digest of an endpoint that has one. Returns how many are told.
    """
    row = {
        "tenant": tenant_id,
        "kind": str(kind),
        "subject": str(subject),
        "id": subject_id,
        "key": dedupe_key,
        "facts": json.dumps(dict(facts)),
        "but": but,
        "to": to,
        "low_risk": low_risk,
        "every": settings.NOTICE_DIGEST_SECONDS,
    }
    return len(fetch(_NOTICE, row))


_CLAIM = """
WITH first AS (
    SELECT id, endpoint_id, gathered FROM accounts_notice
    WHERE status = 'PENDING' AND due_at <= (SELECT clock_timestamp())
    ORDER BY due_at LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED),
rest AS (
    SELECT n.id FROM accounts_notice n JOIN first f ON f.gathered AND n.gathered AND n.endpoint_id = f.endpoint_id
    WHERE n.status = 'PENDING' AND n.due_at <= (SELECT clock_timestamp()) AND n.id <> f.id
    ORDER BY n.created_at LIMIT %(most)s::int FOR NO KEY UPDATE OF n SKIP LOCKED)
UPDATE accounts_notice SET attempts = attempts + 1, due_at = clock_timestamp() + make_interval(secs => %(seconds)s::float)
WHERE id IN (SELECT id FROM first UNION ALL SELECT id FROM rest) RETURNING id, attempts"""


@dataclass(frozen=True)
class Claim:
    """Notices of one endpoint that this process is to tell now, as one, with the number of the attempt for each."""

    attempts: Mapping[UUID, int]


def notices_claim(*, seconds: float, most: int) -> Claim | None:
    """Take the notice that is due for the longest time, and the rest of its digest; nobody else takes them for so many
    seconds. None when nothing is due. Not called inside a transaction: the claim is committed before anything is sent.
    """
    claimed = fetch(_CLAIM, {"seconds": seconds, "most": most})
    return Claim(dict(claimed)) if claimed else None


_SETTLE = """
UPDATE accounts_notice n SET status = %(status)s::text, error = %(error)s::text, closed_at = clock_timestamp()
FROM unnest(%(ids)s::uuid[], %(attempts)s::int[]) AS c(id, attempt)
WHERE n.id = c.id AND n.attempts = c.attempt AND n.status = 'PENDING' RETURNING n.id"""

_AGAIN = """
UPDATE accounts_notice n
SET error = %(error)s::text, due_at = clock_timestamp() + make_interval(secs => %(seconds)s::float)
FROM unnest(%(ids)s::uuid[], %(attempts)s::int[]) AS c(id, attempt)
WHERE n.id = c.id AND n.attempts = c.attempt AND n.status = 'PENDING' RETURNING n.id"""


def notices_settle(claim: Claim, ids: Sequence[UUID], *, status: NoticeStatus, error: str = "") -> int:
    """Close these notices of a claim, unless somebody else has claimed them since. Returns how many. `error` names no
    address.
    """
    return len(fetch(_SETTLE, _claimed(claim, ids) | {"status": str(status), "error": error[:500]}))


def notices_again(claim: Claim, ids: Sequence[UUID], *, seconds: float, error: str) -> int:
    """Let these notices of a claim be tried again in so many seconds."""
    return len(fetch(_AGAIN, _claimed(claim, ids) | {"seconds": seconds, "error": error[:500]}))


def _claimed(claim: Claim, ids: Sequence[UUID]) -> dict[str, Any]:
    return {"ids": list(ids), "attempts": [claim.attempts[id] for id in ids]}


_TEST = """
INSERT INTO accounts_notice (id, endpoint_id, kind, dedupe_key, subject, subject_id, facts, gathered, due_at)
SELECT %(id)s::uuid, e.id, 'TEST', 'test:' || (
        SELECT coalesce(max(substr(n.dedupe_key, 6)::int), 0) + 1 FROM accounts_notice n
        WHERE n.endpoint_id = e.id AND n.kind = 'TEST' AND n.status <> 'PENDING'),
    'endpoint', e.id, jsonb_build_object('by', %(by)s::text), false, clock_timestamp()
FROM accounts_endpoint e WHERE e.id = %(endpoint)s::uuid AND e.removed_at IS NULL
ON CONFLICT (endpoint_id, dedupe_key) DO NOTHING RETURNING id"""


def notice_test(*, endpoint_id: UUID, by: str) -> UUID | None:
    """Have one endpoint told that it is tested, by whom. None while a test before is not told yet, and of a removed one."""
    found = fetch(_TEST, {"id": new_id(), "endpoint": endpoint_id, "by": by})
    return found[0][0] if found else None


_PURGE = """
WITH gone AS (
    DELETE FROM accounts_notice n USING accounts_endpoint e
    WHERE e.id = n.endpoint_id AND e.tenant_id = %(tenant)s::uuid
        AND n.closed_at < now() - make_interval(days => %(days)s::int) RETURNING n.id)
SELECT count(*) FROM gone"""

_PURGE_ENDPOINTS = """
WITH gone AS (
    DELETE FROM accounts_endpoint e WHERE e.tenant_id = %(tenant)s::uuid
        AND e.removed_at < now() - make_interval(days => %(days)s::int)
        AND NOT EXISTS (SELECT FROM accounts_notice n WHERE n.endpoint_id = e.id) RETURNING e.id)
SELECT count(*) FROM gone"""


def notices_purge(*, actor: Actor, days: int, reason: str) -> tuple[int, int]:
    """Delete what was told, or given up, more than so many days ago, and endpoints that were removed then and have nothing
    left. Returns how many of each. What is not told yet stays. The caller has checked who asks.
    """
    wanted = {"tenant": actor.tenant_id, "days": days}
    with transaction.atomic():
        told, endpoints = fetch(_PURGE, wanted)[0][0], fetch(_PURGE_ENDPOINTS, wanted)[0][0]
        audit_append(
            actor=actor,
            action="notices.purge",
            object_type="tenant",
            object_id=actor.tenant_id,
            detail={"days": days, "notices": told, "endpoints": endpoints},
            reason=reason,
        )
    return told, endpoints
