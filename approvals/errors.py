"""Refusals about waits and decisions. Each docstring is the sentence that the operator reads."""

from accounts.errors import NotAllowed, Refused


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


class AlreadyAnswered(AlreadyDecided):
    """Already closed: {by} {verdict} this question at {at}. Your answer was not stored."""

    code = "ALREADY_ANSWERED"


class YouDecided(AlreadyDecided):
    """You {verdict} this call at {at}, and that stands. What you sent now changed nothing."""


class YouAnswered(AlreadyAnswered):
    """You {verdict} this question at {at}, and that stands. What you sent now changed nothing."""


class Expired(Refused):
    """Nothing was decided. The time to decide ended at {deadline}."""

    code = "EXPIRED"


class RunStopped(Refused):
    """Nothing was decided. The run was stopped, and the wait was cancelled with it at {at}. The call was never sent."""

    code = "RUN_STOPPED"


class TooLate(Expired):
    """Your answer was not stored. The time to answer ended at {deadline}."""


class AskerStopped(RunStopped):
    """Your answer was not stored. The run was stopped, and its question was closed with it at {at}."""


class InvalidAnswer(Refused):
    """Nothing was stored. {said}"""

    code = "INVALID_ANSWER"
    status = 400


class NotACall(Refused):
    """Nothing was decided. This wait asks a question. It can be answered, or declined with a reason."""

    code = "WRONG_KIND"


class NotAQuestion(Refused):
    """Nothing was answered. This wait asks for a decision about a call. It can be approved or rejected."""

    code = "WRONG_KIND"


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
    """Out of date. Nothing was decided. {by} put policy {now} in force at {at}; this was asked under {asked}. The run asks again."""

    code = "POLICY_CHANGED"


class ToolChanged(Superseded):
    """Out of date. Nothing was decided. The tool {tool} was defined anew here after this was asked, at {at}. The run asks again once it is pinned to it."""

    code = "TOOL_CHANGED"


class PolicyInForce(Refused):
    """Nothing was changed. Policy {version} is in force already."""

    code = "POLICY_IN_FORCE"


class PolicyMoved(Refused):
    """Nothing was changed. Policy {now} came into force meanwhile; you were looking at {seen}. Look at the difference again."""

    code = "POLICY_MOVED"


class PolicyFaulty(Refused):
    """Nothing was changed. The policy has {count} {faults}. The first: {place}: {said}."""

    code = "POLICY_FAULTY"
    status = 400


class NotAsked(NotAllowed):
    """Nothing was decided. This wait asks for {asked}, and {actor} is none, nor decides for one at this time."""


class AlreadyVoted(Refused):
    """Already said: {by} {verdict} this call at {at}. {given} of {quorum} have approved. Your second vote was not stored."""

    code = "ALREADY_VOTED"


class NoVote(Refused):
    """Nothing was withdrawn. {actor} has no vote on this wait that stands."""

    code = "NO_VOTE"


class AlreadyTaken(Refused):
    """Nothing was changed. {by} looks at this wait since {at}. It can be given to you with a reason."""

    code = "ALREADY_TAKEN"


class NotTaken(Refused):
    """Nothing was changed. {actor} does not look at this wait."""

    code = "NOT_TAKEN"


class WaitClosed(Refused):
    """Nothing was changed. This wait is closed: it is {status}."""

    code = "WAIT_CLOSED"


class NobodyThere(Refused):
    """Nothing was changed. {person} is no member here who may decide."""

    code = "NO_SUCH_PERSON"
    status = 400


class DelegationOver(Refused):
    """Nothing was changed. This delegation ended at {at}."""

    code = "DELEGATION_OVER"


class IncompleteView(Refused):
    """Nothing was decided. Part of the call was not shown whole, or not marked as seen: {paths}. It can still be rejected."""

    code = "INCOMPLETE_VIEW"
    status = 400


class Dwell(Refused):
    """Nothing was decided. This call asks for {seconds} s between the first look at it and an approval; {left} s are left."""

    code = "DWELL"


class StepUp(Refused):
    """Nothing was decided. This call asks for your password, given within the last {minutes} min. Give it again, then decide."""

    code = "STEP_UP"
    status = 403


class NotTogether(Refused):
    """Nothing was decided. The policy does not let this call be approved together with others. Go through it by itself."""

    code = "NOT_TOGETHER"


class WaitNotHere(Refused):
    """Nothing was decided. There is no wait {wait} here."""

    code = "NOT_FOUND"
    status = 404


class GrantOver(Refused):
    """Nothing was changed. {by} has revoked this grant at {at}."""

    code = "GRANT_OVER"


class NoSuchTool(Refused):
    """Nothing was granted. {agent} has no tool “{tool}” here that policy could ask about. Known: {known}."""

    code = "NO_SUCH_TOOL"
    status = 400


class UnknownVerdict(Refused):
    """Nothing was decided. A decision is either approve or reject."""

    code = "UNKNOWN_VERDICT"
    status = 400
