"""Refusals about runs. Each docstring is the sentence that the operator reads."""

from accounts.errors import Refused


class LeaseLost(Exception):
    """Somebody else continues the run, or may: this worker writes nothing more."""


def connection_lost(error: Exception) -> bool:
    """Whether a database error means that the connection is gone, so that a commit under way may or may not stand.

    A server that ends an idle transaction has rolled it back and says so: that is no such error.
    """
    state = getattr(error.__cause__ or error, "sqlstate", None)
    return state is None or state.startswith("08") or state in _LOST


_LOST = frozenset({"57P01", "57P02", "57P03"})  # ended by an administrator, by a crash, or not up yet


class RunEnded(Refused):
    """Nothing was changed. The run ended as {status} at {at}."""

    code = "RUN_ENDED"


class RunHeldByWorker(Refused):
    """Nothing was changed. A worker is continuing this run right now; this act needs a run that waits, is queued or is held."""

    code = "RUN_BUSY"


class NothingToResume(Refused):
    """Nothing was changed. The run is {status}; only a run that is held for a refused resume or too many takeovers can be tried again."""

    code = "NOTHING_TO_RESUME"


class NothingToContinue(Refused):
    """No run was started. The run is {status}; only a run that ended without completing can be continued. {instead}"""

    code = "NOTHING_TO_CONTINUE"


class AlreadyContinued(Refused):
    """No run was started. Run {run} continues this one already, and what was promised was carried there."""

    code = "ALREADY_CONTINUED"


class NothingToPin(Refused):
    """Nothing was changed. The run is pinned to {agent} {version} already, exactly as it is installed here."""

    code = "NOTHING_TO_PIN"


class AgentMissing(Refused):
    """Nothing was changed. There is no agent “{agent}” here that the run could be pinned to. Known: {known}."""

    code = "AGENT_MISSING"


class SentUnderOldPin(Refused):
    """Nothing was changed. {step} was sent under the old pin, its tool is another one now, and its outcome is not known. Settle that call first."""

    code = "SENT_UNDER_OLD_PIN"


class ThreadBusy(Refused):
    """No run was started. Thread {thread} already has a live run, {run}."""

    code = "THREAD_BUSY"


class KeyReused(Refused):
    """No run was started. The key {key} already made run {run}, from another agent, goal, source or other files."""

    code = "KEY_REUSED"


class NoCap(Refused):
    """Nothing was changed. This run has no cap on {unit}, so nothing of it is ever refused."""

    code = "NO_CAP"


class CapNotHigher(Refused):
    """Nothing was changed. The cap on {unit} is {cap} already, and {wanted} is not higher; a cap is only ever raised."""

    code = "CAP_NOT_HIGHER"


class StopOpen(Refused):
    """Nothing was changed. This run is being stopped; it starts nothing new."""

    code = "STOP_OPEN"
