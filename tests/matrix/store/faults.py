"""The six faults of a store, drawn at a rate for each unit of work: a transaction, or a statement outside of one."""

import json
import os
import random
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import FrameType
from typing import Any

APPS = ("accounts", "runs", "receipts", "checkpoints", "approvals", "runtime", "console")
RATE_FILE = "store-rate"  # {"rate": 0.05, "seed": 1}, and perhaps "faults": ["ACK_LOST"]
STRIKES_FILE = "store-strikes"
READING = 0.1
SEAMS = {"fetch", "fetch_row", "gather", "stored_rows", "stored_row", "run_statement", "write"}
BACKGROUND = ("heartbeat-", "live-hints")


class StoreFault(StrEnum):
    """How a unit of work fails."""

    LOST_BEFORE = "connection lost before the first statement"
    LOST_DURING = "connection lost before the commit"
    SERIALIZATION = "serialization failure"
    DEADLOCK = "deadlock"
    TIMEOUT = "statement timeout"
    ACK_LOST = "committed, then the connection is lost"


# Raised by the server itself, so that the transaction is aborted as it would be.
SERVER_ERRORS = {
    StoreFault.SERIALIZATION: "40001",
    StoreFault.DEADLOCK: "40P01",
    StoreFault.TIMEOUT: "57014",
}


@dataclass
class Rate:
    """How often a unit fails, by which chance, and where it is written down."""

    rate: float
    seed: int
    record: Path
    faults: tuple[StoreFault, ...] = tuple(StoreFault)

    def __post_init__(self) -> None:
        self._chance = random.Random(f"{self.seed}-{os.getpid()}")
        self._lock = threading.Lock()

    def draw(self, *, reading: bool) -> StoreFault | None:
        """The fault of the unit that begins now, or None. A reading by itself is struck a tenth as often: a worker does
        dozens of them before it comes to its first step.
        """
        with self._lock:
            rate = self.rate * (READING if reading else 1.0)
            return self._chance.choice(self.faults) if self._chance.random() < rate else None

    def note(self, fault: StoreFault) -> None:
        """Write down that a fault struck, and whose work it was."""
        line = json.dumps({"pid": os.getpid(), "fault": fault.name, "method": method()}) + "\n"
        with self.record.open("a") as record:
            record.write(line)


_rates: dict[tuple[int, str, str], Rate] = {}
replace_text: Callable[[str], str] | None = None  # what planted bugs do to statements


def current_rate(folder: str) -> Rate | None:
    """What a file in the folder of the fault points tells now; each process has a chance of its own."""
    try:
        text = Path(folder, RATE_FILE).read_text()
    except FileNotFoundError:
        return None
    known = (os.getpid(), folder, text)
    if known not in _rates:
        told: dict[str, Any] = json.loads(text)
        faults = tuple(StoreFault[name] for name in told.get("faults", StoreFault.__members__))
        _rates[known] = Rate(told["rate"], told["seed"], Path(folder, STRIKES_FILE), faults)
    return _rates[known]


def method() -> str:
    """The function of the product whose work the current statement is."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if name.partition(".")[0] in APPS and frame.f_code.co_name not in SEAMS:
            return f"{name}.{frame.f_code.co_name}"
        frame = frame.f_back
    return "?"


def ack_order_taken(folder: str) -> bool:
    """Whether this process was told to lose the answer to this commit; an order is taken once."""
    if not folder or threading.current_thread().name.startswith(BACKGROUND):
        return False
    order = Path(folder) / f"commit_ack_lost@{os.getpid()}"
    try:
        order.rename(order.with_name(f"{order.name}.hit.{os.getpid()}"))
    except FileNotFoundError:
        return False
    return True
