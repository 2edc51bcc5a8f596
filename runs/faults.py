"""Named fault points. A no-op unless FAULT_DIR is set, which only tests do.

A test puts a file named `<point>` or `<point>@<subject>` into FAULT_DIR whose content is KILL or STOP. The process that
reaches the point takes the file (renames it to `<name>.hit.<pid>`, so that exactly one takes it) and signals itself.
"""

import os
import signal
from pathlib import Path

from django.conf import settings


def reach(point: str, subject: str = "") -> None:
    """Mark that this process is at a fault point. `subject` is the tool or cause that the point is about."""
    if not settings.FAULT_DIR:
        return
    for name in (f"{point}@{subject}", point):
        _take(Path(settings.FAULT_DIR) / name)


def _take(order: Path) -> None:
    taken = order.with_name(f"{order.name}.hit.{os.getpid()}")
    try:
        order.rename(taken)
    except FileNotFoundError:
        return
    os.kill(os.getpid(), {"KILL": signal.SIGKILL, "STOP": signal.SIGSTOP}[taken.read_text().strip()])
