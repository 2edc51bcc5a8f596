"""Whether what was started answers."""

import urllib.error
import urllib.request

from celery import Celery
from kombu.exceptions import OperationalError

_PING_SECONDS = 0.5


def page_answers(url: str) -> bool:
    """Whether a page of ours is served now, after redirects."""
    try:
        with urllib.request.urlopen(url, timeout=5) as response:  # noqa: S310  our own address
            return bool(response.status == 200)
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False


def workers_answer(broker_url: str, nodes: list[str]) -> bool:
    """Whether each of these Celery nodes answers over the broker now."""
    with Celery("readiness", broker=broker_url, set_as_current=False) as probe:
        try:
            return len(probe.control.ping(destination=nodes, timeout=_PING_SECONDS)) == len(nodes)
        except OperationalError:
            return False
