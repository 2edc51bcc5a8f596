"""Runs over HTTP: list, start, show, stop, resume, revise the goal, and read the inputs."""

from dataclasses import replace
from http import HTTPStatus
from typing import Any
from uuid import UUID

from django.http import HttpResponse, QueryDict
from django.urls import reverse
from django.utils.http import content_disposition_header
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter
from rest_framework import serializers
from rest_framework.parsers import MultiPartParser
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.api import refused_response
from accounts.errors import NotFound, Refused
from accounts.states import Actor
from console.api.paging import Order, PageQuery
from console.api.parsing import Strict, StrictJSONParser, Text, Whole, read
from console.api.view import ApiView, answer, operation, paged
from console.pages.run_list import RunFilter, runs_found
from console.records import records_of
from console.records.runs import InputRecord, RunDetail, RunRecord, run_with_parts, runs_with_parts
from console.uploads import too_big
from runs.models import RunInput
from runs.selectors import access_run, artifact_bytes
from runs.states import BudgetUnit, RunStatus
from runtime.registry import agents
from runtime.services import (
    CAP_LIMIT,
    StartRequest,
    Terms,
    Upload,
    budget_raise,
    goal_revise,
    run_bind,
    run_end_settled,
    run_pause,
    run_resume,
    run_start,
    run_stop,
    typed_text,
)

NEWEST_FIRST = Order(("created_at", "id"))
IDEMPOTENCY_KEY = OpenApiParameter(
    "Idempotency-Key",
    OpenApiTypes.STR,
    OpenApiParameter.HEADER,
    description="A key of your own, at most 200 characters. Asking again with it gives the run that it made (200).",
)


class RunQuery(PageQuery):
    """Filters of the list of runs. `status` may stand several times; `q` looks into titles and ids."""

    status = serializers.ListField(child=serializers.ChoiceField(choices=list(RunStatus)), required=False)
    agent = Text(required=False)
    q = Text(required=False)


class StartForm(Strict):
    """The text fields of a start. Every file of the form is an input, and every text that the agent takes as text."""

    agent = Text()
    goal = Text(default="")
    title = Text(default="")
    thread = Text(default="")
    constraint = serializers.ListField(child=Text(), default=list)
    assumption = serializers.ListField(child=Text(), default=list)
    deny = serializers.ListField(child=Text(), default=list)
    workspace = Text(default="")


class ReasonBody(Strict):
    """Why a person does this."""

    reason = Text()


class TermsBody(ReasonBody):
    """What the run is bound to from now on, and why. `deny` names tools or effect classes that it must not use."""

    constraint = serializers.ListField(child=Text(), default=list)
    assumption = serializers.ListField(child=Text(), default=list)
    deny = serializers.ListField(child=Text(), default=list)


class GoalBody(ReasonBody):
    """The new goal, and why."""

    goal = Text()


class CapBody(ReasonBody):
    """The unit, its new cap, and why."""

    unit = serializers.ChoiceField(choices=list(BudgetUnit))
    cap = Whole(max_value=CAP_LIMIT)


START_FORM = {
    "multipart/form-data": {
        "type": "object",
        "properties": {
            **{name: {"type": "string"} for name in ("agent", "goal", "title", "thread", "workspace")},
            **{name: {"type": "array", "items": {"type": "string"}} for name in ("constraint", "assumption", "deny")},
        },
        "additionalProperties": {"type": "string", "format": "binary"},
        "required": ["agent"],
        "description": "Every file is an input of the run under the name of its field; fund_comparison takes a and b. "
        "An agent's inputs of plain text may stand as text fields too; evidence_search takes claims."
        " `constraint` and `assumption` bind the run, in words; `deny` names a tool or an effect class that it must not use.",
    }
}


def shown_run(actor: Actor, id: UUID) -> dict[str, Any]:
    """The detail of a run as it is now. Raises NotFound."""
    return RunDetail(run_with_parts(access_run(actor=actor, id=id))).data


