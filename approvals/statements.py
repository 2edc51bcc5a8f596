"""Constant SQL of the approvals app: what the policy said about the calls of a step, votes and decisions, and what is due."""

from accounts.statements import columns, gathered, joined
from approvals.models import Decision, Vote, Wait
from checkpoints.models import Checkpoint
from checkpoints.statements import COMMITTED, COMMITTED_MEANWHILE
from receipts.models import ToolCall

POLICY = """
ruled AS (
    INSERT INTO approvals_policydecision (id, tool_call_id, policy_version, outcome, rule)
    SELECT p.id, p.call, %(policy_version)s, 'ALLOW', p.rule
    FROM jsonb_to_recordset(%(policy)s::jsonb) AS p(id uuid, call uuid, rule text), done WHERE done.starts
    RETURNING id)"""

# The clock as a value: a volatile function in the condition would have every open wait read.
PAST_DEADLINE = """
SELECT id, run_id FROM approvals_wait WHERE status = 'OPEN' AND deadline <= (SELECT clock_timestamp())
ORDER BY deadline LIMIT %(limit)s::int"""

OVERDUE = """
SELECT tenant_id, count(*), min(deadline) FROM approvals_wait
WHERE status = 'OPEN' AND deadline < (SELECT clock_timestamp() - make_interval(secs => %(seconds)s::float8))
GROUP BY tenant_id"""

# Whether anybody was ever shown a wait.
SEEN = "SELECT 1 FROM approvals_look WHERE wait_id = %(wait)s LIMIT 1"

# What a step rests on that sends calls which policy asks nobody about: no other version came into force meanwhile. It locks
# nothing: a version that comes at this very instant comes after the step.
GOVERNED = """
allows AS (
    SELECT fence.run_id FROM fence WHERE NOT EXISTS (
        SELECT FROM approvals_policyhead h WHERE h.tenant_id = %(tenant)s AND h.number <> %(policy_number)s::int))"""

# What the people who decided rest on, kept as it is until the commit that sends on their word (rulings 4 and 35).
GOVERNING = """
governing AS (SELECT h.number FROM approvals_policyhead h WHERE h.tenant_id = %(tenant)s FOR SHARE)"""
WAITS_KEPT = """
waits_kept AS (
    SELECT w.id, coalesce(w.valid_until <= clock_timestamp(), false) AS expired FROM approvals_wait w, fence
    WHERE w.run_id = fence.run_id AND w.id = ANY(%(waits)s::uuid[]) AND w.status = 'APPROVED'
    ORDER BY w.id FOR NO KEY UPDATE OF w)"""

# The approvals that the calls of a step go by, locked by WAITS_KEPT, are used up with it, and what they have woken the run for.
CONSUMED = """
consumed AS (
    UPDATE approvals_wait w SET status = 'CONSUMED'
    FROM done WHERE w.run_id = done.run_id AND w.id = ANY(%(waits)s::uuid[]) AND w.status = 'APPROVED'
    RETURNING w.id),
heard AS (
    UPDATE runs_wakeup u SET status = 'CONSUMED', consumed_fence = done.fence
    FROM consumed, done WHERE u.wait_id = consumed.id AND u.status = 'PENDING' RETURNING u.id)"""

# What people were asked about the calls of a barrier, and what they said.
ASKED_PEOPLE = f"""
asked_people AS (
    SELECT {columns(Wait, "w")} FROM approvals_wait w WHERE w.tool_call_id = ANY(%(calls)s::uuid[])
    ORDER BY w.opened_at),
decided AS (
    SELECT {columns(Decision, "d")} FROM approvals_decision d JOIN asked_people ON asked_people.id = d.wait_id)"""

POLICY_NUMBER = "SELECT number FROM approvals_policyhead WHERE tenant_id = %(tenant)s"

# The clock and the number of the version in force, for a page: nothing is locked.
NOW_AND_POLICY = """
SELECT clock_timestamp(), coalesce((SELECT number FROM approvals_policyhead WHERE tenant_id = %(tenant)s), 0)"""

# Whether two people have to say the same of a call's outcome: by its tenant, or by the last ruling on it.
TWO_TO_SAY = """
SELECT t.two_for_verdicts OR coalesce((
    SELECT p.verdict_people > 1 FROM approvals_policydecision p WHERE p.tool_call_id = %(call)s ORDER BY p.at DESC LIMIT 1), false)
FROM accounts_tenant t WHERE t.id = %(tenant)s"""

