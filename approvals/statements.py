"""Constant SQL of the approvals app: what the policy said about the calls of a step, and the waits that are due."""

POLICY = """
ruled AS (
    INSERT INTO approvals_policydecision (id, tool_call_id, policy_version, outcome, rule)
    SELECT p.id, called.id, %(policy_version)s, 'ALLOW', p.rule
    FROM called JOIN jsonb_to_recordset(%(policy)s::jsonb) AS p(id uuid, call uuid, rule text) ON p.call = called.id
    WHERE called.status = 'DISPATCHED' RETURNING id)"""

# The clock as a value: a volatile function in the condition would have every open wait read.
PAST_DEADLINE = """
SELECT id, run_id FROM approvals_wait WHERE status = 'OPEN' AND deadline <= (SELECT clock_timestamp())
ORDER BY deadline LIMIT %(limit)s::int"""