class Runs(ApiView):
    """The runs of the tenant."""

    parser_classes = (MultiPartParser,)

    @operation("runs_list", paged(RunRecord), query=RunQuery, can=())
    def get(self, request: Request) -> Response:
        """The newest first."""
        query = read(RunQuery, request.query_params)
        wanted = RunFilter(
            statuses=tuple(query.get("status", ())), agent=query.get("agent", ""), text=query.get("q", "").strip()
        )
        return self.page("runs", runs_found(self.actor, wanted), NEWEST_FIRST, query, RunRecord, runs_with_parts)

    @operation(
        "runs_start",
        RunDetail,
        body=START_FORM,
        can=(403, 409, 413),
        statuses=(201, 200),
        parameters=(IDEMPOTENCY_KEY,),
    )
    def post(self, request: Request) -> Response:
        """Start a run. A file that the agent can't read is refused with its line before anything is stored."""
        wanted = _start_request(request)
        if isinstance(wanted, Refused):
            return refused_response(wanted)
        outcome = run_start(actor=self.actor, wanted=wanted)
        if isinstance(outcome, Refused):
            return refused_response(outcome)
        status = HTTPStatus.CREATED if outcome.new else HTTPStatus.OK
        response = answer(outcome, lambda: shown_run(self.actor, outcome.run_id), status)
        response["Location"] = reverse("api:run", args=[outcome.run_id])
        return response


def _start_request(request: Request) -> StartRequest | Refused:
    fields = QueryDict(mutable=True)
    for name, values in request.POST.lists():
        fields.setlist(name, values)
    inputs = _typed_inputs(fields, request)
    form = read(StartForm, fields)
    for name, files in request.FILES.lists():
        if len(files) > 1:
            raise serializers.ValidationError({name: ["It stands more than once."]})
        refused = too_big(name, files[0].size)
        if refused is not None:
            return refused
        inputs[name] = Upload(files[0].name, files[0].read())
    key = request.headers.get("Idempotency-Key")
    terms = Terms(*(tuple(form.pop(name)) for name in ("constraint", "assumption", "deny")))
    wanted = StartRequest(inputs=inputs, terms=terms, **form)
    return wanted if key is None else replace(wanted, key=key)


def _typed_inputs(fields: QueryDict, request: Request) -> dict[str, Upload]:
    """Take the inputs that are plain text out of the fields of the form, as far as the named agent takes such."""
    agent = agents().get(fields.get("agent", ""))
    inputs = {}
    for name in agent.spec.text_inputs if agent else ():
        texts = fields.pop(name, [])
        if len(texts) > 1 or (texts and name in request.FILES):
            raise serializers.ValidationError({name: ["It stands more than once."]})
        if texts:
            inputs[name] = typed_text(texts[0])
    return inputs


class OneRun(ApiView):
    """One run."""

    @operation("runs_show", RunDetail)
    def get(self, request: Request, id: UUID) -> Response:
        """The run with what it waits for, called, promised and published."""
        return Response(shown_run(self.actor, id))


class RunStop(ApiView):
    """The stop of a run."""

    parser_classes = (StrictJSONParser,)

    @operation("runs_stop", RunDetail, body=ReasonBody, can=(403, 404, 409))
    def post(self, request: Request, id: UUID) -> Response:
        """Accept a stop: nothing new is dispatched from here on. `stop.status` says how far it has got."""
        said = read(ReasonBody, request.data)
        outcome = run_stop(actor=self.actor, run_id=id, reason=said["reason"])
        return answer(outcome, lambda: shown_run(self.actor, id))


class RunPause(ApiView):
    """The pause of a run."""

    parser_classes = (StrictJSONParser,)

    @operation("runs_pause", RunDetail, body=ReasonBody, can=(403, 404, 409))
    def post(self, request: Request, id: UUID) -> Response:
        """Accept a pause: nothing new is dispatched until somebody resumes the run. `pause.status` says how far it has got."""
        said = read(ReasonBody, request.data)
        outcome = run_pause(actor=self.actor, run_id=id, reason=said["reason"])
        return answer(outcome, lambda: shown_run(self.actor, id))


