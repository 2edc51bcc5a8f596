"""The port is what the loop really uses, on the server that was asked for."""

import ast
import os
import re
import subprocess
from pathlib import Path

import pytest
from django.db import connection

from runtime import statements as steps
from tests.contract.port import PORT
from tests.contract.store import Store
from tests.services import Services

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("concern", PORT)
def test_everything_that_the_port_names_exists(concern: str) -> None:
    for owner, names in PORT[concern].items():
        missing = [name for name in names if not hasattr(owner, name)]
        assert not missing, f"{owner.__name__} has no {missing}"


def test_the_port_names_every_step() -> None:
    named = {name for owners in PORT.values() for name in owners.get(steps, ())}
    sent = {name for name, value in vars(steps).items() if isinstance(value, str) and value.startswith("WITH")}
    assert named - {"write"} == sent


def test_the_loop_reaches_no_table_past_its_owners() -> None:
    """No cursor, no model and no manager in the loop: every read and write of it is somebody's service or step."""
    for file in (ROOT / "runtime" / "loop").glob("*.py"):
        tree = ast.parse(file.read_text())
        modules = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        assert not any(module.endswith(".models") for module in modules), file
        attributes = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        assert not attributes & {"objects", "cursor"}, file


def test_the_server_is_the_one_that_was_asked_for(store: Store, services: Services) -> None:
    said = subprocess.run([services.cluster.bin_dir / "postgres", "--version"], capture_output=True, check=True)
    found = re.search(rb"(\d+)\.", said.stdout)
    assert found is not None
    assert connection.cursor().connection.info.server_version // 10000 == int(found[1])
    asked = os.environ.get("SIGNALBOX_POSTGRES_BIN")
    assert asked is None or services.cluster.bin_dir == Path(asked)


def test_transactions_read_what_is_committed(store: Store) -> None:
    """The guards rest on row locks and conditions, not on a stronger isolation."""
    with connection.cursor() as cursor:
        cursor.execute("SHOW transaction_isolation")
        assert cursor.fetchone() == ("read committed",)
