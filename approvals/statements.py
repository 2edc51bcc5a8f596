"""The approvals app's part of a worker's step: what the policy said about the calls that are dispatched with the turn."""

POLICY = """
ruled AS (
    INSERT INTO approvals_policydecision (id, tool_call_id, policy_version, outcome, rule)
    SELECT p.id, called.id, %(policy_version)s, 'ALLOW', p.rule
    FROM called JOIN jsonb_to_recordset(%(policy)s::jsonb) AS p(id uuid, call uuid, rule text) ON p.call = called.id
    WHERE called.status = 'DISPATCHED' RETURNING id)"""
