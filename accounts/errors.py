"""Refusals as values, and the one exception for an object that is not there for this person."""

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar


class NotFound(Exception):
    """The named object does not exist in the person's tenant. A foreign id looks the same as a missing one."""


class TenantUnchosen(Exception):
    """A person is a member of several tenants and has not said for which one they act. `tenants`: the short names of theirs."""

    def __init__(self, tenants: Sequence[str]) -> None:
        super().__init__(", ".join(tenants))
        self.tenants = tuple(tenants)


@dataclass(frozen=True)
class Refused:
    """The act was refused and nothing was changed."""

    # A service returns a refusal; it never raises one, since its audit row must survive. The docstring of a subclass is
    # the sentence that the operator reads; `facts` fill its placeholders.

    facts: dict[str, Any] = field(default_factory=dict)
    code: ClassVar[str] = "REFUSED"
    status: ClassVar[int] = 409

    @property
    def template(self) -> str:
        """What every refusal of this kind says, before its facts are filled in."""
        return " ".join(inspect.cleandoc(self.__doc__ or "").split())

    @property
    def sentence(self) -> str:
        """What the person reads: what did not happen, and why."""
        return self.template.format(**self.facts)


class NotAllowed(Refused):
    """Nothing was done. This needs the permission “{permission}”, which {actor} does not have in this tenant."""

    code = "NOT_ALLOWED"
    status = 403


class Invalid(Refused):
    """Nothing was done. {field}: {reason}"""

    code = "INVALID"
    status = 400


class EndpointGone(Refused):
    """Nothing was done. This endpoint was removed already."""

    code = "ENDPOINT_GONE"


class EndpointMoved(Refused):
    """Nothing was changed. By {by} at {at} this endpoint was changed while you were reading it: {changed}."""

    code = "ENDPOINT_MOVED"


class EndpointPaused(Refused):
    """Nothing was done. This endpoint is paused already."""

    code = "ENDPOINT_PAUSED"


class EndpointNotPaused(Refused):
    """Nothing was done. This endpoint is not paused."""

    code = "ENDPOINT_NOT_PAUSED"


class AlreadyTested(Refused):
    """Nothing was done. A test of this endpoint is under way already; its result is among what was told."""

    code = "TEST_UNDER_WAY"


class TooManyTries(Refused):
    """Nothing was done. Too many wrong passwords were given. Try again in {seconds} s, at {at}."""

    code = "TOO_MANY_TRIES"
    status = 429


class WrongPassword(Refused):
    """Nothing was done. This is not the password of {actor}."""

    code = "WRONG_PASSWORD"
    status = 403


class SessionOver(Refused):
    """Nothing was done. Your session ended a moment ago. Sign in again."""

    code = "SESSION_OVER"
    status = 403


class ViewNameTaken(Refused):
    """Nothing was saved. You have a view called “{name}” of this list already. Remove it, or choose another name."""

    code = "VIEW_NAME_TAKEN"


class TooManyViews(Refused):
    """Nothing was saved. You have {most} views of this list already. Remove one first."""

    code = "TOO_MANY_VIEWS"
