"""What `up` keeps in var/, and what other commands read of it."""

import json
from pathlib import Path

import pytest

from console.environment import Environment, up_is_running
from console.local.errors import LocalError
from console.local.state import local_secrets, only_one, write_addresses, write_private


@pytest.fixture
def var_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SIGNALBOX_VAR_DIR", str(tmp_path))
    for name in ("SIGNALBOX_BROKER_URL", "SIGNALBOX_DATABASE_URL", "SIGNALBOX_PRODUCTION"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def test_secrets_are_made_once_for_the_owner_only(var_dir: Path) -> None:
    first = local_secrets(var_dir)
    assert local_secrets(var_dir) == first
    assert (var_dir / "secrets.json").stat().st_mode & 0o777 == 0o600
    assert len(first["master_key"]) >= 32 and first["master_key"] != first["secret_key"]


def test_lost_secrets_are_not_replaced_where_data_needs_them(var_dir: Path) -> None:
    (var_dir / "postgres" / "data").mkdir(parents=True)
    with pytest.raises(LocalError, match=r"secrets\.json is gone"):
        local_secrets(var_dir)
    assert not (var_dir / "secrets.json").exists()


def test_a_private_file_replaces_an_open_one(var_dir: Path) -> None:
    path = var_dir / "file.json"
    path.write_text("{}")
    path.chmod(0o644)
    write_private(path, {"a": "b"})
    assert json.loads(path.read_text()) == {"a": "b"}
    assert path.stat().st_mode & 0o777 == 0o600


def test_only_one_holds_a_var_folder(var_dir: Path) -> None:
    with only_one(var_dir), pytest.raises(LocalError, match="already running"), only_one(var_dir):
        pass
    with only_one(var_dir):
        pass


def test_addresses_count_only_while_up_runs(var_dir: Path) -> None:
    with only_one(var_dir):
        assert not up_is_running(var_dir)
        write_addresses(var_dir, {"SIGNALBOX_BROKER_URL": "redis://there", "SIGNALBOX_DB_POOL": "false", "HOME": "/"})
        assert up_is_running(var_dir)
        running = Environment()
        assert (running.broker_url, running.db_pool) == ("redis://there", False)
    assert Environment().broker_url == ""


def test_the_environment_wins_over_a_running_up(var_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with only_one(var_dir):
        write_addresses(var_dir, {"SIGNALBOX_BROKER_URL": "redis://there"})
        monkeypatch.setenv("SIGNALBOX_BROKER_URL", "redis://mine")
        assert Environment().broker_url == "redis://mine"


def test_production_reads_the_environment_only(var_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with only_one(var_dir):
        write_addresses(var_dir, {"SIGNALBOX_SECRET_KEY": "left behind"})
        assert Environment().secret_key == "left behind"
        monkeypatch.setenv("SIGNALBOX_PRODUCTION", "1")
        assert Environment().secret_key == ""


def test_an_empty_variable_is_no_variable(var_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIGNALBOX_POSTGRES_BIN", "")
    assert Environment().postgres_bin is None
