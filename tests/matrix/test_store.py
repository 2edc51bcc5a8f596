"""The store seam does what it says, and runs under a store that fails at a rate end right."""

import json
import os
import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.db import DatabaseError, connections, transaction
from psycopg import RawCursor
from pytest_django import Settings

from tests.matrix import report
from tests.matrix.cells import SEEDS, script, undisturbed
from tests.matrix.history import Memory
from tests.matrix.invariants import check
from tests.matrix.operator import TICK
from tests.matrix.play import Player
from tests.matrix.points import Path as RunPath
from tests.matrix.stage import Stage
from tests.matrix.store.base import DatabaseWrapper, forget_statements, watch_statements
from tests.matrix.store.faults import RATE_FILE, STRIKES_FILE, StoreFault
from tests.matrix.turns import take_turns
from tests.scenarios.invariants import broken_invariants, one_snapshot

RATE = 0.05
_never = threading.Event()


# ── the seam ─────────────────────────────────────────────────────────────────


@pytest.fixture
def failing(live_database: str, settings: Settings, tmp_path: Path) -> Iterator[DatabaseWrapper]:
    """A session on a table of its own; `tmp_path` holds what it is told."""
    settings.FAULT_DIR = str(tmp_path)
    told = {**connections["default"].settings_dict, "ENGINE": "tests.matrix.store"}
    connections.settings["failing"] = told
    wrapper = DatabaseWrapper(told, alias="failing")
    connections["failing"] = wrapper
    watch_statements()
    with wrapper.cursor() as cursor:
        cursor.execute("CREATE TABLE written (n int)")
    yield wrapper
    forget_statements()
    wrapper.close()
    del connections["failing"]
    del connections.settings["failing"]


def tell(folder: Path, *faults: StoreFault, rate: float = 1.0) -> None:
    told = {"rate": rate, "seed": 1, "faults": [fault.name for fault in faults]}
    (folder / RATE_FILE).write_text(json.dumps(told))


def alone(failing: DatabaseWrapper) -> None:
    """One statement, committed by itself."""
    with failing.cursor() as cursor:
        cursor.execute("INSERT INTO written VALUES (1)")


def step(failing: DatabaseWrapper) -> None:
    """A statement sent as a worker's steps are: past Django's cursors."""
    failing.ensure_connection()
    with failing.wrap_database_errors, RawCursor(failing.connection) as cursor:
        cursor.execute(b"INSERT INTO written VALUES ($1)", [1], prepare=True)


def together(failing: DatabaseWrapper) -> None:
    """Two statements in one transaction."""
    with transaction.atomic(using="failing"):
        alone(failing)
        alone(failing)


def rows(failing: DatabaseWrapper) -> int:
    with failing.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM written")
        return int(cursor.fetchone()[0])


@pytest.mark.parametrize("fault", StoreFault, ids=lambda fault: fault.name)
@pytest.mark.parametrize(("work", "written"), [(alone, 1), (step, 1), (together, 2)], ids=["alone", "step", "together"])
def test_only_a_lost_answer_leaves_what_was_written(
    failing: DatabaseWrapper,
    tmp_path: Path,
    fault: StoreFault,
    work: Callable[[DatabaseWrapper], None],
    written: int,
) -> None:
    tell(tmp_path, fault)
    with pytest.raises(DatabaseError):
        work(failing)
    (tmp_path / RATE_FILE).unlink()
    failing.close()
    assert rows(failing) == (written if fault == StoreFault.ACK_LOST else 0)
    struck = [json.loads(line) for line in (tmp_path / STRIKES_FILE).read_text().splitlines()]
    assert [strike["fault"] for strike in struck] == [fault.name]


def test_without_a_rate_nothing_fails(failing: DatabaseWrapper) -> None:
    alone(failing)
    together(failing)
    assert rows(failing) == 3


def test_a_rate_strikes_about_so_often(failing: DatabaseWrapper, tmp_path: Path) -> None:
    tell(tmp_path, StoreFault.SERIALIZATION, rate=0.2)
    failed = 0
    for _ in range(200):
        try:
            alone(failing)
        except DatabaseError:
            failed += 1
    assert 20 <= failed <= 65


def test_an_order_loses_the_answer_to_one_commit_of_one_process(failing: DatabaseWrapper, tmp_path: Path) -> None:
    order = tmp_path / f"commit_ack_lost@{os.getpid()}"
    order.write_text("LOSE")
    assert rows(failing) == 0  # reading commits nothing
    with pytest.raises(DatabaseError):
        together(failing)
    failing.close()
    alone(failing)
    assert rows(failing) == 3
    assert not order.exists()


# ── runs ─────────────────────────────────────────────────────────────────────


def run_under_faults(stage: Stage, seed: int, runs: int) -> None:
    chance = random.Random(f"store-{seed}")
    scripts = [script(chance, chance.choice(list(RunPath)), "") for _ in range(runs)]
    players = [Player(stage, undisturbed(told, seed + number)) for number, told in enumerate(scripts)]
    before = len(stage.store_strikes())
    with stage.store_failing(RATE, seed):
        stuck = take_turns(stage, [(player, player.play()) for player in players], 8, lambda: _never.wait(TICK))
    stage.wait_idle()
    wrong = [player.played for player in [*stuck, *players] if player.played.wrong]
    assert not wrong, wrong
    with one_snapshot():
        broken = check(stage.history(Memory())) | broken_invariants()
    assert broken == {}
    struck = stage.store_strikes()[before:]
    report.struck += struck
    assert len(struck) >= runs // 4


@pytest.mark.process
def test_runs_under_a_store_that_fails_end_right(stage: Stage) -> None:
    run_under_faults(stage, seed=1, runs=8)


@pytest.mark.matrix
@pytest.mark.parametrize("seed", SEEDS)
def test_many_runs_under_a_store_that_fails_end_right(stage: Stage, seed: int) -> None:
    run_under_faults(stage, seed, runs=60)
