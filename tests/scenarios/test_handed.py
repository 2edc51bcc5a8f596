"""A message that was handed to a pool process, which had not begun it when its worker was asked to stop, holds nobody up."""

import fcntl
import os
import signal
import termios
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import redis

from console import settings_test
from tests.scenarios.world import World
from tests.waiting import wait_until

pytestmark = pytest.mark.process


def pool_process(pid: int) -> int:
    """The one pool process of a worker."""
    (child,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(child)


def links(pid: int) -> Iterator[tuple[Path, str]]:
    """What a process has open."""
    for one in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            yield one, str(one.readlink())


def sockets(pid: int) -> int:
    return sum(link.startswith("socket:") for _, link in links(pid))


def has_mail(pid: int) -> bool:
    """Whether a pipe that it has open holds what it has not read."""
    for path, link in links(pid):
        if link.startswith("pipe:"):
            descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK)
            unread = fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4))
            os.close(descriptor)
            if int.from_bytes(unread, "little"):
                return True
    return False


@pytest.fixture
def broker() -> Iterator[redis.Redis]:
    with redis.Redis(unix_socket_path=str(settings_test.BROKER_SOCKET)) as broker:
        yield broker
        broker.delete("notices")


def left(broker: redis.Redis) -> tuple[Any, Any]:
    """How many messages wait, and how many are taken and not done."""
    return broker.llen("notices"), broker.hlen("unacked")


def test_a_worker_ends_in_time_and_the_message_is_there_for_the_next_one(world: World, broker: redis.Redis) -> None:
    world.stop_beat()
    teller = world.stack.start_worker("notices", queue="notices")
    pid = teller.child.pid
    child = pool_process(pid)
    world.send("runtime.notices", queue="notices")
    wait_until(lambda: left(broker) == (0, 0), "it works")
    os.kill(child, signal.SIGSTOP)
    world.send("runtime.notices", queue="notices")
    wait_until(lambda: has_mail(child), "the message is handed on")
    talking = sockets(pid)
    os.kill(pid, signal.SIGTERM)
    wait_until(lambda: sockets(pid) < talking, "it has given back what nobody began")

    os.kill(child, signal.SIGCONT)
    wait_until(teller.child.has_ended, "it ends, and does not wait half a minute", seconds=20)
    teller.wait_ended()
    waiting, taken = left(broker)
    assert waiting and not taken  # it may be there twice: whoever gives back a message does not know of the other one
