"""Whether what was started answers."""

import urllib.error
import urllib.request

from celery import Celery
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

_PING_SECONDS = 0.5
_ONCE = {"max_retries": 0}


def page_answers(url: str) -> bool:
    """Whether a page of ours is served now, after redirects."""
    try:
        with urllib.request.urlopen(url, timeout=5) as response:  # noqa: S310  our own address
            return bool(response.status == 200)
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False


def workers_answer(broker_url: str, nodes: list[str]) -> bool:
    """Whether each of these Celery nodes answers over the broker now."""
    # A connection of its own: a kept one may be to a broker that has been restarted since.
    probe = Celery("readiness", broker=broker_url, set_as_current=False, changes={"broker_transport_options": _ONCE})
    with probe, probe.connection_for_write() as broker:
        try:
            answers = probe.control.ping(destination=nodes, timeout=_PING_SECONDS, connection=broker)
        except (OperationalError, RedisError, OSError):
            return False
        return len(answers) == len(nodes)
