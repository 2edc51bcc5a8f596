"""The table of crash points and the product's code say the same, and the hooks do nothing where no test asked."""

import ast
import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path as FilePath

import pytest
from pytest_django import Settings

from console.environment import BASE_DIR, Environment
from runs import faults
from tests.matrix.cells import Fault, cell
from tests.matrix.plants import PLANTS, rule_of
from tests.matrix.points import OTHER_HOOKS, POINTS, Path, Way, table

APPS = ("accounts", "runs", "receipts", "checkpoints", "approvals", "runtime", "console")


def hooks_in_the_product() -> Iterator[str]:
    """The first argument of every call of `reach`."""
    for app in APPS:
        for file in (BASE_DIR / app).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "reach":
                    assert isinstance(node.args[0], ast.Constant), f"{file}: a point is named where it is reached"
                    yield str(node.args[0].value)


def hooks_in_the_table() -> set[str]:
    named = {hook for point in POINTS for hook in (point.hook, *point.hook_on.values(), *point.hold.values()) if hook}
    return named | OTHER_HOOKS


def test_there_are_28_points_in_order() -> None:
    assert [point.id for point in POINTS] == [f"P{number:02}" for number in range(1, 29)]


def test_every_hook_of_the_table_is_in_the_product() -> None:
    assert hooks_in_the_table() - set(hooks_in_the_product()) == set()


def test_every_hook_of_the_product_is_used_by_a_test() -> None:
    tests = "".join(file.read_text() for file in (BASE_DIR / "tests").rglob("*.py"))
    assert {hook for hook in hooks_in_the_product() if hook not in tests} == set()


def test_every_point_is_on_a_path_and_on_every_way_that_has_it() -> None:
    assert [point.id for point in POINTS if not point.subjects or len(point.ways) < len(Way) - 1] == []


def test_as_many_seeds_as_there_are_ways_strike_every_point_on_each_of_them() -> None:
    for point in POINTS:
        for fault in Fault:
            assert {cell(point, fault, seed).way for seed in range(3, 3 + len(Way))} == set(point.ways)


def test_every_path_has_points_of_its_own_length() -> None:
    counted = Counter(path for point in POINTS for path in point.subjects)
    assert counted[Path.APPROVAL] > counted[Path.FUSED] > counted[Path.MODEL] > 10


# ── inert ────────────────────────────────────────────────────────────────────


@pytest.fixture
def orders(tmp_path: FilePath, monkeypatch: pytest.MonkeyPatch) -> FilePath:
    """A folder with an order to die for every hook; it is the working directory, where an empty setting would look."""
    for hook in hooks_in_the_table():
        (tmp_path / hook).write_text("KILL")
        (tmp_path / f"{hook}@once").write_text("KILL")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_without_the_setting_no_hook_looks_for_an_order(
    orders: FilePath, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.FAULT_DIR = Environment(fault_dir="").fault_dir
    monkeypatch.setattr(os, "kill", lambda *_: pytest.fail("a signal was sent"))
    monkeypatch.setattr(faults, "_take", lambda *_: pytest.fail("it looked for an order"))
    before = sorted(path.name for path in orders.iterdir())
    for hook in sorted(hooks_in_the_table()):
        faults.reach(hook)
        faults.reach(hook, "once")
    assert sorted(path.name for path in orders.iterdir()) == before


def test_the_setting_is_empty_unless_somebody_sets_it(monkeypatch: pytest.MonkeyPatch, tmp_path: FilePath) -> None:
    monkeypatch.delenv("SIGNALBOX_FAULT_DIR", raising=False)
    monkeypatch.setenv("SIGNALBOX_VAR_DIR", str(tmp_path))
    assert Environment().fault_dir == ""


def test_with_the_setting_one_order_is_taken_once(
    orders: FilePath, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda pid, signum: sent.append((pid, signum)))
    settings.FAULT_DIR = str(orders)
    faults.reach("after_send")
    faults.reach("after_send")
    assert sent == [(os.getpid(), signal.SIGKILL)]
    assert (orders / f"after_send.hit.{os.getpid()}").exists()


# ── the page ─────────────────────────────────────────────────────────────────


def test_the_page_holds_the_table() -> None:
    page = (BASE_DIR / "docs" / "crash-points.md").read_text()
    assert "\n".join(table()) in page


def test_every_planted_bug_finds_the_rule_that_it_breaks() -> None:
    """A rule that moved would leave its plant without effect, or keep the web server of all of them from starting."""
    product = "\n".join(file.read_text() for app in APPS for file in (BASE_DIR / app).rglob("*.py"))
    for plant in PLANTS:
        for target, _ in plant.patches:
            owner, attribute = rule_of(target)
            assert hasattr(owner, attribute), f"{plant.name}: {target} has moved"
        for old, _ in plant.sql:
            assert old in product, f"{plant.name}: no statement says {old!r}"
