"""Children: restarted, stopped in waves, never left behind."""

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from console.local.errors import LocalError
from console.local.programs import OURS, SERVICES, Program
from console.local.supervisor import StopRequested, Supervisor, _Restart, signals_held
from tests.stack import group_size
from tests.waiting import wait_until

pytestmark = pytest.mark.process


def python(name: str, code: str, wave: int = OURS, stop_seconds: float = 5.0, attempts: int = 1) -> Program:
    argv = (sys.executable, "-c", code)
    return Program(name, argv, os.environ, wave=wave, stop_seconds=stop_seconds, attempts=attempts)


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def supervisor(tmp_path: Path, said: list[str]) -> Iterator[Supervisor]:
    with signals_held() as stop_signals:
        supervisor = Supervisor(tmp_path, stop_signals, said.append)
        yield supervisor
        supervisor.stop()


def read_pid(path: Path) -> int:
    return int(path.read_text() or 0) if path.exists() else 0


def signal_main_thread(number: signal.Signals) -> None:
    """A signal to the process could reach a thread that another test left, where it is not held, and end pytest."""
    signal.pthread_kill(threading.main_thread().ident or 0, number)


def test_a_killed_child_starts_again(supervisor: Supervisor, tmp_path: Path, said: list[str]) -> None:
    pid_file = tmp_path / "pid"
    supervisor.start(
        python("child", f"import os, signal; open({str(pid_file)!r}, 'w').write(str(os.getpid())); signal.pause()")
    )
    supervisor.wait(lambda: read_pid(pid_file) > 0, "the child", 10)
    first = read_pid(pid_file)
    os.kill(first, signal.SIGKILL)
    supervisor.wait(lambda: read_pid(pid_file) not in {0, first}, "the child again", 10)
    assert said == ["child ended (signal SIGKILL). It is started again."]


def test_a_child_that_can_not_start_ends_the_start_with_its_last_words(supervisor: Supervisor) -> None:
    supervisor.start(python("child", "raise SystemExit('no such thing')"))
    with pytest.raises(LocalError, match=r"child ended \(exit code 1\)(?s:.*)no such thing"):
        supervisor.wait(lambda: False, "the child", 10)


def test_a_child_may_fail_as_often_as_its_program_says(supervisor: Supervisor, said: list[str]) -> None:
    supervisor.start(python("child", "raise SystemExit(1)", attempts=3))
    with pytest.raises(LocalError):
        supervisor.wait(lambda: False, "the child", 10)
    assert len(said) == 2


def test_what_does_not_answer_is_named(supervisor: Supervisor) -> None:
    with pytest.raises(LocalError, match="The moon did not answer in 0 s"):
        supervisor.wait(lambda: False, "The moon", 0.2)


def test_a_failed_task_is_reported_and_a_good_one_is_not(supervisor: Supervisor) -> None:
    supervisor.run(python("task", "print('fine')"), 10)
    with pytest.raises(LocalError, match="half way"):
        supervisor.run(python("task", "print('half way'); raise SystemExit(3)"), 10)


def test_a_stop_signal_is_heard_while_waiting_and_while_watching(supervisor: Supervisor) -> None:
    signal_main_thread(signal.SIGTERM)
    with pytest.raises(StopRequested):
        supervisor.wait(lambda: False, "nothing", 10)
    signal_main_thread(signal.SIGINT)
    supervisor.watch()


def test_services_stop_after_those_who_use_them(supervisor: Supervisor, tmp_path: Path) -> None:
    log = tmp_path / "order"
    code = (
        "import signal, sys\n"
        f"def end(*_): open({str(log)!r}, 'a').write(sys.argv[0] and '{{0}} '); sys.exit()\n"
        "signal.signal(signal.SIGTERM, end); open({1!r}, 'w').close(); signal.pause()"
    )
    for name, wave in (("service", SERVICES), ("user", OURS)):
        supervisor.start(python(name, code.format(name, str(tmp_path / f"{name}-up")), wave))
    supervisor.wait(lambda: all((tmp_path / f"{name}-up").exists() for name in ("service", "user")), "both", 10)
    supervisor.stop()
    assert log.read_text().split() == ["user", "service"]


def test_a_child_that_does_not_stop_is_killed_with_all_it_forked(
    supervisor: Supervisor, tmp_path: Path, said: list[str]
) -> None:
    pid_file = tmp_path / "pid"
    code = (
        "import os, signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); child = os.fork()\n"
        f"if child: open({str(pid_file)!r}, 'w').write(str(os.getpid()))\n"
        "while True: signal.pause()"
    )
    supervisor.start(python("deaf", code, stop_seconds=0.2))
    supervisor.wait(lambda: read_pid(pid_file) > 0, "the child", 10)
    group = read_pid(pid_file)
    assert group_size(group) == 2
    supervisor.stop()
    wait_until(lambda: group_size(group) == 0, "the fork ends too")
    assert said == ["deaf did not stop in 0 s and was killed."]


def test_whoever_asks_once_more_waits_no_longer(supervisor: Supervisor, tmp_path: Path, said: list[str]) -> None:
    ready = tmp_path / "ready"
    code = (
        "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"open({str(ready)!r}, 'w').close()\nwhile True: signal.pause()"
    )
    supervisor.start(python("deaf", code, stop_seconds=600))
    supervisor.wait(ready.exists, "the child", 10)
    signal_main_thread(signal.SIGINT)
    supervisor.stop()
    assert said == ["deaf did not stop yet and was killed."]


def test_quick_failures_are_retried_less_and_less_often() -> None:
    restart, delays = _Restart(), []
    for _ in range(9):
        restart.plan(code=1, ran_seconds=0.5)
        delays.append(round(restart.due - time.monotonic(), 1))
    assert delays == [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0, 10.0]
    restart.plan(code=-9, ran_seconds=0.5)
    assert restart.due - time.monotonic() < 0.2


def test_signals_held_back_do_not_strike_afterwards() -> None:
    with signals_held():
        signal_main_thread(signal.SIGINT)
    assert signal.sigpending() == set()
