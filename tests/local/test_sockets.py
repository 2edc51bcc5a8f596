"""Where the sockets go."""

import os
import tempfile
from pathlib import Path

import pytest

from console.local.errors import LocalError
from console.local.sockets import private_folder, socket_dir

LONGEST = 107


def test_sockets_go_to_var_where_their_paths_fit() -> None:
    assert socket_dir(Path("/srv/signalbox/var")) == Path("/srv/signalbox/var/run")


def test_a_long_path_gets_a_short_folder_of_its_own() -> None:
    long, other = (socket_dir(Path("/srv", name * 30)) for name in ("long", "more"))
    assert long.parent == Path(tempfile.gettempdir()) and long != other
    assert len(os.fsencode(long / ".s.PGSQL.5432.lock")) <= LONGEST


def test_a_folder_that_others_may_enter_is_refused(tmp_path: Path) -> None:
    private_folder(tmp_path / "mine")
    assert (tmp_path / "mine").stat().st_mode & 0o777 == 0o700
    (tmp_path / "open").mkdir(mode=0o755)
    (tmp_path / "link").symlink_to(tmp_path / "mine")
    for name in ("open", "link"):
        with pytest.raises(LocalError, match="open to others"):
            private_folder(tmp_path / name)