POLICY_OPEN = "INSERT INTO approvals_policyhead (tenant_id, number) VALUES (%(tenant)s, 0) ON CONFLICT DO NOTHING"

# Which tools people are asked about, as they were when they were asked.
TOOLS_ASKED_ABOUT = """
SELECT DISTINCT a.key, t.tool, w.tool_hash
FROM approvals_wait w JOIN receipts_toolcall t ON t.id = w.tool_call_id JOIN runs_run r ON r.id = w.run_id
JOIN runs_agentversion v ON v.id = r.agent_version_id JOIN runs_agent a ON a.id = v.agent_id
WHERE w.status = 'OPEN'"""

ASKING_ABOUT = """
SELECT DISTINCT w.run_id
FROM approvals_wait w JOIN receipts_toolcall t ON t.id = w.tool_call_id JOIN runs_run r ON r.id = w.run_id
JOIN runs_agentversion v ON v.id = r.agent_version_id JOIN runs_agent a ON a.id = v.agent_id
WHERE w.status = 'OPEN' AND a.key = %(agent)s AND t.tool = %(tool)s AND w.tool_hash = %(hash)s
  AND r.status IN ('WAITING', 'HELD') LIMIT %(limit)s::int"""

# Live waits that were opened under another version than the one in force, of runs that no worker holds.
UNDER_ANOTHER_POLICY = """
SELECT DISTINCT w.run_id
FROM approvals_policyhead h
JOIN approvals_wait w ON w.tenant_id = h.tenant_id AND w.status IN ('OPEN', 'APPROVED', 'REJECTED')
    AND w.policy_version <> CASE h.number WHEN 0 THEN %(built_in)s::text ELSE 'v' || h.number END
JOIN runs_run r ON r.id = w.run_id AND r.status IN ('WAITING', 'HELD')
LIMIT %(limit)s::int"""

# A wait under its lock, with all that a decision on it depends on. Votes and calls change under the lock of the run, which is
# taken before; the version in force and the commitments are kept as they are until the commit (ruling 35).
_LOCKED_WAIT = f"""
locked_wait AS (SELECT {columns(Wait, "w")} FROM approvals_wait w WHERE w.id = %(wait)s FOR NO KEY UPDATE)"""
_ITS_CALL = f"""
its_call AS (
    SELECT {columns(ToolCall, "t")} FROM receipts_toolcall t JOIN locked_wait w ON w.tool_call_id = t.id)"""
_ITS_REVISION = f"""
its_revision AS (
    SELECT {columns(Checkpoint, "k")} FROM checkpoints_checkpoint k
    JOIN locked_wait w ON w.run_id = k.run_id AND w.checkpoint_revision = k.revision)"""
_STANDING_VOTES = f"""
standing_votes AS (
    SELECT {columns(Vote, "v")} FROM approvals_vote v WHERE v.wait_id = %(wait)s AND v.withdrawn_at IS NULL ORDER BY v.at)"""
_ITS_TENANT = """
its_tenant AS (SELECT t.self_approval, clock_timestamp() FROM accounts_tenant t WHERE t.id = %(tenant)s)"""
WAIT_LOCK = gathered(
    COMMITTED_MEANWHILE,
    GOVERNING,
    _LOCKED_WAIT,
    _ITS_CALL,
    _ITS_REVISION,
    _STANDING_VOTES,
    _ITS_TENANT,
    of=("committed", "governing", "locked_wait", "its_call", "its_revision", "standing_votes", "its_tenant"),
)

# The same for a page, which locks nothing.
_FOUND_REVISION = f"""
its_revision AS (
    SELECT {columns(Checkpoint, "k")} FROM checkpoints_checkpoint k
    WHERE k.run_id = %(run)s AND k.revision = %(revision)s)"""
_FOUND_TENANT = f"""
its_tenant AS (SELECT t.self_approval, now.* FROM accounts_tenant t, ({NOW_AND_POLICY}) now WHERE t.id = %(tenant)s)"""
WAIT_FOUND = gathered(
    COMMITTED,
    _FOUND_REVISION,
    _STANDING_VOTES,
    _FOUND_TENANT,
    of=("committed", "its_revision", "standing_votes", "its_tenant"),
)

