"""Constant SQL of the approvals app: what the policy said about the calls of a step, and the waits that are due."""

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

# What a step rests on that sends calls which policy asks nobody about: no other version came into force meanwhile. It locks
# nothing: a version that comes at this very instant comes after the step.
GOVERNED = """
allows AS (
    SELECT fence.run_id FROM fence WHERE NOT EXISTS (
        SELECT FROM approvals_policyhead h WHERE h.tenant_id = %(tenant)s AND h.number <> %(policy_number)s::int))"""

POLICY_NUMBER = "SELECT number FROM approvals_policyhead WHERE tenant_id = %(tenant)s"

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
