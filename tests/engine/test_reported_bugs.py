"""docs/reported-bugs.md: for each report of users of other systems (B01 to B79) the tests that hold the rule against it."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
PAGE = TESTS.parent / "docs" / "reported-bugs.md"
ROW = re.compile(r"^\| B(\d\d) \| [^|]+ \| [^|]+ \| ([^|]+) \|$", re.MULTILINE)
NAMED = re.compile(r"`([a-z_/0-9]+\.py)::(test_\w+)`")
ROWS = {int(number): NAMED.findall(tests) for number, tests in ROW.findall(PAGE.read_text())}


@cache
def names_in(file: str) -> frozenset[str]:
    tree = ast.parse((TESTS / file).read_text())
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


@pytest.mark.parametrize("number", range(1, 80))
def test_every_report_is_held_by_tests_that_exist(number: int) -> None:
    assert ROWS[number]
    for file, test in ROWS[number]:
        assert test in names_in(file), f"{file}::{test}"


def test_every_test_that_names_a_report_stands_in_its_row() -> None:
    for file in sorted(TESTS.rglob("test_reported_*.py")):
        name = file.relative_to(TESTS).as_posix()
        for test in names_in(name):
            for number in re.findall(r"(?<=_b)\d\d(?=_)", test):
                assert (name, test) in ROWS[int(number)], f"{name}::{test}"
