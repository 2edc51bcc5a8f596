"""Every pair of states of every machine, moved by direct SQL."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import pgtrigger
import pytest
from django.core.management import call_command
from django.utils import timezone

from accounts.keys import new_id
from accounts.models import Notice
from accounts.states import NOTICE_MOVES, NoticeStatus
from approvals.states import WAIT_MOVES, WaitStatus
from checkpoints.models import SaveAttempt
from checkpoints.states import (
    COMMITMENT_MOVES,
    OBLIGATION_MOVES,
    PHASE_KEEPING_TRIGGERS,
    PHASE_MOVES,
    SAVE_MOVES,
    CommitmentStatus,
    ObligationStatus,
    Phase,
    SaveStatus,
)
from receipts.models import ModelCall
from receipts.states import (
    CALL_MOVES,
    MODEL_CALL_MOVES,
    PUBLICATION_MOVES,
    CallStatus,
    ModelCallStatus,
    PublicationStatus,
)
from runs.models import ScopeControl, Wakeup
from runs.states import (
    BULK_MOVES,
    CONTROL_MOVES,
    ENDED_RUN,
    RUN_MOVES,
    SCOPE_MOVES,
    WAKEUP_MOVES,
    BulkStatus,
    ControlStatus,
    RunStatus,
    ScopeStatus,
    WakeupStatus,
)
from tests.engine.engine import sql
from tests.engine.guards.rows import DIGEST, MOVE_HEAD, Told, refused
from tests.written import made

# What has to be decided before a wait may say so.
VERDICTS = {"APPROVED": "APPROVE", "REJECTED": "REJECT", "ANSWERED": "ANSWER"}

Columns = Callable[[str], dict[str, Any]]


@dataclass(frozen=True)
class Machine:
    """A column whose moves are guarded. `row` makes a row in a state; `also` is what a move has to set with it."""

    name: str
    states: tuple[str, ...]
    moves: list[tuple[str, str]]
    row: Callable[[Told, str], Any]
    also: Columns

    @property
    def pairs(self) -> list[tuple[str, str]]:
        return [(start, end) for start, end in product(self.states, repeat=2) if start != end]


def nothing_else(_: str) -> dict[str, Any]:
    return {}


def dated(column: str, *states: str) -> Columns:
    return lambda to: {column: timezone.now() if to in states else None}


def as_run(to: str) -> dict[str, Any]:
    return {
        "hold_reason": "BUDGET" if to == "HELD" else None,
        "ended_at": timezone.now() if to in ENDED_RUN else None,
    }


def as_model_call(to: str) -> dict[str, Any]:
    sealed = to == "SEALED"
    return {
        "response_digest": DIGEST if sealed else None,
        "sealed_at": timezone.now() if sealed else None,
        "retry_at": timezone.now() if to == "RETRY_WAIT" else None,
    }


def as_wakeup(to: str) -> dict[str, Any]:
    return {"consumed_fence": 1 if to == "CONSUMED" else None}


def as_commitment(to: str) -> dict[str, Any]:
    withdrawn = to == "WITHDRAWN"
    return {
        "withdrawn_by": "person:x" if withdrawn else None,
        "withdrawal_reason": "because" if withdrawn else "",
        "withdrawn_at": timezone.now() if withdrawn else None,
    }


def wakeup(told: Told, status: str) -> Wakeup:
    return made(
        Wakeup,
        tenant_id=told.run.tenant_id,
        run=told.run,
        cause="RESUME",
        dedupe_key=str(new_id()),
        status=status,
        **as_wakeup(status),
    )


def as_save_attempt(to: str) -> dict[str, Any]:
    probed = to != "UNKNOWN"
    return {"resolved_at": timezone.now() if probed else None, "resolved_fence": 2 if probed else None}


def save_attempt(told: Told, status: str) -> SaveAttempt:
    return made(
        SaveAttempt,
        save_id=new_id(),
        tenant_id=told.run.tenant_id,
        run=told.run,
        trigger="CURSOR",
        expected_revision=1,
        fence=1,
        status=status,
        **as_save_attempt(status),
    )


def model_call(told: Told, status: str) -> ModelCall:
    return made(
        ModelCall,
        tenant_id=told.run.tenant_id,
        run=told.run,
        turn_no=99,
        at_revision=1,
        status=status,
        request_digest=DIGEST,
        **as_model_call(status),
    )


def as_scope(to: str) -> dict[str, Any]:
    lifted = to == "LIFTED"
    return {
        "lifted_at": timezone.now() if lifted else None,
        "lifted_by": "person:x" if lifted else "",
        "lift_reason": "because" if lifted else "",
    }


def scope_control(told: Told, status: str) -> ScopeControl:
    return told.another_scope(thread=told.run.thread, status=status, **as_scope(status))


def notice(told: Told, status: str) -> Notice:
    return made(
        Notice,
        endpoint=told.another_endpoint(),
        kind="OPENED",
        dedupe_key="x",
        subject="run",
        subject_id=told.run.id,
        facts={},
        gathered=False,
        status=status,
        due_at=timezone.now(),
    )


MACHINES = [
    Machine("run", tuple(RunStatus), RUN_MOVES, Told.another_run, as_run),
    Machine("stop", tuple(ControlStatus), CONTROL_MOVES, Told.another_stop, dated("settled_at", "SETTLED", "MOOT")),
    Machine("wakeup", tuple(WakeupStatus), WAKEUP_MOVES, wakeup, as_wakeup),
    Machine("model call", tuple(ModelCallStatus), MODEL_CALL_MOVES, model_call, as_model_call),
    Machine("call", tuple(CallStatus), CALL_MOVES, Told.another_call, dated("retry_at", "RETRY_WAIT")),
    Machine("publication", tuple(PublicationStatus), PUBLICATION_MOVES, Told.another_publication, nothing_else),
    Machine("wait", tuple(WaitStatus), WAIT_MOVES, Told.another_wait, nothing_else),
    Machine("commitment", tuple(CommitmentStatus), COMMITMENT_MOVES, Told.another_commitment, as_commitment),
    Machine("save attempt", tuple(SaveStatus), SAVE_MOVES, save_attempt, as_save_attempt),
    Machine("obligation", tuple(ObligationStatus), OBLIGATION_MOVES, Told.another_obligation, nothing_else),
    Machine("scope control", tuple(ScopeStatus), SCOPE_MOVES, scope_control, as_scope),
    Machine("run of many", tuple(BulkStatus), BULK_MOVES, Told.another_bulk, dated("closed_at", "DONE", "REFUSED")),
    Machine("notice", tuple(NoticeStatus), NOTICE_MOVES, notice, nothing_else),
]


@pytest.mark.parametrize(
    ("machine", "start", "end"),
    [
        pytest.param(machine, *pair, id=f"{machine.name}: {pair[0]} to {pair[1]}")
        for machine in MACHINES
        for pair in machine.pairs
    ],
)
def test_a_move_is_accepted_exactly_if_the_table_has_it(told: Told, machine: Machine, start: str, end: str) -> None:
    row = machine.row(told, start)
    if start == "OPEN" and end in VERDICTS:
        told.decide(row, VERDICTS[end])
    columns = {"status": end, **machine.also(end)}
    table, key = row._meta.db_table, row._meta.pk.column
    statement = f"UPDATE {table} SET {', '.join(f'{name} = %s' for name in columns)} WHERE {key} = %s"
    if (start, end) in machine.moves:
        sql(statement, *columns.values(), row.pk)
    else:
        refused("Invalid transition", statement, *columns.values(), row.pk)


@pytest.mark.parametrize("end", sorted(VERDICTS))
@pytest.mark.parametrize("decided", [None, "APPROVE", "REJECT", "ANSWER", "DECLINE"])
def test_a_wait_is_decided_only_as_its_decision_says(told: Told, end: str, decided: str | None) -> None:
    wait = told.another_wait()
    if decided is not None:
        told.decide(wait, decided)
    move = "UPDATE approvals_wait SET status = %s WHERE id = %s"
    if decided == VERDICTS[end] or (decided, end) == ("DECLINE", "REJECTED"):
        sql(move, end, wait.id)
    else:
        refused("decided by its decision only", move, end, wait.id)


@pytest.mark.parametrize(("start", "end"), list(product(Phase, repeat=2)))
def test_a_head_moves_to_a_phase_exactly_if_the_table_has_it(told: Told, start: str, end: str) -> None:
    run = told.run_with_head_in(start)
    if (start, end) in PHASE_MOVES:
        sql(MOVE_HEAD, 6, end, "CURSOR", run.id)
    else:
        refused("illegal phase move", MOVE_HEAD, 6, end, "CURSOR", run.id)


@pytest.mark.parametrize(("trigger", "phase"), list(product(sorted(PHASE_KEEPING_TRIGGERS), Phase)))
def test_an_act_of_a_person_keeps_any_phase_that_has_not_ended(told: Told, trigger: str, phase: str) -> None:
    run = told.run_with_head_in(phase)
    if phase in ("FINISHED", "STOPPED"):
        refused("illegal phase move", MOVE_HEAD, 6, phase, trigger, run.id)
    else:
        sql(MOVE_HEAD, 6, phase, trigger, run.id)


# ── the triggers and the states are one ──────────────────────────────────────


def guards() -> dict[str, Any]:
    """The triggers that guard moves, by table."""
    return {model._meta.db_table: x for model, x in pgtrigger.registered() if x.name == "legal_moves"}


def test_every_guarded_model_is_tried_above() -> None:
    assert len(guards()) == len(MACHINES)


def test_the_migrations_hold_what_the_states_say() -> None:
    call_command("makemigrations", check=True, dry_run=True, verbosity=0)


def test_a_move_that_only_the_states_know_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guards()["approvals_wait"], "transitions", [*WAIT_MOVES, ("EXPIRED", "APPROVED")])
    with pytest.raises(SystemExit):
        call_command("makemigrations", check=True, dry_run=True, verbosity=0)
