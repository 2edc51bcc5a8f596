"""The one statement of each kind of step, joined from the parts of the owners, and what it answered.

Facts hang on the fence; new work hangs on `go` as well. Where `go` is empty the facts still commit, in the phase that was
reached without the new work (DESIGN.md ruling 24): with a result in the same statement, with a turn in the one that follows.
"""

import json
from dataclasses import dataclass
from typing import Any

from accounts.statements import DATA_KEY, MEMBERS, as_array, gathered, joined
from approvals.statements import ASKED_PEOPLE, CONSUMED, GOVERNED, GOVERNING, POLICY, WAITS_KEPT
from checkpoints.statements import (
    CHAINED,
    COMMITTED,
    COMMITTED_KEPT,
    HEAD_LOCKED,
    HEADED,
    LAPSED,
    OBLIGATION,
    PROMISED,
    SAVE,
    TASK_WRITE,
    UNDER_LOCKS,
    UNKNOWN,
)
from receipts.statements import (
    ASK,
    ASK_AGAIN,
    CALLS,
    DISPATCH,
    EFFECT,
    OPEN_CALL,
    READS_RELEASED,
    RESULT,
    SEAL,
    UNANSWERED,
    UNSENT,
)
from runs.statements import (
    ARTIFACT,
    BUDGET,
    CONTINUED,
    FENCE,
    GIVEN,
    GO,
    GO_WHERE_ALLOWED,
    LIVING,
    LOCKED,
    MOVED,
    PRINCIPAL,
    WAKEUPS_CANCELLED,
    WOKEN,
    run_statement,
)
from runs.states import BudgetUnit
from runtime.conversation import HISTORY, OF_HISTORY
from runtime.drain import draining

_DONE_WHERE_GO = """
done AS (SELECT go.run_id, go.fence, true AS starts FROM go)"""

_DONE_WHERE_HELD = """
done AS (SELECT fence.run_id, fence.fence, EXISTS (SELECT FROM go) AS starts FROM fence)"""

# A revision that something is sent with stands where new work may start, another one under the fence alone; a result's own
# stands only where its call is open (OPEN_CALL).
_STANDS_WHERE_GO = """
stands AS (SELECT go.run_id, go.fence, true AS starts FROM go)"""

_STANDS_WHERE_HELD = """
stands AS (SELECT fence.run_id, fence.fence, EXISTS (SELECT FROM go) AS starts FROM fence)"""

_DONE_WHERE_OPEN = """
done AS (SELECT stands.run_id, stands.fence, stands.starts FROM stands)"""

_ASKING_WHERE_GO = """
asking AS (SELECT go.run_id, go.fence FROM go)"""

_ASKING_AFTER_RESULT = """
asking AS (SELECT done.run_id, done.fence FROM done, answered WHERE done.starts AND %(ask)s)"""

_GATES = """
SELECT fence.run_id IS NOT NULL, fence.stop_requested, fence.pause_requested, EXISTS (SELECT FROM go),
       EXISTS (SELECT FROM done), fence.news, (SELECT to_jsonb(purse) FROM purse WHERE true = ANY (short)), {started}
FROM (SELECT) AS one LEFT JOIN fence ON true"""
_NONE = _GATES.format(started="NULL::int")
_SENT = _GATES.format(started="(SELECT count(*) FROM tried)")
_ASKED = _GATES.format(started="(SELECT attempt_no FROM asked_try)")

ASK_FIRST = joined(FENCE, GO, _DONE_WHERE_GO, _ASKING_WHERE_GO, ASK, BUDGET, select=_ASKED)
ASK_RETRY = joined(
    FENCE,
    GO,
    _DONE_WHERE_GO,
    _ASKING_WHERE_GO,
    ASK_AGAIN,
    BUDGET,
    select=_ASKED,
)
_SEAL = (SAVE, ARTIFACT, SEAL, CALLS, POLICY, BUDGET)
# A turn with calls that are sent in the same commit. Where none may be, nothing of it is written, and SEAL_TURN follows.
SEAL_AND_SEND = joined(
    FENCE,
    GOVERNED,
    GO_WHERE_ALLOWED,
    _STANDS_WHERE_GO,
    *_SEAL,
    select=_SENT,
)
SEAL_TURN = joined(FENCE, GO, _STANDS_WHERE_HELD, *_SEAL, select=_SENT)
# A turn while no revision can be saved: what was said and proposed, on the head as it is.
SEAL_ALONE = joined(
    FENCE, GOVERNED, GO_WHERE_ALLOWED, _DONE_WHERE_HELD, ARTIFACT, SEAL, CALLS, POLICY, BUDGET, select=_SENT
)
_NEXT = (OBLIGATION, _ASKING_AFTER_RESULT, ASK, BUDGET)
# The result of a call that only reads, and the one of any call.
RECORD_READ = joined(FENCE, GO, OPEN_CALL, SAVE, RESULT, *_NEXT, select=_ASKED)
RECORD_RESULT = joined(FENCE, GO, OPEN_CALL, SAVE, RESULT, EFFECT, *_NEXT, select=_ASKED)
# A result of a super-step whose other calls are still out: the facts on the head as it is, and no revision (F20).
RECORD_TASK = joined(
    FENCE,
    GO,
    OPEN_CALL,
    _DONE_WHERE_OPEN,
    RESULT,
    EFFECT,
    OBLIGATION,
    TASK_WRITE,
    BUDGET,
    select=_GATES.format(started="(SELECT count(*) FROM task_written)"),
)
# A result whose snapshot can't be saved: the facts alone, on the head as it is (T11).
RECORD_ALONE = joined(FENCE, GO, OPEN_CALL, _DONE_WHERE_OPEN, RESULT, EFFECT, OBLIGATION, BUDGET, select=_NONE)
DISPATCH_CALLS = joined(FENCE, GO, _STANDS_WHERE_GO, SAVE, DISPATCH, CONSUMED, BUDGET, select=_SENT)
DISPATCH_AGAIN = joined(FENCE, GO, _DONE_WHERE_GO, DISPATCH, BUDGET, select=_SENT)

