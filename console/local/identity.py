"""As whom PostgreSQL runs, which refuses root.

- We are an ordinary user: as ourselves.
- We are root and the data belongs to somebody else: as its owner.
- We are root: as an ordinary uid of a user namespace that maps to root outside. No file changes its owner or mode.
- We are root where namespaces are forbidden (some containers): as `nobody`, if the folders can be reached by it.
"""

import ctypes
import os
import pwd
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from console.local.errors import LocalError

_CLONE_NEWUSER = 0x10000000
_libc = ctypes.CDLL(None, use_errno=True)


def _stay() -> None:
    return None


@dataclass(frozen=True)
class Identity:
    """The uid to switch to (None: stay) and what the forked child does before exec."""

    user: int | None = None
    in_child: Callable[[], None] = _stay

    def run(self, *argv: str, environment: Mapping[str, str]) -> "subprocess.CompletedProcess[str]":
        """Run a command to its end under this identity."""
        return subprocess.run(
            argv,
            cwd="/",
            env=dict(environment),
            user=self.user,
            preexec_fn=self.in_child,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )


def server_identity(data_dir: Path, socket_dir: Path, binary: Path) -> Identity:
    """Choose the identity for a cluster and give it the folders it needs. Raises LocalError where there is no way."""
    owner = data_dir.stat().st_uid if data_dir.exists() else os.geteuid()
    if os.geteuid() != 0:
        if owner != os.geteuid():
            raise LocalError(f"{data_dir} belongs to {_name(owner)}. Start as that user, or move the folder away.")
        return Identity()
    if owner == 0:
        namespace = Identity(in_child=_namespace_entry())
        if _can_run(namespace, binary):
            return namespace
        owner = pwd.getpwnam("nobody").pw_uid
    return _as_other_user(owner, data_dir, socket_dir, binary)


def _as_other_user(owner: int, data_dir: Path, socket_dir: Path, binary: Path) -> Identity:
    identity = Identity(user=owner)
    for folder in (data_dir.parent, socket_dir):
        _give(folder, owner)
    if not (_can_run(identity, binary) and _can_reach(identity, data_dir.parent) and _can_reach(identity, socket_dir)):
        raise LocalError(
            f"PostgreSQL does not run as root. Here it may not have a user namespace either, and as {_name(owner)} "
            f"it cannot reach {binary} and {data_dir}. Start as an ordinary user, set SIGNALBOX_VAR_DIR to a folder that "
            "everybody can reach, or set SIGNALBOX_DATABASE_URL to a PostgreSQL server."
        )
    return identity


def _give(folder: Path, owner: int) -> None:
    """Make a tree of ours belong to `owner`; a tree that belongs to it already is left alone."""
    if folder.stat().st_uid == owner:
        return
    for path in (folder, *folder.rglob("*")):
        os.chown(path, owner, -1, follow_symlinks=False)


def _namespace_entry() -> Callable[[], None]:
    """What a forked child of root does to become an ordinary uid whose files are root's outside."""
    uid = next(entry.pw_uid for entry in pwd.getpwall() if entry.pw_uid != 0)

    def enter() -> None:
        if _libc.unshare(_CLONE_NEWUSER) != 0:
            raise OSError(ctypes.get_errno(), "unshare")
        Path("/proc/self/uid_map").write_text(f"{uid} 0 1")

    return enter


def _can_run(identity: Identity, binary: Path) -> bool:
    try:
        return identity.run(str(binary), "--version", environment=os.environ).returncode == 0
    except (OSError, subprocess.SubprocessError):
        return False


def _can_reach(identity: Identity, folder: Path) -> bool:
    return identity.run("/bin/sh", "-c", 'cd "$1"', "sh", str(folder), environment=os.environ).returncode == 0


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"
