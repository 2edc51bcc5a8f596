"""The SQL of a seeded part: the runs numbered from %(first)s to %(last)s with everything of theirs, in one transaction.

Every row goes in as its table takes it (a call as DISPATCHED, a wait as OPEN) and moves along legal arrows to where it ends,
so that each constraint and each trigger is asked. Bodies are those of the run that was started as the example.
"""

from collections.abc import Sequence

# An id of version 7 for a moment, as accounts.keys makes them: the time in front, the rest by chance.
FUNCTIONS = """
CREATE OR REPLACE FUNCTION pg_temp.seed_id(at timestamptz) RETURNS uuid LANGUAGE sql VOLATILE AS $$
    SELECT (lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || '7' || substr(r, 1, 3) || '8'
            || substr(r, 5, 15))::uuid
    FROM (SELECT replace(gen_random_uuid()::text, '-', '') AS r) AS chance $$"""

PATHS = """
CREATE TEMP TABLE seed_path (path text, revision int, digest text, parent text, phase text, node text, trigger text,
    encoding text, body bytea, bytes bigint)"""

ADD_PATH = """
INSERT INTO seed_path VALUES (%(path)s, %(revision)s, %(digest)s, %(parent)s, %(phase)s, %(node)s, %(trigger)s,
    %(encoding)s, %(body)s, %(bytes)s)"""

TOOLS = """
CREATE TEMP TABLE seed_tool (place int, tool text, version text, hash text, effect_class text, step_name text, args bytea,
    args_text text, args_digest text, result bytea, result_digest text, turn_digest text)"""

ADD_TOOL = """
INSERT INTO seed_tool VALUES (%(place)s, %(tool)s, %(version)s, %(hash)s, %(effect_class)s, %(step_name)s, %(args)s,
    %(args_text)s, %(args_digest)s, %(result)s, %(result_digest)s, %(turn_digest)s)"""

# Which run becomes what. Those that are still live come last: first what waits, then what is held, queued and running.
# An ended run shares its thread with one of each other part; a live one has its own.
RUNS = """
CREATE TEMP TABLE seed_run ON COMMIT DROP AS
WITH numbered AS (
    SELECT i, i - (%(runs)s - %(live)s) AS place FROM generate_series(%(first)s::int, %(last)s::int) AS i),
ended AS (
    SELECT i, place, CASE WHEN place <= 0 THEN
            (ARRAY['COMPLETED','CANCELLED','FAILED','SETTLED'])[1 + (i %% 100 >= 85)::int + (i %% 100 >= 92)::int
                                                              + (i %% 100 >= 98)::int]
        WHEN place <= %(waits)s THEN 'WAITING'
        WHEN place <= %(waits)s + %(held)s THEN 'HELD'
        WHEN place <= %(waits)s + %(held)s + %(queued)s THEN 'QUEUED'
        ELSE 'RUNNING' END AS status
    FROM numbered),
timed AS (
    SELECT ended.*, %(now)s::timestamptz - CASE WHEN place > 0 THEN interval '1 second' * (259200 * (1 - place::float / %(live)s) + 60)
        ELSE interval '1 second' * (7776000 * (1 - i::float / %(runs)s) + 259200) END AS at
    FROM ended)
SELECT i, place, status, at, pg_temp.seed_id(at) AS id, pg_temp.seed_id(at) AS own_thread,
    i %% 5 = 4 AS evidence, CASE WHEN place > 0 THEN 'live-' || i ELSE 'desk-' || (i %% %(part)s) END AS thread,
    CASE WHEN status <> 'HELD' THEN NULL ELSE (ARRAY['UNCERTAIN_CALL','RESUME_REFUSED','BUDGET','PAUSED','TAKEOVER_LIMIT'])[1 + place %% 5]
    END AS hold_reason,
    CASE WHEN i = %(runs)s THEN %(long_turns)s ELSE greatest(1, floor(%(turns)s
        * (ARRAY[0.4, 0.4, 0.6, 0.6, 0.8, 0.8, 1, 1.4, 1.8, 2.2])[1 + i %% 10] + (i / 10 %% 10) / 10.0 + 0.05))::int END AS turns,
    place <= 0 AND i %% 100 < 85 AND i %% 20 < 2 AS decided,
    CASE WHEN status = 'COMPLETED' AND i %% 20 < 2 THEN 'decided' WHEN status = 'COMPLETED' THEN 'finished'
        WHEN status = 'WAITING' THEN 'asked' WHEN status IN ('RUNNING', 'HELD') THEN 'calling'
        WHEN status = 'QUEUED' THEN 'new' ELSE 'stopped' END AS path,
    'person:' || (ARRAY['operator','a.larsen','r.diaz','m.okafor','t.nguyen','s.haddad'])[1 + i %% 6] AS person,
    (ARRAY['Larch','Maple','Alder','Cedar','Rowan','Birch','Hazel','Yew'])[1 + i %% 8] || ' and '
        || (ARRAY['Elm','Aspen','Linden','Spruce','Holly'])[1 + i %% 5] || ' of '
        || to_char(at, 'YYYY-MM-DD') AS title
FROM timed"""

