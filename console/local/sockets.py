"""Where the unix sockets of one machine's services are. A socket's path may be 107 bytes long at most."""

import hashlib
import os
import tempfile
from pathlib import Path
from urllib.parse import quote, urlencode

from console.local.errors import LocalError

PORT = 5432
_LONGEST_PATH = 107
_LONGEST_NAME = f"/.s.PGSQL.{PORT}.lock"


def socket_dir(var_dir: Path) -> Path:
    """The folder for the sockets of a var folder: `run` in it, or a short one named by a hash where that is too long."""
    folder = var_dir / "run"
    if len(os.fsencode(folder)) + len(_LONGEST_NAME) <= _LONGEST_PATH:
        return folder
    name = hashlib.sha256(os.fsencode(var_dir)).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"signalbox-{os.geteuid()}-{name}"


def private_folder(folder: Path) -> None:
    """Make a folder that only we may enter, or check that it is one. Raises LocalError."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.is_symlink() or folder.stat().st_mode & 0o077:
        raise LocalError(f"{folder} is open to others, and our sockets go there. Remove it and start again.")


def database_url(folder: Path, database: str) -> str:
    """The libpq URL of a database served from a socket folder."""
    where = {"host": str(folder), "port": PORT, "user": "postgres"}
    return f"postgresql:///{database}?{urlencode(where, quote_via=quote)}"
