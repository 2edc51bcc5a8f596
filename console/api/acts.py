"""Acts on one run, over HTTP."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from console.api.parsing import ReasonBody, Strict, StrictJSONParser, Text, Whole, read
from console.api.runs import shown_run
from console.api.view import ApiView, answer, operation
from console.records.runs import RunDetail
from runs.states import BudgetUnit
from runtime.services import (
    CAP_LIMIT,
    PauseShown,
    Terms,
    budget_raise,
    checkpoint_migrate,
    goal_revise,
    run_abort,
    run_bind,
    run_end_settled,
    run_pause,
    run_repin,
    run_resume,
    run_stop,
    run_tag,
)


class TermsBody(ReasonBody):
    """What the run is bound to from now on, and why. `deny` names tools or effect classes that it must not use."""

    constraint = serializers.ListField(child=Text(), default=list)
    assumption = serializers.ListField(child=Text(), default=list)
    deny = serializers.ListField(child=Text(), default=list)


class GoalBody(ReasonBody):
    """The new goal, and why; and the version that the person was reading, where they name it. A later one is not written over."""

    goal = Text()
    version = Whole(required=False)


class ResumeBody(ReasonBody):
    """Why; and the revision that the person means to go on from, where they name one. Only the newest is gone on from. `pause` is the pause that
    they mean to take back, null where they know of none: one that somebody asked for since then stays.
    """

    revision = Whole(required=False)
    pause = serializers.UUIDField(required=False, allow_null=True)


class CapBody(ReasonBody):
    """The unit, its new cap, and why; and the cap that the person was reading, where they name it. One that was raised since is not
    written over.
    """

    unit = serializers.ChoiceField(choices=list(BudgetUnit))
    cap = Whole(max_value=CAP_LIMIT)
    seen = Whole(max_value=CAP_LIMIT, required=False)


class TagsBody(Strict):
    """The tags that come, and those that go."""

    add = serializers.ListField(child=Text(), default=list)
    remove = serializers.ListField(child=Text(), default=list)


_ON_RUN: dict[str, Any] = {"can": (403, 404, 409)}


class _Act(ApiView):
    """An act on a run. It answers with the run as it is afterwards."""

    parser_classes = (StrictJSONParser,)

    def done(self, id: UUID, act: Callable[..., object], **said: object) -> Response:
        outcome = act(actor=self.actor, run_id=id, **said)
        return answer(outcome, lambda: shown_run(self.actor, id))


class RunStop(_Act):
    """The stop of a run."""

    @operation("runs_stop", RunDetail, body=ReasonBody, **_ON_RUN)
    def post(self, request: Request, id: UUID) -> Response:
        """Accept a stop: nothing new is dispatched from here on. `stop.status` says how far it has got."""
        return self.done(id, run_stop, **read(ReasonBody, request.data))


class RunAbort(_Act):
    """The stop of a run that waits for nothing."""

    @operation("runs_abort", RunDetail, body=ReasonBody, **_ON_RUN)
    def post(self, request: Request, id: UUID) -> Response:
        """Stop a run, and do not wait for what is on the wire: it is UNCERTAIN from then on. It may still happen."""
        return self.done(id, run_abort, **read(ReasonBody, request.data))


class RunPause(_Act):
    """The pause of a run."""

    @operation("runs_pause", RunDetail, body=ReasonBody, **_ON_RUN)
    def post(self, request: Request, id: UUID) -> Response:
        """Accept a pause: nothing new is dispatched until somebody resumes the run. `pause.status` says how far it has got."""
        return self.done(id, run_pause, **read(ReasonBody, request.data))


class RunResume(_Act):
    """Another try of a held run."""

    @operation("runs_resume", RunDetail, body=ResumeBody, **_ON_RUN)
    def post(self, request: Request, id: UUID) -> Response:
        """Queue a run that is held for a cause that may be gone; or, while a pause is open, take back the pause."""
        said = read(ResumeBody, request.data)
        shown = {"shown": PauseShown(said.pop("pause"))} if "pause" in said else {}
        return self.done(id, run_resume, **said, **shown)


class RunSettle(_Act):
    """The end of a run by what is known."""

    @operation("runs_settle", RunDetail, body=ReasonBody, **_ON_RUN)
    def post(self, request: Request, id: UUID) -> Response:
        """Settle a run that is queued, waits or is held. `settlement` says what is known, unknown and still owed."""
        return self.done(id, run_end_settled, **read(ReasonBody, request.data))


class RunTerms(_Act):
    """What binds a run."""

    @operation("runs_bind", RunDetail, body=TermsBody, **_ON_RUN)
    def post(self, request: Request, id: UUID) -> Response:
        """Add constraints and assumptions to a run that no worker holds. Waits that are open are superseded and asked again."""
        said = read(TermsBody, request.data)
        terms = Terms(*(tuple(said[name]) for name in ("constraint", "assumption", "deny")))
        return self.done(id, run_bind, terms=terms, reason=said["reason"])


class RunGoal(_Act):
    """The goal of a run."""

    @operation("runs_revise_goal", RunDetail, body=GoalBody, **_ON_RUN)
    def post(self, request: Request, id: UUID) -> Response:
        """Revise the goal of a run that no worker holds. Waits that are open are superseded and asked again."""
        return self.done(id, goal_revise, **read(GoalBody, request.data))


class RunTags(_Act):
    """The tags of a run."""

    @operation("runs_tag", RunDetail, body=TagsBody, **_ON_RUN)
    def post(self, request: Request, id: UUID) -> Response:
        """Give a run tags, and take others from it, whatever its status. What it has already, or has not, is no change."""
        return self.done(id, run_tag, **read(TagsBody, request.data))


class RunBudget(_Act):
    """The budget of a run."""

    @operation("runs_raise_cap", RunDetail, body=CapBody, **_ON_RUN)
    def post(self, request: Request, id: UUID) -> Response:
        """Raise the cap of one unit. A run that is held for its budget is queued."""
        return self.done(id, budget_raise, **read(CapBody, request.data))


class RunMigrate(_Act):
    """The format of a run's head."""

    @operation("runs_migrate", RunDetail, body=ReasonBody, **_ON_RUN)
    def post(self, request: Request, id: UUID) -> Response:
        """Bring the head from an older format to the one of today. Live waits are superseded and asked again."""
        return self.done(id, checkpoint_migrate, **read(ReasonBody, request.data))


class RunRepin(_Act):
    """The pins of a run."""

    @operation("runs_repin", RunDetail, body=ReasonBody, **_ON_RUN)
    def post(self, request: Request, id: UUID) -> Response:
        """Pin the run to its agent as it is installed now. Live waits are superseded and asked again."""
        return self.done(id, run_repin, **read(ReasonBody, request.data))