THREADS = """
INSERT INTO runs_thread (id, tenant_id, agent_id, key)
SELECT own_thread, %(tenant)s, CASE WHEN evidence THEN %(evidence_agent)s ELSE %(agent)s END::uuid, thread
FROM seed_run ON CONFLICT DO NOTHING"""

ADMITTED = """
INSERT INTO runs_run (id, tenant_id, thread_id, agent_version_id, lineage_id, root_run_id, title, admission_key, created_by,
    created_at)
SELECT r.id, %(tenant)s, t.id, CASE WHEN evidence THEN %(evidence_version)s ELSE %(version)s END::uuid, r.id, r.id, r.title,
    'seed-' || r.i, r.person, r.at
FROM seed_run r
JOIN runs_thread t ON t.key = r.thread
    AND t.agent_id = CASE WHEN evidence THEN %(evidence_agent)s ELSE %(agent)s END::uuid
ORDER BY r.i"""

LEASES = "INSERT INTO runs_lease (run_id) SELECT id FROM seed_run"

ALLOWANCES = """
INSERT INTO runs_allowance (run_id, cap, held_unknown, reserved, spent)
SELECT r.id, a.cap, a.held_unknown, a.reserved, ARRAY[r.turns, r.turns, r.turns * 1840, r.turns * 5200, NULL]::bigint[]
FROM seed_run r, runs_allowance a WHERE a.run_id = %(example)s"""

INTENTS = """
INSERT INTO checkpoints_intent (run_id, version, body, data_key_id, revised_by, reason, digest, at)
SELECT r.id, n.version, n.body, n.data_key_id, r.person, n.reason, n.digest, r.at
FROM seed_run r, checkpoints_intent n WHERE n.run_id = %(example)s"""

REVISIONS = """
INSERT INTO checkpoints_checkpoint (save_id, tenant_id, run_id, revision, parent_digest, format_version, phase, next_node,
    trigger, fence, intent_version, digest, encoding, body, data_key_id, body_bytes, created_at)
SELECT pg_temp.seed_id(r.at), %(tenant)s, r.id, p.revision, p.parent, 1, p.phase, p.node, p.trigger,
    (p.revision > 1)::int, 1, p.digest, p.encoding, p.body, %(data_key)s, p.bytes, r.at + interval '3 seconds' * p.revision
FROM seed_run r JOIN seed_path p USING (path) ORDER BY r.i, p.revision"""

HEADS = """
INSERT INTO checkpoints_head (run_id, revision, digest, phase, trigger)
SELECT r.id, 1, p.digest, p.phase, p.trigger FROM seed_run r JOIN seed_path p USING (path) WHERE p.revision = 1"""


