"""docs/state-machines.md has one sentence for every legal move and none for another; docs/interruptions.md names tests that exist."""

import re
from pathlib import Path

import pytest

from accounts.states import NOTICE_MOVES
from approvals.states import WAIT_MOVES
from checkpoints.envelope import Snapshot
from checkpoints.states import COMMITMENT_MOVES, OBLIGATION_MOVES, PHASE_MOVES, SAVE_MOVES
from receipts.states import CALL_MOVES, MODEL_CALL_MOVES, PUBLICATION_MOVES
from runs.states import BULK_MOVES, CONTROL_MOVES, RUN_MOVES, SCOPE_MOVES, WAKEUP_MOVES, HoldReason

PAGE = Path(__file__).resolve().parents[2] / "docs" / "state-machines.md"
RUNBOOK = PAGE.parent / "runbooks" / "run-does-not-move.md"
ARROW = re.compile(r"^\| ([A-Z_]+) → ([A-Z_]+) \| (.+\.) \|$")

MACHINES = {
    "Run": RUN_MOVES,
    "Stop request": CONTROL_MOVES,
    "Stop or pause of a scope": SCOPE_MOVES,
    "Item of an act on many runs": BULK_MOVES,
    "Wakeup": WAKEUP_MOVES,
    "Model call": MODEL_CALL_MOVES,
    "Tool call": CALL_MOVES,
    "Publication": PUBLICATION_MOVES,
    "Wait": WAIT_MOVES,
    "Notice": NOTICE_MOVES,
    "Obligation": OBLIGATION_MOVES,
    "Constraint or assumption": COMMITMENT_MOVES,
    "Save attempt": SAVE_MOVES,
    "Checkpoint phase": [move for move in PHASE_MOVES if move[1] != "STOPPED"],
}


def sections() -> dict[str, list[tuple[str, str]]]:
    found: dict[str, list[tuple[str, str]]] = {}
    title = ""
    for line in PAGE.read_text().splitlines():
        if line.startswith("## "):
            title = line[3:].split(" (")[0]
        arrow = ARROW.match(line)
        if arrow:
            found.setdefault(title, []).append((arrow[1], arrow[2]))
    return found


@pytest.mark.parametrize("machine", MACHINES)
def test_every_move_of_a_machine_has_exactly_one_sentence(machine: str) -> None:
    assert sorted(sections()[machine]) == sorted(MACHINES[machine])


# ── tests that a page names ──────────────────────────────────────────────────

TESTS = Path(__file__).resolve().parents[1]
NAMED = re.compile(r"`([a-z_/0-9]+\.py)::(test_\w+)`")
SOURCES, DUTIES = 8, 9


def test_every_test_that_the_page_of_interruptions_names_exists() -> None:
    """D-002, D-096: a row without a test that shows it would be a promise."""
    rows = [line for line in (PAGE.parent / "interruptions.md").read_text().splitlines() if line.startswith("| ")]
    proved = [row for row in rows if NAMED.search(row)]
    assert len(proved) == SOURCES + DUTIES
    for file, test in NAMED.findall("\n".join(proved)):
        assert f"def {test}(" in (TESTS / file).read_text(), f"{file}::{test}"


def test_every_field_of_a_checkpoint_says_who_reads_it_what_they_do_and_what_confirms_it() -> None:
    """A-159."""
    lines = (PAGE.parent / "checkpoint.md").read_text().splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| `")]
    assert [row[0].strip("`") for row in rows] == list(Snapshot.model_fields)
    assert all(len(row) == 4 and all(row) for row in rows)


def test_the_runbook_of_runs_that_do_not_move_has_every_hold() -> None:
    rows = RUNBOOK.read_text()
    missing = [reason for reason in HoldReason if f"HELD, {reason}" not in rows]
    assert not missing
