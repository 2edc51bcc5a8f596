"""Refusals about waits and decisions. Each docstring is the sentence that the operator reads."""

from accounts.errors import Refused


class StaleRevision(Refused):
    """Out of date. Nothing was decided. You were reading revision {seen_revision}; the wait is bound to {revision}."""

    code = "STALE_REVISION"


class CheckpointDiffers(StaleRevision):
    """Out of date. Nothing was decided. The checkpoint digest you were shown is not the one that revision {revision} has."""


class CheckpointChanged(Refused):
    """Nothing was decided. Revision {revision}, which this wait is bound to, was changed in the store: {found}."""

    code = "DIGEST_MISMATCH"


class ArgsChanged(Refused):
    """Nothing was decided. The arguments you were shown are not the arguments of this call."""

    code = "ARGS_CHANGED"


class AlreadyDecided(Refused):
    """Already decided: {by} {verdict} this call at {at}. Your decision was not stored."""

    code = "ALREADY_DECIDED"


class Expired(Refused):
    """Nothing was decided. The time to decide ended at {deadline}."""

    code = "EXPIRED"


class RunStopped(Refused):
    """Nothing was decided. The run was stopped, and the wait was cancelled with it at {at}. The call was never sent."""

    code = "RUN_STOPPED"


class Superseded(Refused):
    """Out of date. Nothing was decided. This wait was replaced at {at}: {reason}. {next}"""

    code = "STALE_REVISION"


class GroundWithdrawn(Refused):
    """Nothing was decided. The run rests on the {kind} “{statement}”, which {by} withdrew at {at}."""

    code = "COMMITMENT_WITHDRAWN"


class SelfApproval(Refused):
    """Nothing was decided. {actor} started this run, and this tenant does not let the starter decide."""

    code = "SELF_APPROVAL"
    status = 403


class SelfWritten(SelfApproval):
    """Nothing was decided. {actor} wrote this call, and this tenant does not let its author decide."""


class PolicyChanged(Superseded):
    """Out of date. Nothing was decided. Policy {now} came into force after this was asked under {asked}. The run asks again."""

    code = "POLICY_CHANGED"


class PolicyInForce(Refused):
    """Nothing was changed. Policy {version} is in force already."""

    code = "POLICY_IN_FORCE"


class PolicyMoved(Refused):
    """Nothing was changed. Policy {now} came into force meanwhile; you were looking at {seen}. Look at the difference again."""

    code = "POLICY_MOVED"


class PolicyFaulty(Refused):
    """Nothing was saved. The policy has {count} {faults}. The first: {place}: {said}."""

    code = "POLICY_FAULTY"
    status = 400