def head_at(revision: int) -> str:
    """Move the heads of the runs that get this far to a revision."""
    return f"""
UPDATE checkpoints_head h SET revision = p.revision, digest = p.digest, phase = p.phase, trigger = p.trigger
FROM seed_run r JOIN seed_path p USING (path) WHERE h.run_id = r.id AND p.revision = {revision}"""


FENCES = """
UPDATE runs_lease l SET fence = 1, owner = CASE WHEN r.status = 'RUNNING' THEN 'seeded-worker' END,
    acquired_at = CASE WHEN r.status = 'RUNNING' THEN r.at END,
    expires_at = CASE WHEN r.status = 'RUNNING' THEN %(now)s::timestamptz + interval '1 year' END
FROM seed_run r WHERE l.run_id = r.id AND r.status <> 'QUEUED'"""

TRANSITIONS = """
INSERT INTO runs_runtransition (run_id, from_status, to_status, cause, actor, fence, at)
SELECT r.id, m.start, m.stop, m.cause, m.actor, m.fence, r.at + m.after FROM seed_run r, LATERAL (VALUES
    (1, NULL, 'QUEUED', 'ADMITTED', r.person, NULL::bigint, interval '0'),
    (2, 'QUEUED', 'RUNNING', 'TAKEN', 'worker:seeded', 1, interval '1 second'),
    (3, 'RUNNING', r.status, CASE r.status WHEN 'WAITING' THEN 'WAIT_OPENED' WHEN 'HELD' THEN r.hold_reason ELSE r.status END,
        'worker:seeded', 1, interval '4 seconds' * (r.turns + 1))) AS m(n, start, stop, cause, actor, fence, after)
WHERE m.n = 1 OR (r.status <> 'QUEUED' AND (m.n = 2 OR r.status <> 'RUNNING'))
ORDER BY r.i, m.n"""

TURNS = """
CREATE TEMP TABLE seed_turn ON COMMIT DROP AS
SELECT r.id AS run, r.i, r.at AS began, n, r.at + interval '4 seconds' * n AS at, pg_temp.seed_id(r.at + interval '4 seconds' * n) AS turn,
    pg_temp.seed_id(r.at + interval '4 seconds' * n + interval '1 second') AS call, last.asks, t.place,
    CASE WHEN NOT last.one THEN CASE WHEN (r.i + n) %% 23 = 0 THEN 'FAILED' WHEN (r.i + n) %% 97 = 0 THEN 'DENIED' ELSE 'SUCCEEDED' END
        WHEN r.status = 'WAITING' THEN 'AWAITING_APPROVAL' WHEN r.hold_reason = 'UNCERTAIN_CALL' THEN 'UNCERTAIN'
        WHEN r.status = 'RUNNING' THEN 'DISPATCHED' WHEN r.status = 'FAILED' THEN 'FAILED'
        WHEN r.decided AND r.i %% 20 = 1 THEN 'REJECTED' ELSE 'SUCCEEDED' END AS status,
    CASE WHEN (r.i + n) %% 17 = 0 THEN 2 ELSE 1 END AS tries
FROM seed_run r CROSS JOIN LATERAL generate_series(1, r.turns) AS n
CROSS JOIN LATERAL (SELECT n = r.turns AS one, n = r.turns AND (r.status IN ('WAITING', 'HELD') OR r.decided) AS asks) AS last
JOIN seed_tool t ON t.place = CASE WHEN last.asks THEN 4 ELSE (n - 1) %% 4 END
WHERE r.status <> 'QUEUED'"""

MODEL_CALLS = """
INSERT INTO receipts_modelcall (id, tenant_id, run_id, turn_no, at_revision, status, model, request_digest, response_id,
    input_tokens, output_tokens, created_at, sealed_fence)
SELECT turn, %(tenant)s, run, n, 1, 'DISPATCHED', 'scripted', encode(sha256(turn::text::bytea), 'hex'), 'seeded-' || n, 1620, 220, at, 1
FROM seed_turn ORDER BY i, n"""

