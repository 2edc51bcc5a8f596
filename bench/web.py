"""A real web server for the benchmarks, on the database that the environment names, and what it has used."""

import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Web:
    """A web server that answers at `url`."""

    url: str
    pid: int

    @property
    def cpu_ms(self) -> float:
        """Processor time of all its threads so far, in milliseconds, those that have ended included."""
        return time.clock_gettime(~self.pid << 3 | 2) * 1000  # the kernel's clock of another process


@contextmanager
def running_web(folder: Path) -> Iterator[Web]:
    """One that has answered; stopped at the end. Its log is in `folder`. Django is set up already."""
    from console.local import programs
    from console.local.children import Child
    from console.local.readiness import page_answers

    with socket.create_server(("127.0.0.1", 0), backlog=2_000) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        child = Child(programs.web(listener.fileno(), os.environ), folder / "web.log")
        child.start()
    try:
        while not page_answers(f"{url}healthz"):
            if child.has_ended():
                raise RuntimeError(f"the web server ended:\n{child.last_lines()}")
            time.sleep(0.1)
        yield Web(url, child.pid)
    finally:
        child.send(child.program.stop_signal)
        child.collect()
