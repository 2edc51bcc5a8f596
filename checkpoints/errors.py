"""Why a revision could not be read or stored."""

from datetime import UTC, datetime

from accounts.errors import Refused


class Unreadable(Exception):
    """A stored revision can't be used. `kind` is the refusal kind; the message says what was found."""

    def __init__(self, kind: str, found: str) -> None:
        super().__init__(f"{kind}: {found}")
        self.kind = kind
        self.found = found


class Purged(Unreadable):
    """The body of a revision was purged. Its envelope stays, with the digest; the nonce in the body is gone with it (T23)."""

    def __init__(self, revision: int, digest: str, at: datetime) -> None:
        said = f"the body was purged on {at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC; its digest was {digest}"
        super().__init__("PURGED", f"revision {revision}: {said}")
        self.revision = revision
        self.digest = digest
        self.at = at


class RevisionPurged(Refused):
    """Nothing was changed. The body of revision {revision} was purged on {at}; only its digest is kept. Take a newer revision."""

    code = "PURGED"


def unreadable_refusal(error: Unreadable) -> Refused:
    """What a person is told who asked for something that needs a revision that can't be read."""
    if isinstance(error, Purged):
        at = f"{error.at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
        return RevisionPurged({"revision": error.revision, "at": at, "digest": error.digest})
    return RunUnreadable({"found": error.found})


class RunUnreadable(Refused):
    """Nothing was changed. The run's head can't be read: {found}."""

    code = "RUN_UNREADABLE"


class SnapshotRefused(Refused):
    """Nothing was changed. The run's next revision can't be stored: {reason} (at {path})."""

    code = "SNAPSHOT_REFUSED"


class OlderRevision(Refused):
    """Nothing was changed. You named revision {seen}; a run goes on from its newest one only, which is {revision}. Any older one can be forked."""

    code = "STALE_REVISION"


class NoCheckpoint(Refused):
    """Nothing was changed. The run has no execution checkpoint, so there is no point to continue from; start a new run."""

    code = "NO_CHECKPOINT"


class GoalMoved(Refused):
    """Nothing was changed. The goal is at version {version} by now, by {by} at {at}; you were reading version {seen}."""

    code = "GOAL_MOVED"


class GoalUnchanged(Refused):
    """Nothing was changed. The goal you gave is the goal the run already has."""

    code = "GOAL_UNCHANGED"


class CommitmentGone(Refused):
    """Nothing was changed. This commitment was withdrawn already, by {by} at {at}."""

    code = "COMMITMENT_WITHDRAWN"


class NothingToMigrate(Refused):
    """Nothing was changed. The head of this run is in format {format}, which is read and written here."""

    code = "NOTHING_TO_MIGRATE"


class ObligationClosed(Refused):
    """Nothing was changed. This obligation is already {status}."""

    code = "OBLIGATION_CLOSED"