MODEL_ATTEMPTS = """
INSERT INTO receipts_attempt (model_call_id, attempt_no, fence, dispatched_at, authorised_by)
SELECT turn, 1, 1, at, 'run' FROM seed_turn ORDER BY i, n"""

MODEL_ANSWERS = """
UPDATE receipts_attempt a SET outcome = 'OK', finished_at = s.at + interval '900 milliseconds', response_digest = t.turn_digest
FROM seed_turn s JOIN seed_tool t USING (place) WHERE a.model_call_id = s.turn"""

SEALS = """
UPDATE receipts_modelcall m SET status = 'SEALED', response_digest = t.turn_digest, sealed_at = s.at + interval '900 milliseconds'
FROM seed_turn s JOIN seed_tool t USING (place) WHERE m.id = s.turn"""

# The keys are those of runs.canonical: the digest of the canonical JSON, whose fields stand in the order of their names.
CALLS = """
INSERT INTO receipts_toolcall (id, tenant_id, run_id, ordinal, tool, tool_version, tool_hash, effect_class, step_name,
    args_digest, args, data_key_id, idempotency_key, intent_key, status, attempts, proposed_revision, turn_no, created_at)
SELECT s.call, %(tenant)s, s.run, s.n, t.tool, t.version, t.hash, t.effect_class, step.name, t.args_digest, t.args, %(data_key)s,
    encode(sha256(convert_to('{"args":' || t.args_text || ',"run_id":"' || s.run || '","step_name":"' || step.name || '","v":1}', 'UTF8')), 'hex'),
    encode(sha256(convert_to('{"args":' || t.args_text || ',"step_name":"' || step.name || '","v":1}', 'UTF8')), 'hex'),
    CASE WHEN s.status IN ('AWAITING_APPROVAL', 'REJECTED', 'DENIED') THEN 'PROPOSED' ELSE 'DISPATCHED' END,
    CASE WHEN s.status IN ('AWAITING_APPROVAL', 'REJECTED', 'DENIED') THEN 0 ELSE s.tries END, 1, s.n, s.at + interval '1 second'
FROM seed_turn s JOIN seed_tool t USING (place), LATERAL (SELECT t.step_name || CASE WHEN s.n > 4 THEN '#' || s.n ELSE '' END) AS step(name)
ORDER BY s.i, s.n"""

CALL_ATTEMPTS = """
INSERT INTO receipts_attempt (tool_call_id, attempt_no, fence, dispatched_at, deadline_at, authorised_by)
SELECT s.call, try, 1, s.at + interval '1 second' * try, s.at + interval '16 seconds', 'policy:' || %(policy)s
FROM seed_turn s, LATERAL generate_series(1, s.tries) AS try
WHERE s.status IN ('SUCCEEDED', 'FAILED', 'UNCERTAIN', 'DISPATCHED') ORDER BY s.i, s.n, try"""

CALL_ANSWERS = """
UPDATE receipts_attempt a SET finished_at = a.dispatched_at + interval '700 milliseconds',
    outcome = CASE WHEN a.attempt_no < s.tries THEN 'ERROR_RETRYABLE' WHEN s.status = 'FAILED' THEN 'ERROR_FINAL'
        WHEN s.status = 'UNCERTAIN' THEN 'NO_RESPONSE' ELSE 'OK' END,
    error = CASE WHEN a.attempt_no < s.tries THEN 'the other side was busy' WHEN s.status = 'FAILED' THEN 'the other side said no' ELSE '' END,
    response_digest = CASE WHEN a.attempt_no = s.tries AND s.status = 'SUCCEEDED' THEN t.result_digest END
FROM seed_turn s JOIN seed_tool t USING (place) WHERE a.tool_call_id = s.call AND (s.status <> 'DISPATCHED' OR a.attempt_no < s.tries)"""

