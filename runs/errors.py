"""Refusals about runs. Each docstring is the sentence that the operator reads."""

from uuid import UUID

from django.db.utils import InterfaceError, OperationalError

from accounts.errors import Refused


class LeaseLost(Exception):
    """Somebody else continues the run, or may: this worker writes nothing more."""


class ScopeStopped(Exception):
    """No run may be admitted here: this stop of its tenant, agent or thread stands. The caller's transaction ends with it."""

    def __init__(self, control_id: UUID) -> None:
        super().__init__(str(control_id))
        self.control_id = control_id


def connection_lost(error: Exception) -> bool:
    """Whether a database error means that the connection is gone, so that a commit under way may or may not stand.

    A server that ends an idle transaction has rolled it back and says so: that is no such error.
    """
    if not isinstance(error, (OperationalError, InterfaceError)):
        return False
    state = _sqlstate(error)
    return state is None or state.startswith("08") or state in _LOST


_LOST = frozenset({"57P01", "57P02", "57P03"})  # ended by an administrator, by a crash, or not up yet


def store_said(error: Exception) -> str:
    """A database error in words, by its SQLSTATE, with the constraint or table that it names. Never its message: that may
    hold what was to be stored.
    """
    state = _sqlstate(error) or ""
    what = next((words for start, words in _STATES if state.startswith(start)), "the database refused a statement")
    found = getattr(error.__cause__, "diag", None)
    named = getattr(found, "constraint_name", None) or getattr(found, "table_name", None)
    code = state or type(error).__name__
    return f"{what} ({code}: {named})" if named else f"{what} ({code})"


# The longer beginning of a state comes first.
_STATES = (
    ("25006", "the database takes no writes"),
    ("22", "a value is none that the database can hold"),
    ("23", "a rule of the database forbids what was to be written"),
    ("25", "a transaction was ended by the server"),
    ("40", "a transaction was in the way of another one"),
    ("42", "the tables are not as this version of Signalbox needs them"),
    ("53100", "the database's disk is full"),
    ("53", "the database lacks room, memory or connections"),
    ("55", "somebody else kept a lock for too long"),
    ("57014", "a statement took too long and was cancelled"),
    ("58", "the database could not read or write its files"),
    ("XX", "the database failed inside, or found a page that is damaged"),
)


def _sqlstate(error: Exception) -> str | None:
    state: str | None = getattr(error.__cause__ or error, "sqlstate", None)
    return state


class RunEnded(Refused):
    """Nothing was changed. The run ended as {status} at {at}."""

    code = "RUN_ENDED"


class RunHeldByWorker(Refused):
    """Nothing was changed. A worker is continuing this run right now; this act needs a run that waits, is queued or is held."""

    code = "RUN_BUSY"


class NothingToResume(Refused):
    """Nothing was changed. The run is {status}; only a run that is held for a refused resume or too many takeovers can be tried again."""

    code = "NOTHING_TO_RESUME"


class PausedSince(Refused):
    """Nothing was changed. {by} paused this run at {at}, which you were not shown when you asked for it to go on: “{reason}”"""

    code = "PAUSED_SINCE"


class PauseOver(Refused):
    """Nothing was changed. The pause that you were shown has ended already."""

    code = "PAUSE_OVER"


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


class CapMoved(Refused):
    """Nothing was changed. The cap on {unit} is {cap} by now, raised by {by} at {at}; you were reading {seen}."""

    code = "CAP_MOVED"


class StopOpen(Refused):
    """Nothing was changed. This run is being stopped; it starts nothing new."""

    code = "STOP_OPEN"


class StartsStopped(Refused):
    """No run was started. {name} was stopped by {by} at {at}, and nothing is started there until that is lifted: “{reason}”"""

    code = "SCOPE_STOPPED"


class ScopePaused(Refused):
    """Nothing was changed. {name} was paused by {by} at {at}; its runs go on when that is lifted: “{reason}”"""

    code = "SCOPE_PAUSED"


class PausedWithScope(Refused):
    """Nothing was changed. {name} was paused by {by} at {at}, and this run with it: “{reason}”. The run goes on when that is
    lifted; pause it by itself after that to keep it paused.
    """

    code = "PAUSED_WITH_SCOPE"


class NothingToAbort(Refused):
    """Nothing was changed. Every run of it has ended; there is nothing left to wait for. Lift the stop to have runs started there."""

    code = "NOTHING_TO_ABORT"


class AlreadyLifted(Refused):
    """Nothing was changed. It was lifted by {by} at {at}."""

    code = "ALREADY_LIFTED"


class NotAStop(Refused):
    """Nothing was changed. A pause waits for what is on the wire; only a stop can be told not to."""

    code = "NOT_A_STOP"


class BulkMoved(Refused):
    """Nothing was done. The filter finds other runs by now, or one of them was paused meanwhile: {shown} were shown, and there are {now}. Look at
    them and ask again.
    """

    code = "BULK_MOVED"


class BulkEmpty(Refused):
    """Nothing was done. The filter finds no run that this would mean anything to."""

    code = "BULK_EMPTY"


class BulkTooMany(Refused):
    """Nothing was done. The filter finds more than {limit} runs. Narrow it; or stop the agent, the thread or the whole tenant."""

    code = "BULK_TOO_MANY"


class TooManyTags(Refused):
    """Nothing was changed. A run has at most {limit} tags, and this one would have {count}."""

    code = "TOO_MANY_TAGS"
