"""Why a revision could not be read or stored."""

from accounts.errors import Refused


class Unreadable(Exception):
    """A stored revision can't be used. `kind` is the refusal kind; the message says what was found."""

    def __init__(self, kind: str, found: str) -> None:
        super().__init__(f"{kind}: {found}")
        self.kind = kind
        self.found = found


class SnapshotRefused(Refused):
    """Nothing was changed. The run's next revision can't be stored: {reason} (at {path})."""

    code = "SNAPSHOT_REFUSED"


class NoCheckpoint(Refused):
    """Nothing was changed. The run has no execution checkpoint, so there is no point to continue from; start a new run."""

    code = "NO_CHECKPOINT"


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