CALL_ENDS = """
UPDATE receipts_toolcall c SET status = CASE s.status WHEN 'REJECTED' THEN 'AWAITING_APPROVAL' ELSE s.status END,
    external_ref = CASE WHEN s.status = 'SUCCEEDED' AND c.effect_class <> 'READ_ONLY' THEN 'https://wiki.example/pages/' || s.i || '-' || s.n END,
    error = CASE WHEN s.status = 'FAILED' THEN 'the other side said no' ELSE '' END
FROM seed_turn s WHERE c.id = s.call AND s.status <> 'DISPATCHED'"""

RESULTS = """
INSERT INTO receipts_result (tool_call_id, source, ok, attempt_no, value, data_key_id, digest, fence, at)
SELECT s.call, 'LIVE', true, s.tries, t.result, %(data_key)s, t.result_digest, 1, s.at + interval '2 seconds'
FROM seed_turn s JOIN seed_tool t USING (place) WHERE s.status = 'SUCCEEDED' ORDER BY s.i, s.n"""

PROPOSALS = """
INSERT INTO receipts_proposal (model_call_id, ordinal, tool, args_digest, disposition, tool_call_id)
SELECT s.turn, 1, t.tool, t.args_digest, 'NEW', s.call FROM seed_turn s JOIN seed_tool t USING (place) ORDER BY s.i, s.n"""

CLAIMS = """
INSERT INTO receipts_claim (tenant_id, lineage_id, intent_key, tool_call_id)
SELECT %(tenant)s, s.run, c.intent_key, s.call FROM seed_turn s JOIN receipts_toolcall c ON c.id = s.call
WHERE c.effect_class <> 'READ_ONLY' AND s.status IN ('SUCCEEDED', 'UNCERTAIN', 'DISPATCHED')"""

EFFECTS = """
INSERT INTO receipts_effect (id, tenant_id, run_id, tool_call_id, idempotency_key, kind, target, external_ref, payload_digest, at)
SELECT pg_temp.seed_id(s.at), %(tenant)s, s.run, s.call, c.idempotency_key, c.tool, 'wiki.example', c.external_ref, c.args_digest,
    s.at + interval '2 seconds'
FROM seed_turn s JOIN receipts_toolcall c ON c.id = s.call WHERE c.effect_class <> 'READ_ONLY' AND s.status = 'SUCCEEDED'"""

# One open wait for each waiting run; of those that were decided half are approved and half have run out or were rejected.
WAITS = """
INSERT INTO approvals_wait (id, tenant_id, run_id, tool_call_id, checkpoint_revision, checkpoint_digest, args_digest, tool_hash,
    policy_version, policy_rule, risk, batchable, opened_fence, opened_at, deadline)
SELECT pg_temp.seed_id(s.at + interval '2 seconds'), %(tenant)s, s.run, s.call, 2, p.digest, c.args_digest, c.tool_hash, %(policy)s,
    'Rule 3: what can happen twice needs a person.', (ARRAY['NORMAL','NORMAL','NORMAL','LOW','LOW','HIGH'])[1 + s.i %% 6],
    s.i %% 6 IN (3, 4), 1, s.at + interval '2 seconds',
    CASE WHEN r.status = 'WAITING' THEN %(now)s::timestamptz + interval '1 second' * (600 + (r.place * 7919) %% 1209600)
        ELSE s.at + interval '1 day' END
FROM seed_turn s JOIN seed_run r ON r.id = s.run JOIN receipts_toolcall c ON c.id = s.call
JOIN seed_path p ON p.path = r.path AND p.revision = 2
WHERE s.asks AND (r.status = 'WAITING' OR r.path = 'decided') ORDER BY s.i"""

DECIDED = """
CREATE TEMP TABLE seed_decided ON COMMIT DROP AS
SELECT w.id, w.checkpoint_revision, w.checkpoint_digest, w.args_digest, w.opened_at + interval '1 minute' * (2 + r.i %% 50) AS at,
    'person:' || (ARRAY['r.diaz','m.okafor','t.nguyen'])[1 + r.i %% 3] AS actor, r.i %% 40 = 1 AS expires,
    CASE WHEN r.i %% 20 = 0 THEN 'APPROVE' ELSE 'REJECT' END AS verdict
FROM approvals_wait w JOIN seed_run r ON r.id = w.run_id AND r.path = 'decided'"""