class RunResume(ApiView):
    """Another try of a held run."""

    parser_classes = (StrictJSONParser,)

    @operation("runs_resume", RunDetail, body=ReasonBody, can=(403, 404, 409))
    def post(self, request: Request, id: UUID) -> Response:
        """Queue a run that is held for a cause that may be gone; or, while a pause is open, take back the pause."""
        said = read(ReasonBody, request.data)
        outcome = run_resume(actor=self.actor, run_id=id, reason=said["reason"])
        return answer(outcome, lambda: shown_run(self.actor, id))


class RunSettle(ApiView):
    """The end of a run by what is known."""

    parser_classes = (StrictJSONParser,)

    @operation("runs_settle", RunDetail, body=ReasonBody, can=(403, 404, 409))
    def post(self, request: Request, id: UUID) -> Response:
        """Settle a run that is queued, waits or is held. `settlement` says what is known, unknown and still owed."""
        said = read(ReasonBody, request.data)
        outcome = run_end_settled(actor=self.actor, run_id=id, reason=said["reason"])
        return answer(outcome, lambda: shown_run(self.actor, id))


class RunTerms(ApiView):
    """What binds a run."""

    parser_classes = (StrictJSONParser,)

    @operation("runs_bind", RunDetail, body=TermsBody, can=(403, 404, 409))
    def post(self, request: Request, id: UUID) -> Response:
        """Add constraints and assumptions to a run that no worker holds. Waits that are open are superseded and asked again."""
        said = read(TermsBody, request.data)
        terms = Terms(*(tuple(said[name]) for name in ("constraint", "assumption", "deny")))
        outcome = run_bind(actor=self.actor, run_id=id, terms=terms, reason=said["reason"])
        return answer(outcome, lambda: shown_run(self.actor, id))


class RunGoal(ApiView):
    """The goal of a run."""

    parser_classes = (StrictJSONParser,)

    @operation("runs_revise_goal", RunDetail, body=GoalBody, can=(403, 404, 409))
    def post(self, request: Request, id: UUID) -> Response:
        """Revise the goal of a run that no worker holds. Waits that are open are superseded and asked again."""
        said = read(GoalBody, request.data)
        outcome = goal_revise(actor=self.actor, run_id=id, goal=said["goal"], reason=said["reason"])
        return answer(outcome, lambda: shown_run(self.actor, id))


class RunBudget(ApiView):
    """The budget of a run."""

    parser_classes = (StrictJSONParser,)

    @operation("runs_raise_cap", RunDetail, body=CapBody, can=(403, 404, 409))
    def post(self, request: Request, id: UUID) -> Response:
        """Raise the cap of one unit. A run that is held for its budget is queued."""
        said = read(CapBody, request.data)
        outcome = budget_raise(actor=self.actor, run_id=id, **said)
        return answer(outcome, lambda: shown_run(self.actor, id))


class RunInputs(ApiView):
    """The inputs of a run."""

    @operation("inputs_list", InputRecord(many=True))
    def get(self, request: Request, id: UUID) -> Response:
        """Name, file name, digest and size of each."""
        run = access_run(actor=self.actor, id=id)
        return Response(records_of(InputRecord, run.inputs.order_by("name")))


class RunInputFile(ApiView):
    """One input of a run."""

    @operation("inputs_show", OpenApiTypes.BINARY, media_type="application/octet-stream")
    def get(self, request: Request, id: UUID, name: str) -> HttpResponse:
        """The bytes as they were uploaded."""
        run = access_run(actor=self.actor, id=id)
        given = RunInput.objects.filter(run=run, name=name).first()
        if given is None:
            raise NotFound
        data = artifact_bytes(tenant_id=run.tenant_id, sha256=given.sha256)
        response = HttpResponse(data, content_type="application/octet-stream")
        response["Content-Disposition"] = content_disposition_header(as_attachment=True, filename=given.filename)
        return response
