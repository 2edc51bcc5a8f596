"""Where the unix sockets of one machine's services are. A socket's path may be 107 bytes long at most."""

import hashlib
import os
import tempfile
from pathlib import Path
from urllib.parse import urlencode

from console.local.errors import LocalError

PORT = 5432
_LONGEST_PATH = 107
_LONGEST_NAME = f"/.s.PGSQL.{PORT}.lock"


def socket_dir(var_dir: Path) -> Path:
    """The folder of the sockets, made if needed, for our eyes only: `run` in var, or a short one named by a hash.

    Raises LocalError where somebody else owns that folder.
    """
    folder = var_dir / "run"
    if len(os.fsencode(folder)) + len(_LONGEST_NAME) > _LONGEST_PATH:
        name = hashlib.sha256(os.fsencode(var_dir)).hexdigest()[:16]
        folder = Path(tempfile.gettempdir()) / f"signalbox-{os.geteuid()}-{name}"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.is_symlink() or folder.stat().st_mode & 0o077:
        raise LocalError(f"{folder} is open to others, and our sockets go there. Remove it and start again.")
    return folder


def database_url(folder: Path, database: str) -> str:
    """The libpq URL of a database served from a socket folder."""
    return f"postgresql:///{database}?{urlencode({'host': str(folder), 'port': PORT, 'user': 'postgres'})}"