VOTES = """
INSERT INTO approvals_vote (id, wait_id, actor, voice, verdict, seen_revision, seen_digest, seen_args_digest, reason, at)
SELECT pg_temp.seed_id(at), id, actor, actor, verdict, checkpoint_revision, checkpoint_digest, args_digest,
    CASE verdict WHEN 'APPROVE' THEN 'The figures are those of both funds.' ELSE 'The day of the second fund is wrong.' END, at
FROM seed_decided WHERE NOT expires"""

DECISIONS = """
INSERT INTO approvals_decision (wait_id, verdict, seen_revision, seen_digest, seen_args_digest, reason, actor, at)
SELECT v.wait_id, v.verdict, v.seen_revision, v.seen_digest, v.seen_args_digest, v.reason, v.actor, v.at
FROM approvals_vote v JOIN seed_decided d ON d.id = v.wait_id"""

WAITS_CLOSED = """
UPDATE approvals_wait w SET status = CASE WHEN d.expires THEN 'EXPIRED' WHEN d.verdict = 'APPROVE' THEN 'APPROVED' ELSE 'REJECTED' END,
    closed_at = CASE WHEN d.expires THEN w.deadline ELSE d.at END,
    status_reason = CASE WHEN d.expires THEN 'nobody decided in time' ELSE '' END,
    valid_until = CASE WHEN NOT d.expires AND d.verdict = 'APPROVE' THEN d.at + interval '1 day' END
FROM seed_decided d WHERE w.id = d.id"""

WAITS_CONSUMED = """
UPDATE approvals_wait w SET status = 'CONSUMED' FROM seed_decided d WHERE w.id = d.id AND NOT d.expires"""

CALLS_REJECTED = """
UPDATE receipts_toolcall c SET status = 'REJECTED' FROM seed_turn s WHERE c.id = s.call AND s.status = 'REJECTED'"""

REPORTS = """
INSERT INTO receipts_report (id, tenant_id, thread_id, slug)
SELECT pg_temp.seed_id(s.at), %(tenant)s, r.thread_id, 'overlap-' || s.i FROM seed_turn s JOIN runs_run r ON r.id = s.run
WHERE s.n = 1 AND r.admission_key = 'seed-' || s.i AND s.i %% 20 = 0"""

REPORT_VERSIONS = """
INSERT INTO receipts_reportversion (id, tenant_id, report_id, version_no, run_id, tool_call_id, title, sha256, source_calls, fence, committed_at)
SELECT pg_temp.seed_id(s.at), %(tenant)s, p.id, 1, s.run, s.call, r.title, %(report)s, ARRAY[s.call], 1, s.at + interval '2 seconds'
FROM seed_turn s JOIN runs_run r ON r.id = s.run
JOIN receipts_report p ON p.thread_id = r.thread_id AND p.slug = 'overlap-' || s.i WHERE s.n = 1"""

PUBLICATIONS = """
INSERT INTO receipts_publication (id, tenant_id, report_version_id, channel, status, changed_at)
SELECT pg_temp.seed_id(v.committed_at), %(tenant)s, v.id, 'console', 'PUBLISHED', v.committed_at
FROM receipts_reportversion v JOIN seed_run r ON r.id = v.run_id"""

TAKEN = "UPDATE runs_run t SET status = 'RUNNING' FROM seed_run r WHERE t.id = r.id AND r.status <> 'QUEUED'"

# A stopped run goes by way of STOPPING. Queued ones wait for a day that is far away, so that no worker takes them.
STOPPING = "UPDATE runs_run t SET status = 'STOPPING' FROM seed_run r WHERE t.id = r.id AND r.status = 'CANCELLED'"