_VOTED = """
voted AS (
    INSERT INTO approvals_vote (id, wait_id, actor, voice, verdict, seen_revision, seen_digest, seen_args_digest, reason)
    VALUES (%(id)s, %(wait)s, %(actor)s, %(voice)s, %(verdict)s, %(revision)s, %(digest)s, %(args_digest)s, %(reason)s)
    RETURNING wait_id, verdict, seen_revision, seen_digest, seen_args_digest, reason, actor)"""
VOTE = joined(_VOTED, select="SELECT wait_id FROM voted")

# The decision comes before the wait that it closes, whose trigger looks it up.
DECIDE = """
WITH decided AS (
    INSERT INTO approvals_decision (wait_id, verdict, seen_revision, seen_digest, seen_args_digest, reason, actor)
    VALUES (%(wait)s, %(verdict)s, %(revision)s, %(digest)s, %(args_digest)s, %(reason)s, %(actor)s)
    RETURNING wait_id)
UPDATE approvals_wait w SET status = %(status)s, closed_at = clock_timestamp(),
    valid_until = clock_timestamp() + make_interval(secs => %(validity)s::float8)
FROM decided WHERE w.id = decided.wait_id AND w.status = 'OPEN' RETURNING w.id"""

# The vote that decides, with all that follows from it: decision, closed wait, and the wakeup that tells the run.
_DECIDED_BY_IT = """
decided AS (
    INSERT INTO approvals_decision (wait_id, verdict, seen_revision, seen_digest, seen_args_digest, reason, actor)
    SELECT wait_id, verdict, seen_revision, seen_digest, seen_args_digest, reason, actor FROM voted RETURNING wait_id)"""
_CLOSED_BY_IT = """
closed AS (
    UPDATE approvals_wait w SET status = %(status)s, closed_at = clock_timestamp(),
        valid_until = clock_timestamp() + make_interval(secs => %(validity)s::float8)
    FROM decided WHERE w.id = decided.wait_id AND w.status = 'OPEN' RETURNING w.id, w.tenant_id, w.run_id),
woken AS (
    INSERT INTO runs_wakeup (id, tenant_id, run_id, wait_id, cause, dedupe_key)
    SELECT %(wakeup)s, tenant_id, run_id, id, 'DECISION', 'wait:' || id::text || ':DECISION' FROM closed
    ON CONFLICT DO NOTHING)"""
VOTE_AND_DECIDE = joined(_VOTED, _DECIDED_BY_IT, _CLOSED_BY_IT, select="SELECT id FROM closed")

LOOK = """
INSERT INTO approvals_look (id, wait_id, actor, door) VALUES (%(id)s, %(wait)s, %(actor)s, %(door)s)
ON CONFLICT DO NOTHING"""

# How long ago a person was first shown a wait, in seconds; nothing where they never were.
LOOKED = """
SELECT extract(epoch FROM clock_timestamp() - at)::float8 FROM approvals_look
WHERE wait_id = %(wait)s AND actor = %(actor)s"""

# Who looked at what a call was asked about last, where that was taken back to ask anew.
LOOKED_AT_BEFORE = """
ended_at IS NULL AND wait_id = (
    SELECT w.id FROM approvals_wait w
    WHERE w.tool_call_id = %(call)s AND w.id <> %(wait)s AND w.status IN ('SUPERSEDED', 'INVALIDATED')
    ORDER BY w.opened_at DESC LIMIT 1)"""

TO_REMIND = """
SELECT id, run_id FROM approvals_wait WHERE status = 'OPEN' AND remind_at IS NOT NULL AND reminded_at IS NULL
AND remind_at <= (SELECT clock_timestamp()) ORDER BY remind_at LIMIT %(limit)s::int"""

TO_ESCALATE = """
SELECT id, run_id FROM approvals_wait WHERE status = 'OPEN' AND escalate_at IS NOT NULL AND escalated_at IS NULL
AND escalate_at <= (SELECT clock_timestamp()) ORDER BY escalate_at LIMIT %(limit)s::int"""

REMIND = f"""
UPDATE approvals_wait SET reminded_at = clock_timestamp()
WHERE id = %(wait)s AND status = 'OPEN' AND reminded_at IS NULL AND remind_at <= clock_timestamp()
RETURNING (SELECT t.tool FROM receipts_toolcall t WHERE t.id = tool_call_id), {columns(Wait, "approvals_wait")}"""

