"""How long to wait before the next try, and where to wait: in this worker for a moment, in the queue for longer."""

from secrets import SystemRandom

from django.conf import settings

from runtime.ending import give_back
from runtime.session import Session

_dice = SystemRandom()


def backoff(attempt: int, *, asked: float | None = None) -> float:
    """Seconds to wait after this attempt: anything up to a limit that doubles with each (full jitter), so that many who were
    refused at once do not come back at once; at least what the other side asked for. Never more than RETRY_MAX_SECONDS.
    """
    most: float = settings.RETRY_MAX_SECONDS
    ceiling = min(most, settings.RETRY_BASE_SECONDS * 2 ** (attempt - 1))
    return min(most, max(_dice.uniform(0, ceiling), asked or 0.0))


def wait_for_retry(session: Session, seconds: float) -> bool:
    """Wait here where it is short. Else the run is queued with the time when it is due, and this worker is free for others;
    then False.
    """
    if seconds <= settings.RETRY_HOLD_SECONDS:
        session.heartbeat.pause(seconds)
        return True
    give_back(session.holding, cause="RETRY", due_in=seconds)
    return False
