"""Child processes in sessions of their own that never outlive this process."""

import os
import signal
import subprocess
import time
from pathlib import Path

from console.environment import BASE_DIR
from console.local.programs import Program
from console.processes import die_with_parent


class Child:
    """A program and its current process. Start it from the main thread: the kernel ties its life to that thread."""

    def __init__(self, program: Program, log: Path) -> None:
        self.program = program
        self.log = log
        self.process: subprocess.Popen[bytes] | None = None
        self.started_at = 0.0

    @property
    def pid(self) -> int:
        """The process id; raises RuntimeError when it does not run."""
        if self.process is None:
            raise RuntimeError(f"{self.program.name} is not running")
        return self.process.pid

    def start(self) -> None:
        """Start the process, its output appended to the log. Raises OSError or LocalError."""
        program, parent = self.program, os.getpid()
        program.before_start()

        def in_child() -> None:
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            program.in_child()
            die_with_parent(program.death_signal)
            if os.getppid() != parent:
                os._exit(1)

        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                program.argv,
                cwd=BASE_DIR,
                env=dict(program.environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                pass_fds=program.inherited,
                user=program.user,
                preexec_fn=in_child,
            )
        self.started_at = time.monotonic()

    def has_ended(self) -> bool:
        """Whether the process is gone. It stays a zombie until `collect`, so that its id is not given to another."""
        if self.process is None:
            return True
        flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, self.process.pid, flags) is not None

    def collect(self) -> int:
        """Kill what is left of the process group, reap the process and return its code (negative: the signal)."""
        process = self.process
        if process is None:
            raise RuntimeError(f"{self.program.name} is not running")
        os.killpg(process.pid, signal.SIGKILL)
        self.process = None
        return process.wait()

    def send(self, signum: int) -> None:
        """Send a signal to the process alone, not to its group."""
        os.kill(self.pid, signum)

    def last_lines(self, count: int = 15) -> str:
        """The end of its log, for a message about why it ended."""
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return "\n".join(lines[-count:])
