"""What `up` keeps in var/ between starts and hands to other commands while it runs. Files for the owner's eyes only."""

import fcntl
import json
import os
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from console.environment import ADDRESSES_FILE, LOCK_FILE
from console.local.errors import LocalError

_LOCK_SECONDS = 1.0
_POLL_SECONDS = 0.05


def write_private(path: Path, content: Mapping[str, str]) -> None:
    """Write JSON that only we may read; a reader sees the old file or the whole new one."""
    unfinished = path.with_name(path.name + ".new")
    unfinished.unlink(missing_ok=True)
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump(content, file, indent=1)
    unfinished.replace(path)


def local_secrets(var_dir: Path) -> dict[str, str]:
    """The keys and the password of this installation: random, made once, kept in var/secrets.json.

    Raises LocalError when the file is gone but a database that needs its keys is there.
    """
    path = var_dir / "secrets.json"
    if not path.exists():
        if (var_dir / "postgres" / "data").exists():
            raise LocalError(
                f"{path} is gone, and {var_dir / 'postgres'} holds data that only its keys can read. "
                f"Put the file back, or move {var_dir} away to start anew."
            )
        names = ("secret_key", "master_key", "password")
        lengths = (48, 48, 12)
        write_private(path, {name: secrets.token_urlsafe(n) for name, n in zip(names, lengths, strict=True)})
    kept: dict[str, str] = json.loads(path.read_text())
    return kept


def write_addresses(var_dir: Path, environment: Mapping[str, str]) -> None:
    """Leave our environment for other commands. console.environment reads it while our lock is held."""
    ours = {name: value for name, value in environment.items() if name.startswith("SIGNALBOX_")}
    write_private(var_dir / ADDRESSES_FILE, ours)


@contextmanager
def only_one(var_dir: Path) -> Iterator[None]:
    """Hold the lock of a var folder: one `up` at a time. The kernel frees it however we end. Raises LocalError."""
    with (var_dir / LOCK_FILE).open("a+") as lock:
        deadline = time.monotonic() + _LOCK_SECONDS
        while not _taken(lock.fileno()):
            # Another command that looks whether we run holds the lock for an instant.
            if time.monotonic() > deadline:
                lock.seek(0)
                raise LocalError(
                    f"Signalbox is already running in {var_dir}, as process {lock.read()}. "
                    "Stop it first, with Ctrl-C where it runs."
                )
            time.sleep(_POLL_SECONDS)
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield


def _taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
