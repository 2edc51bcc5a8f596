"""The wrapper around PostgreSQL: first start, leftovers, stale lock files, wrong versions."""

import importlib.util
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from console.local import identity
from console.local.children import Child
from console.local.errors import LocalError
from console.local.postgres import Cluster, embedded_bin_dir
from console.local.sockets import private_folder, socket_dir
from tests.waiting import wait_until

pytestmark = pytest.mark.process


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    sockets = socket_dir(tmp_path)
    private_folder(sockets)
    settings = {"fsync": "off", "shared_buffers": "16MB"}
    yield Cluster(tmp_path / "postgres" / "data", sockets, embedded_bin_dir(), settings)
    for file in sockets.iterdir():
        file.unlink()
    sockets.rmdir()


@pytest.fixture
def server(cluster: Cluster, tmp_path: Path) -> Iterator[Child]:
    child = Child(cluster.program(os.environ), tmp_path / "postgres.log")
    child.start()
    wait_until(cluster.answers, "PostgreSQL answers")
    yield child
    if child.process is not None:
        stop(child)


def stop(child: Child, signum: signal.Signals = signal.SIGINT) -> int:
    child.send(signum)
    wait_until(child.has_ended, "PostgreSQL ends")
    return child.collect()


def test_it_starts_stops_and_keeps_its_data(cluster: Cluster, server: Child) -> None:
    cluster.create_database("box")
    cluster.create_database("box")
    with psycopg.connect(cluster.url("box")) as open_connection:
        open_connection.execute("CREATE TABLE kept AS SELECT 1 AS one")
        open_connection.commit()
        assert stop(server) == 0
    server.start()
    wait_until(cluster.answers, "PostgreSQL answers again")
    with psycopg.connect(cluster.url("box")) as connection:
        assert connection.execute("SELECT one, lower('É'), current_user FROM kept").fetchone() == (1, "é", "postgres")


def test_it_listens_on_no_network(cluster: Cluster, server: Child) -> None:
    with psycopg.connect(cluster.url("postgres")) as connection:
        assert connection.execute("SHOW listen_addresses").fetchone() == ("",)
    assert (cluster.socket_dir / ".s.PGSQL.5432").stat().st_mode & 0o077 == 0


def test_no_file_changes_its_owner_where_namespaces_are_allowed(cluster: Cluster, server: Child) -> None:
    assert cluster.data_dir.stat().st_uid == os.geteuid()
    assert cluster.data_dir.stat().st_mode & 0o777 == 0o700


def test_it_starts_after_a_kill(cluster: Cluster, server: Child) -> None:
    stop(server, signal.SIGKILL)
    assert (cluster.data_dir / "postmaster.pid").exists()

    def revived() -> bool:
        if server.process is not None and server.has_ended():
            server.collect()
        if server.process is None:
            server.start()
        return cluster.answers()

    wait_until(revived, "PostgreSQL recovers")


def test_a_lock_file_that_names_another_process_is_removed(cluster: Cluster, server: Child) -> None:
    stop(server)
    lock_file = cluster.data_dir / "postmaster.pid"
    lock_file.write_text(f"{os.getpid()}\n{cluster.data_dir}\n")
    cluster.clear_leftover()
    assert not lock_file.exists()


def test_a_server_left_by_a_killed_start_is_ended(cluster: Cluster, server: Child) -> None:
    cluster.clear_leftover()
    assert server.has_ended()
    server.collect()


def test_a_cluster_of_another_version_is_refused(cluster: Cluster, server: Child) -> None:
    stop(server)
    (cluster.data_dir / "PG_VERSION").write_text("11\n")
    with pytest.raises(LocalError, match=r"made by PostgreSQL 11 .* SIGNALBOX_POSTGRES_BIN"):
        cluster.program(os.environ)


def test_a_half_made_cluster_is_made_anew(cluster: Cluster) -> None:
    unfinished = cluster.data_dir.with_name("data.new")
    unfinished.mkdir(parents=True)
    (unfinished / "PG_VERSION").write_text("18\n")
    cluster.program(os.environ)
    assert (cluster.data_dir / "global").is_dir() and not unfinished.exists()


def test_it_ends_with_its_supervisor(tmp_path: Path, cluster: Cluster) -> None:
    """The supervisor here is a process of its own that is killed: the kernel tells the server."""
    code = (
        "import os, signal, sys; from pathlib import Path; from console.local.children import Child;"
        "from console.local.postgres import Cluster, embedded_bin_dir;"
        f"cluster = Cluster(Path({str(cluster.data_dir)!r}), Path({str(cluster.socket_dir)!r}), embedded_bin_dir());"
        f"child = Child(cluster.program(os.environ), Path({str(tmp_path / 'log')!r})); child.start();"
        "print(child.pid, flush=True); signal.pause()"
    )
    supervisor = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert supervisor.stdout is not None
    pid = int(supervisor.stdout.readline())
    wait_until(cluster.answers, "PostgreSQL answers")
    supervisor.kill()
    supervisor.communicate()
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), "PostgreSQL ends with its supervisor")
    assert "database system is shut down" in (tmp_path / "log").read_text()


def test_without_the_wheel_one_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", {}.get)
    with pytest.raises(LocalError, match="SIGNALBOX_DATABASE_URL"):
        embedded_bin_dir()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has another identity to take")
def test_where_root_has_no_namespace_nobody_serves(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folders of a test are closed to others, so the person is told what to do."""

    def forbidden() -> None:
        raise PermissionError

    monkeypatch.setattr(identity, "_namespace_entry", lambda: forbidden)
    tmp_path.chmod(0o700)
    with pytest.raises(LocalError, match="as nobody it cannot reach"):
        cluster.program(os.environ)


def test_the_data_of_somebody_else_is_refused(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.program(os.environ)
    monkeypatch.setattr(os, "geteuid", lambda: 4321)
    with pytest.raises(LocalError, match="belongs to"):
        cluster.program(os.environ)
