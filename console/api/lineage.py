"""What leads from one run to another, over HTTP: continue, fork, replay; and what stands of one after an interruption."""

from http import HTTPStatus
from typing import Any
from uuid import UUID

from django.urls import reverse
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.api import refused_response
from accounts.errors import Refused
from console.api.parsing import Strict, StrictJSONParser, Text, read
from console.api.runs import IDEMPOTENCY_KEY, shown_run
from console.api.view import ApiView, answer, operation
from console.records.handover import HandoverRecord, handover_shown
from console.records.lineage import FamilyRecord, PreviewRecord, ReplayRecord, family_shown
from console.records.recovery import RecoveryRecord
from console.records.runs import RunDetail
from runtime.services import (
    Started,
    SuccessorRequest,
    fork_preview,
    run_continue,
    run_fork,
    run_replay,
)
from runtime.standing import run_recovery


class SuccessorBody(Strict):
    """Why the run goes on in a new one. An empty goal or title is taken from the source."""

    reason = Text()
    goal = Text(default="")
    title = Text(default="")


class _Successor(ApiView):
    """An act that makes a new run of another one."""

    parser_classes = (StrictJSONParser,)

    def wanted(self, request: Request) -> SuccessorRequest:
        said = read(SuccessorBody, request.data)
        key = request.headers.get("Idempotency-Key")
        return SuccessorRequest(**said) if key is None else SuccessorRequest(key=key, **said)

    def made(self, outcome: Started | Refused) -> Response:
        if isinstance(outcome, Refused):
            return refused_response(outcome)
        status = HTTPStatus.CREATED if outcome.new else HTTPStatus.OK
        response = answer(outcome, lambda: shown_run(self.actor, outcome.run_id), status)
        response["Location"] = reverse("api:run", args=[outcome.run_id])
        return response


_MAKES_RUN: dict[str, Any] = {
    "body": SuccessorBody,
    "can": (403, 404, 409),
    "statuses": (201, 200),
    "parameters": (IDEMPOTENCY_KEY,),
}


class RunContinue(_Successor):
    """The run that continues an ended one."""

    @operation("runs_continue", RunDetail, **_MAKES_RUN)
    def post(self, request: Request, id: UUID) -> Response:
        """Continue a run that ended without completing, with an admission of its own. Open promises are carried."""
        return self.made(run_continue(actor=self.actor, run_id=id, wanted=self.wanted(request)))


class CheckpointFork(_Successor):
    """A run that begins at a revision of another one."""

    @operation("checkpoints_fork", RunDetail, **_MAKES_RUN)
    def post(self, request: Request, id: UUID, revision: int) -> Response:
        """Fork this revision into a new run. Nothing of the source is changed; effects that happened stand."""
        return self.made(run_fork(actor=self.actor, run_id=id, revision=revision, wanted=self.wanted(request)))


class CheckpointForkPreview(ApiView):
    """What a fork would meet."""

    @operation("checkpoints_preview_fork", PreviewRecord, can=(404, 409))
    def get(self, request: Request, id: UUID, revision: int) -> Response:
        """What a fork of this revision would reuse, and what it would do again."""
        found = fork_preview(actor=self.actor, run_id=id, revision=revision)
        return refused_response(found) if isinstance(found, Refused) else Response(PreviewRecord(found).data)


class RunLineage(ApiView):
    """Where a run comes from, and what came from it."""

    @operation("runs_lineage", FamilyRecord)
    def get(self, request: Request, id: UUID) -> Response:
        """The continuations, forks and children of its lineage, in the order of the tree."""
        return Response(family_shown(self.actor, id))


class RunRecovery(ApiView):
    """What stands of a run."""

    @operation("runs_recovery", RecoveryRecord)
    def get(self, request: Request, id: UUID) -> Response:
        """Each input, turn, call and publication as reusable, to be authorised again, or unknown; the checks and the evidence."""
        return Response(RecoveryRecord(run_recovery(actor=self.actor, run_id=id)).data)


class RunHandover(ApiView):
    """What a new operator needs."""

    @operation("runs_handover", HandoverRecord)
    def get(self, request: Request, id: UUID) -> Response:
        """What the run is for, where it stands, what is open and unknown, what people said, and who watched."""
        return Response(handover_shown(self.actor, id))


class RunReplay(ApiView):
    """The stored outputs of a run."""

    @operation("runs_replay", ReplayRecord)
    def get(self, request: Request, id: UUID) -> Response:
        """Step through what the run stored. No model and no tool is asked; that it was looked at is audited."""
        return Response(ReplayRecord(run_replay(actor=self.actor, run_id=id)).data)