RESTING = """
UPDATE runs_run t SET status = r.status, hold_reason = r.hold_reason,
    hold_detail = CASE WHEN r.hold_reason IS NULL THEN '' ELSE 'seeded' END,
    due_at = CASE WHEN r.status = 'QUEUED' THEN %(now)s::timestamptz + interval '1 year' END,
    ended_at = CASE WHEN r.place <= 0 THEN r.at + interval '4 seconds' * (r.turns + 1) END,
    end_reason = CASE r.status WHEN 'FAILED' THEN 'the other side said no' WHEN 'CANCELLED' THEN 'stopped by ' || r.person ELSE '' END
FROM seed_run r WHERE t.id = r.id AND r.status <> 'RUNNING'"""

STOPS = """
INSERT INTO runs_controlrequest (id, tenant_id, run_id, reason, requested_by, accepted_at)
SELECT pg_temp.seed_id(at), %(tenant)s, id, 'Not needed any more.', person, at + interval '2 seconds' FROM seed_run
WHERE status = 'CANCELLED'"""

STOPS_SETTLED = """
UPDATE runs_controlrequest c SET status = 'SETTLED', settled_at = r.at + interval '4 seconds' * (r.turns + 1)
FROM seed_run r WHERE c.run_id = r.id"""

# The numbers of a part are few beside the tables: without these the server reads whole tables to find them.
PLANNED = "SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off; SET LOCAL random_page_cost = 1"

# Nothing is ignored. Said outright, it spares each trigger an error that it would catch.
NOTHING_IGNORED = "SET LOCAL pgtrigger.ignore = '{}'"

# What is asked only at the end of a transaction is asked after each statement: a trigger takes the longer, the more still waits.
AT_ONCE = "SET CONSTRAINTS ALL IMMEDIATE"

PART: Sequence[tuple[str, str]] = (
    ("plans", PLANNED),
    ("keys", AT_ONCE),
    ("triggers", NOTHING_IGNORED),
    ("runs", RUNS),
    ("their index", "CREATE INDEX ON seed_run (id); CREATE INDEX ON seed_run (path); ANALYZE seed_run"),
    ("threads", THREADS),
    ("admissions", ADMITTED),
    ("leases", LEASES),
    ("allowances", ALLOWANCES),
    ("goals", INTENTS),
    ("revisions", REVISIONS),
    ("heads", HEADS),
    *((f"heads at {revision}", head_at(revision)) for revision in range(2, 6)),
    ("fences", FENCES),
    ("transitions", TRANSITIONS),
    ("taken", TAKEN),
    ("turns", TURNS),
    ("their indexes", "CREATE INDEX ON seed_turn (turn); CREATE INDEX ON seed_turn (call); ANALYZE seed_turn"),
    ("model calls", MODEL_CALLS),
    ("their attempts", MODEL_ATTEMPTS),
    ("their answers", MODEL_ANSWERS),
    ("seals", SEALS),
    ("calls", CALLS),
    ("attempts", CALL_ATTEMPTS),
    ("answers", CALL_ANSWERS),
    ("proposals", PROPOSALS),
    ("ends of calls", CALL_ENDS),
    ("results", RESULTS),
    ("claims", CLAIMS),
    ("effects", EFFECTS),
    ("waits", WAITS),
    ("decided", DECIDED),
    ("votes", VOTES),
    ("decisions", DECISIONS),
    ("waits closed", WAITS_CLOSED),
    ("waits consumed", WAITS_CONSUMED),
    ("calls rejected", CALLS_REJECTED),
    ("reports", REPORTS),
    ("versions", REPORT_VERSIONS),
    ("publications", PUBLICATIONS),
    ("stopping", STOPPING),
    ("resting", RESTING),
    ("stops", STOPS),
    ("stops settled", STOPS_SETTLED),
)

COUNTED = """
SELECT (SELECT count(*) FROM runs_run), (SELECT count(*) FROM receipts_modelcall) + (SELECT count(*) FROM receipts_toolcall)
    + (SELECT count(*) FROM receipts_attempt), (SELECT count(*) FROM approvals_wait WHERE status = 'OPEN')"""