# Everything that a worker has to know of a run that it has taken, as it is at one moment after that.
RESTORE = gathered(
    CONTINUED,
    WOKEN,
    UNANSWERED,
    UNKNOWN,
    HEADED,
    CHAINED,
    GIVEN,
    *HISTORY,
    LAPSED,
    PRINCIPAL,
    COMMITTED,
    DATA_KEY,
    of=(
        *("continued", "woken", "unanswered", "unknown", "headed", "chained", "given"),
        *OF_HISTORY,
        *("lapsed", "principal", "committed", "data_key"),
    ),
)

# What the calls of a barrier wait for.
AWAITED = gathered(UNSENT, ASKED_PEOPLE, of=("unsent", "asked_people", "decided"))

# What the guards of a dispatch look at, under the lease and kept as it is until its commit (rulings 26 and 35).
GROUND = gathered(
    FENCE,
    MEMBERS,
    COMMITTED_KEPT,
    GOVERNING,
    WAITS_KEPT,
    of=("fence", "members", "committed", "governing", "waits_kept"),
)

# What has to hold for a run to complete, locked in the order of ruling 37 until the commit.
LAST_LOOK = gathered(
    FENCE,
    LOCKED,
    HEAD_LOCKED,
    PROMISED,
    COMMITTED_KEPT,
    MEMBERS,
    LIVING,
    of=("fence", "locked", "head_locked", "promised", "committed", "members", "living"),
)
# The end of a completed run, with lease, run and head locked by LAST_LOOK.
FINISH = joined(
    UNDER_LOCKS,
    SAVE,
    READS_RELEASED,
    WAKEUPS_CANCELLED,
    MOVED,
    select="SELECT (SELECT count(*) FROM saved), (SELECT count(*) FROM moved), "
    "(SELECT array_agg(cause) FROM cancelled)",
)

# What is planned ahead in a session that waits for its first hint: what a takeover and a wake need first, then the rest.
AHEAD = (
    *(RESTORE, AWAITED, GROUND, DISPATCH_AGAIN, DISPATCH_CALLS, RECORD_READ, RECORD_RESULT, ASK_FIRST, SEAL_AND_SEND),
    *(LAST_LOOK, FINISH, SEAL_TURN, ASK_RETRY, RECORD_TASK, RECORD_ALONE, SEAL_ALONE),
)


@dataclass(frozen=True)
class Written:
    """What one step's statement found and did.

    held: the fence was good. stopping, pausing: a stop or a pause is requested. go: new work could start. done: the facts were written.
    news: how often the run was told something. short: the units without room for what was to be reserved, each
    {unit, wanted, room, cap}. started: of a model call the number of the attempt that was dispatched, of tool calls how
    many were; or None.
    """

    held: bool
    stopping: bool
    pausing: bool
    go: bool
    done: bool
    news: int
    short: tuple[dict[str, Any], ...]
    started: int | None


def _short(purse: dict[str, list[Any]]) -> tuple[dict[str, Any], ...]:
    """The units of an allowance that have no room for what was to be reserved."""
    told = ("wanted", "room", "cap")
    return tuple(
        {"unit": str(unit), **{name: purse[name][place] for name in told}}
        for place, unit in enumerate(BudgetUnit)
        if purse["short"][place]
    )


def write(sql: str, params: dict[str, Any]) -> Written:
    """Send one step. A worker that drains starts nothing new with it."""
    gates: dict[str, Any] = {"news": None, "start": not draining(), "waits": as_array(())}
    held, stopping, pausing, go, done, news, short, started = run_statement(sql, gates | params)
    return Written(
        held=bool(held),
        stopping=bool(stopping),
        pausing=bool(pausing),
        go=bool(go),
        done=bool(done),
        news=int(news or 0),
        short=_short(json.loads(short)) if short else (),
        started=int(started) if started else None,
    )