ESCALATE = f"""
UPDATE approvals_wait SET escalated_at = clock_timestamp()
WHERE id = %(wait)s AND status = 'OPEN' AND escalated_at IS NULL AND escalate_at <= clock_timestamp()
RETURNING (SELECT t.tool FROM receipts_toolcall t WHERE t.id = tool_call_id), {columns(Wait, "approvals_wait")}"""

# The waits of a tenant that opened lately, each with the first look at it and its decision.
_LATELY = """
WITH lately AS (
    SELECT w.id, w.status, w.on_deadline, t.tool, w.opened_at, d.verdict, d.at AS decided_at,
        starts_with(d.actor, 'person:') AS by_person,
        (SELECT min(l.at) FROM approvals_look l WHERE l.wait_id = w.id) AS looked_at
    FROM approvals_wait w JOIN receipts_toolcall t ON t.id = w.tool_call_id
    LEFT JOIN approvals_decision d ON d.wait_id = w.id
    WHERE w.tenant_id = %(tenant)s AND w.kind = 'APPROVAL' AND w.opened_at > clock_timestamp() - %(since)s::interval),
voted AS (
    SELECT v.actor, v.verdict, v.withdrawn_at, extract(epoch FROM v.at - l.at)::float8 AS took
    FROM approvals_vote v JOIN lately ON lately.id = v.wait_id
    LEFT JOIN approvals_look l ON l.wait_id = v.wait_id AND l.actor = v.actor)"""
_DECISION = "extract(epoch FROM decided_at - opened_at)::float8"
_LOOK = "extract(epoch FROM looked_at - opened_at)::float8"
_EXPIRED = "count(*) FILTER (WHERE status = 'EXPIRED' OR NOT by_person)"
_QUICK = "count(*) FILTER (WHERE verdict = 'APPROVE' AND took < %(quick)s::float8)"

MEASURES = f"""{_LATELY}
SELECT count(*), count(*) FILTER (WHERE by_person), count(*) FILTER (WHERE verdict = 'APPROVE'), {_EXPIRED},
    count(*) FILTER (WHERE status IN ('SUPERSEDED', 'INVALIDATED')),
    percentile_cont(0.5) WITHIN GROUP (ORDER BY {_LOOK}), percentile_cont(0.95) WITHIN GROUP (ORDER BY {_LOOK}),
    percentile_cont(0.5) WITHIN GROUP (ORDER BY {_DECISION}) FILTER (WHERE by_person),
    percentile_cont(0.95) WITHIN GROUP (ORDER BY {_DECISION}) FILTER (WHERE by_person),
    (SELECT count(*) FROM voted), (SELECT {_QUICK} FROM voted)
FROM lately"""

MEASURES_BY_PERSON = f"""{_LATELY}
SELECT actor, count(*), count(*) FILTER (WHERE verdict = 'APPROVE'), count(*) FILTER (WHERE withdrawn_at IS NOT NULL), {_QUICK},
    percentile_cont(0.5) WITHIN GROUP (ORDER BY took)
FROM voted GROUP BY actor ORDER BY count(*) DESC, actor"""

MEASURES_BY_TOOL = f"""{_LATELY}
SELECT tool, count(*), count(*) FILTER (WHERE by_person), count(*) FILTER (WHERE verdict = 'APPROVE'), {_EXPIRED},
    percentile_cont(0.5) WITHIN GROUP (ORDER BY {_DECISION}) FILTER (WHERE by_person)
FROM lately GROUP BY tool ORDER BY count(*) DESC, tool"""


# What stands now for a tool of an agent as it is defined; the one that ends first comes first.
GRANTS_FOR = """
tenant_id = %(tenant)s AND agent = %(agent)s AND tool = %(tool)s AND tool_hash = %(tool_hash)s
AND revoked_at IS NULL AND uses < max_uses AND expires_at > clock_timestamp() ORDER BY expires_at, id"""

GRANT_USE = """
UPDATE approvals_grant SET uses = uses + 1
WHERE id = %(grant)s AND revoked_at IS NULL AND uses < max_uses AND expires_at > clock_timestamp() RETURNING owner"""
