"""Runs over HTTP: list, start, show, and read the inputs."""

from dataclasses import replace
from http import HTTPStatus
from typing import Any
from uuid import UUID

from django.http import HttpResponse, QueryDict
from django.urls import reverse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter
from rest_framework import serializers
from rest_framework.parsers import MultiPartParser
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.api import refused_response
from accounts.errors import NotFound, Refused
from accounts.states import Actor
from console.api.lists import narrowed
from console.api.paging import Order, PageQuery
from console.api.parsing import Strict, Text, read
from console.api.view import ApiView, answer, file_response, operation, paged
from console.lists.runs import RUNS
from console.records import records_of
from console.records.runs import InputRecord, RunDetail, RunRecord, run_with_parts, runs_with_parts
from console.uploads import too_big
from runs.models import RunInput
from runs.selectors import access_run, artifact_bytes
from runs.states import HoldReason, RecoveryPolicy, RunStatus
from runtime.registry import agents
from runtime.services import (
    StartRequest,
    Terms,
    Upload,
    run_start,
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
    """Filters of the list of runs, as its page takes them. `q` looks into titles and ids; `spend` is in dollars; `since` and
    `until` take a day, a moment or so long ago (`12 h`).
    """

    status = serializers.ListField(child=serializers.ChoiceField(choices=list(RunStatus)), required=False)
    hold_reason = serializers.ListField(child=serializers.ChoiceField(choices=list(HoldReason)), required=False)
    agent = Text(required=False)
    q = Text(required=False)
    tag = serializers.ListField(child=Text(), required=False)
    thread = Text(required=False)
    person = Text(required=False)
    since = Text(required=False)
    until = Text(required=False)
    spend = Text(required=False)
    unknown = Text(required=False)


class StartForm(Strict):
    """The text fields of a start. Every file of the form is an input, and every text that the agent takes as text."""

    agent = Text()
    goal = Text(default="")
    title = Text(default="")
    thread = Text(default="")
    constraint = serializers.ListField(child=Text(), default=list)
    assumption = serializers.ListField(child=Text(), default=list)
    deny = serializers.ListField(child=Text(), default=list)
    tag = serializers.ListField(child=Text(), default=list)
    workspace = Text(default="")
    recovery_policy = serializers.ChoiceField(choices=["", *RecoveryPolicy], default="")


START_FORM = {
    "multipart/form-data": {
        "type": "object",
        "properties": {
            **{name: {"type": "string"} for name in ("agent", "goal", "title", "thread", "workspace")},
            "recovery_policy": {"type": "string", "enum": list(RecoveryPolicy)},
            **{
                name: {"type": "array", "items": {"type": "string"}}
                for name in ("constraint", "assumption", "deny", "tag")
            },
        },
        "additionalProperties": {"type": "string", "format": "binary"},
        "required": ["agent"],
        "description": "Every file is an input of the run under the name of its field; fund_comparison takes a and b. "
        "An agent's inputs of plain text may stand as text fields too; evidence_search takes claims."
        " `constraint` and `assumption` bind the run, in words; `deny` names a tool or an effect class that it must not use."
        " `tag` is what people find the run by."
        " `recovery_policy` says what happens if its worker is lost; without it, what the agent declares.",
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
        return self.page("runs", narrowed(RUNS, self.actor, query), NEWEST_FIRST, query, RunRecord, runs_with_parts)

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
        inputs[name] = Upload(files[0].name or "", files[0].read())
    key = request.headers.get("Idempotency-Key")
    terms = Terms(*(tuple(form.pop(name)) for name in ("constraint", "assumption", "deny")))
    wanted = StartRequest(inputs=inputs, terms=terms, tags=form.pop("tag"), **form)
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
        return file_response(given.filename, data)
