"""Waiting until a run is in a certain state: hints wake the reader, and it looks now and then in any case."""

from collections.abc import Collection
from dataclasses import dataclass
from time import monotonic
from uuid import UUID

import psycopg
from django.db import OperationalError

from accounts.errors import Refused
from accounts.states import Actor
from runs.live import CHANNEL, listen_parameters
from runs.models import Run, RunTransition
from runs.selectors import access_run
from runs.states import ENDED_RUN

LOOK_SECONDS = 2.0


class TimePassed(Refused):
    """The run did not become {wanted} within {seconds} s. It is {status}."""

    code = "TIME_PASSED"


class EndedOtherwise(Refused):
    """The run does not become {wanted} any more. It ended as {status}: {reason}."""

    code = "ENDED_OTHERWISE"


@dataclass(frozen=True)
class Reached:
    """The run was in this state when it was first looked at, or has been since, however shortly."""

    status: str


def run_await(*, actor: Actor, run_id: UUID, wanted: Collection[str], seconds: float) -> Reached | Refused:
    """Wait until a run is, or from now on was, in one of the wanted states. Raises NotFound.

    Refused when the time has passed, or when the run ended in another state.
    """
    deadline = monotonic() + seconds
    run = access_run(actor=actor, id=run_id)
    last_seen = _last_transition(run)
    try:
        with psycopg.connect(**listen_parameters(), autocommit=True) as listener:
            listener.execute(f"LISTEN {CHANNEL}")
            while True:
                run = access_run(actor=actor, id=run_id)
                passed = RunTransition.objects.filter(run=run, id__gt=last_seen).values_list("to_status", flat=True)
                reached = [status for status in (*passed, run.status) if status in wanted]
                if reached:
                    return Reached(reached[0])
                left = deadline - monotonic()
                if run.status in ENDED_RUN or left <= 0:
                    return _in_vain(run, wanted, seconds)
                _hinted(listener, run_id, min(left, LOOK_SECONDS))
    except psycopg.OperationalError as error:
        raise OperationalError(str(error)) from error


def _last_transition(run: Run) -> int:
    return RunTransition.objects.filter(run=run).order_by("-id").values_list("id", flat=True)[0]


def _hinted(listener: psycopg.Connection, run_id: UUID, seconds: float) -> None:
    """Return when the run was hinted, or after so many seconds."""
    deadline = monotonic() + seconds
    while (left := deadline - monotonic()) > 0:
        if any(str(run_id) in hint.payload for hint in list(listener.notifies(timeout=left, stop_after=1))):
            return


def _in_vain(run: Run, wanted: Collection[str], seconds: float) -> Refused:
    named = {"wanted": " or ".join(wanted), "status": run.status}
    if run.status in ENDED_RUN:
        return EndedOtherwise({**named, "reason": run.end_reason or "no reason was recorded"})
    return TimePassed({**named, "seconds": f"{seconds:g}", "hold_reason": run.hold_reason})
