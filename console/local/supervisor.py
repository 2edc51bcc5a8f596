"""Starts child processes, restarts those that end, and stops them all in waves.

Single-threaded on purpose: signals are blocked and read one by one, so no handler runs in the middle of something.
"""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from console.local.children import Child
from console.local.errors import LocalError
from console.local.programs import Program

_TICK_SECONDS = 0.05
_LONG_TICK_SECONDS = 5.0
_FIRST_DELAY = 0.1
_LONGEST_DELAY = 10.0
_STEADY_SECONDS = 10.0


class StopRequested(Exception):
    """A signal asked us to stop."""


@dataclass
class _Restart:
    """When an ended child starts again: soon if it was killed or had run for a while, else later each time."""

    due: float = 0.0
    failures: int = 0

    def plan(self, code: int, ran_seconds: float) -> None:
        failed = code >= 0 and ran_seconds < _STEADY_SECONDS
        self.failures = self.failures + 1 if failed else 0
        self.due = time.monotonic() + min(_FIRST_DELAY * 2**self.failures, _LONGEST_DELAY)


@contextmanager
def signals_held() -> Iterator[set[signal.Signals]]:
    """Block the signals that concern a supervisor; yields those that ask it to stop. Children get them unblocked."""
    stop_signals = {signal.SIGINT, signal.SIGTERM}
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        stop_signals.add(signal.SIGHUP)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, stop_signals | {signal.SIGCHLD})
    try:
        yield stop_signals
    finally:
        while signal.sigtimedwait(stop_signals, 0):
            pass
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Supervisor:
    """The children of one `up`. Use it from the main thread, inside `signals_held`."""

    def __init__(self, log_dir: Path, stop_signals: set[signal.Signals], say: Callable[[str], None]) -> None:
        self._log_dir = log_dir
        self._stop_signals = stop_signals
        self._say = say
        self._children: dict[str, Child] = {}
        self._restarts: dict[str, _Restart] = {}
        self._hurried = False

    def start(self, program: Program) -> None:
        """Start a program that is to run until `stop`. Raises LocalError or OSError."""
        child = self._child(program)
        self._children[program.name] = child
        self._restarts[program.name] = _Restart()
        child.start()

    def change(self, program: Program) -> None:
        """From its next start on, run a child in this way."""
        self._children[program.name].program = program

    def run(self, program: Program, seconds: float) -> None:
        """Run a program to its end. Raises LocalError with its last lines when it fails, StopRequested on a signal."""
        child = self._child(program)
        self._children[program.name] = child
        child.start()
        deadline = time.monotonic() + seconds
        while not child.has_ended():
            self._revive_all(starting=True)
            self._check_deadline(deadline, f"{program.name} did not end in {seconds:.0f} s.")
            self._pause()
        del self._children[program.name]
        code = child.collect()
        if code != 0:
            raise LocalError(_ended(child, code))

    def wait(self, ready: Callable[[], bool], what: str, seconds: float) -> None:
        """Wait for something to answer. Raises LocalError when a child ends or time runs out, StopRequested on a signal."""
        deadline = time.monotonic() + seconds
        while not ready():
            self._revive_all(starting=True)
            self._check_deadline(deadline, f"{what} did not answer in {seconds:.0f} s.")
            self._pause()

    def watch(self) -> None:
        """Keep the children running until a signal asks to stop."""
        while True:
            self._revive_all()
            all_run = all(child.process is not None for child in self._children.values())
            try:
                self._pause(_LONG_TICK_SECONDS if all_run else _TICK_SECONDS)
            except StopRequested:
                return

    def stop(self) -> None:
        """Stop every child, wave by wave: asked first, killed when its time is up. Nothing is left afterwards.

        A signal that asks to stop once more ends the time of our own processes at once.
        """
        for wave in sorted({child.program.wave for child in self._children.values()}):
            self._stop_wave([child for child in self._children.values() if child.program.wave == wave])
        self._children.clear()

    def _child(self, program: Program) -> Child:
        log = self._log_dir / f"{program.name}.log"
        if log.exists():
            log.replace(log.with_suffix(".log.1"))
        return Child(program, log)

    def _revive_all(self, *, starting: bool = False) -> None:
        for name, restart in self._restarts.items():
            self._revive(self._children[name], restart, starting=starting)

    def _revive(self, child: Child, restart: _Restart, *, starting: bool) -> None:
        if child.process is not None and child.has_ended():
            code = child.collect()
            restart.plan(code, time.monotonic() - child.started_at)
            if starting and restart.failures >= child.program.attempts:
                raise LocalError(_ended(child, code))
            self._say(f"{child.program.name} ended ({_how(code)}). It is started again.")
        if child.process is None and time.monotonic() >= restart.due:
            child.start()

    def _stop_wave(self, children: list[Child]) -> None:
        self._hurried = False
        running = [child for child in children if child.process is not None]
        for child in running:
            child.send(child.program.stop_signal)
        for child in running:
            deadline = time.monotonic() + child.program.stop_seconds
            while not child.has_ended() and time.monotonic() < deadline and not self._hurried:
                received = signal.sigtimedwait({*self._stop_signals, signal.SIGCHLD}, _TICK_SECONDS)
                self._hurried = received is not None and received.si_signo in self._stop_signals
            if not child.has_ended():
                waited = "yet" if self._hurried else f"in {child.program.stop_seconds:.0f} s"
                self._say(f"{child.program.name} did not stop {waited} and was killed.")
                child.send(signal.SIGKILL)
            child.collect()

    def _check_deadline(self, deadline: float, message: str) -> None:
        if time.monotonic() > deadline:
            raise LocalError(f"{message} See the logs in {self._log_dir}.")

    def _pause(self, seconds: float = _TICK_SECONDS) -> None:
        """Sleep for a while, or until a child ends; raises StopRequested when a signal asks to stop."""
        received = signal.sigtimedwait({*self._stop_signals, signal.SIGCHLD}, seconds)
        if received is not None and received.si_signo in self._stop_signals:
            raise StopRequested


def _how(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"


def _ended(child: Child, code: int) -> str:
    return f"{child.program.name} ended ({_how(code)}). Its last lines:\n{child.last_lines()}"
