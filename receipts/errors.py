"""Refusals about calls and their outcomes. Each docstring is the sentence that the operator reads."""

from accounts.errors import Refused


class NotUncertain(Refused):
    """Nothing was stored. The outcome of this call is not unknown: it is {status}."""

    code = "NOT_UNCERTAIN"


class VerdictGiven(Refused):
    """Your verdict was not stored. {by} already said {verdict} at {at}."""

    code = "VERDICT_GIVEN"


class YouGaveVerdict(VerdictGiven):
    """You said {verdict} of this call at {at}, and that stands. What you sent now changed nothing."""


class AttemptsMoved(Refused):
    """Out of date. Your verdict was not stored. You were looking at attempt {seen}; the call is at attempt {attempts}."""

    code = "ATTEMPTS_MOVED"


class NothingToProbe(Refused):
    """Nobody was asked. {why}"""

    code = "NOTHING_TO_PROBE"


class ProbeUnderWay(Refused):
    """Nobody was asked again. {by} asked at {at}, and the answer is awaited."""

    code = "PROBE_UNDER_WAY"


class AttachmentTooBig(Refused):
    """Nothing was stored. {filename} has more than {limit} bytes, and no more are taken."""

    code = "ATTACHMENT_TOO_BIG"
    status = 413


class AttachmentThere(Refused):
    """Nothing was stored. The same bytes are beside this call already, as “{filename}”, by {by} at {at}."""

    code = "ATTACHMENT_THERE"


class AttachmentsFull(Refused):
    """Nothing was stored. There are {count} files beside this call already, and no more are taken."""

    code = "ATTACHMENTS_FULL"


class NeverSent(Refused):
    """Nothing was stored. This call was never sent, so there is nothing to give evidence of."""

    code = "NEVER_SENT"


class RetryNeedsApprover(Refused):
    """Nothing was stored. To send this call again, the person who says that it did not happen must also be an approver."""

    code = "RETRY_NEEDS_APPROVER"
    status = 403


class NothingToRepeat(Refused):
    """Nothing was changed. {step} is {status}; only an effect that has happened can be had a second time."""

    code = "NOTHING_TO_REPEAT"


class RepeatGranted(Refused):
    """Nothing was changed. {by} has asked for a second effect of {step} already, at {at}."""

    code = "REPEAT_GRANTED"


class RetryOnEndedRun(Refused):
    """Nothing was stored. The run has ended, so the call can't be sent again; say whether it happened without a retry."""

    code = "RETRY_ON_ENDED_RUN"


class ContradictionClosed(Refused):
    """Nothing was changed. This flag was already closed, by {by} at {at}."""

    code = "CONTRADICTION_CLOSED"


class NothingContradicted(Refused):
    """Nothing was stored. Nothing is accepted about this call that {says} would speak against, or you have said so already."""

    code = "NOTHING_CONTRADICTED"


class ArgumentsUnusable(Refused):
    """Nothing was changed. The tool can't use these arguments: {reason}"""

    code = "ARGUMENTS_UNUSABLE"
    status = 400


class NothingAmended(Refused):
    """Nothing was changed. With these arguments it is {which}, which was sent or may still be sent."""

    code = "NOTHING_AMENDED"
