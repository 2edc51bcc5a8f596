"""Tool calls over HTTP: list, show, reconcile."""

from uuid import UUID

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from rest_framework import serializers
from rest_framework.parsers import MultiPartParser
from rest_framework.request import Request
from rest_framework.response import Response

from console.api.lists import narrowed
from console.api.paging import Order, PageQuery
from console.api.parsing import Strict, Text, Whole, read
from console.api.view import ApiView, answer, file_response, operation, paged
from console.lists.calls import CALLS
from console.records.calls import CallDetail, CallRecord, call_rows, call_shown
from receipts.models import Attachment
from receipts.selectors import access_attachment
from receipts.states import ATTACHMENT_BYTES, CallStatus, EffectClass, FollowUp, Verdict
from runs.selectors import artifact_bytes
from runtime.services import Upload, VerdictRequest, call_attach, call_probe, call_reconcile, effect_repeat

NEWEST_FIRST = Order(("created_at", "id"))


class CallQuery(PageQuery):
    """Filters of the list of calls, as its page takes them. `status=UNCERTAIN` are those whose outcome nobody knows; `since` and `until`
    take a day, a moment or so long ago (`12 h`).
    """

    status = serializers.ListField(child=serializers.ChoiceField(choices=list(CallStatus)), required=False)
    effect_class = serializers.ListField(child=serializers.ChoiceField(choices=list(EffectClass)), required=False)
    run = serializers.UUIDField(required=False)
    tool = Text(required=False)
    external_ref = Text(required=False)
    unknown = Text(required=False)
    since = Text(required=False)
    until = Text(required=False)


class VerdictBody(Strict):
    """A verdict and its evidence. NOT_EXECUTED takes `then`: RETRY (by an approver) or FAIL."""

    verdict = serializers.ChoiceField(choices=list(Verdict))
    evidence = Text()
    external_ref = Text(default="")
    then = serializers.ChoiceField(choices=list(FollowUp), default=FollowUp.NONE)


class Calls(ApiView):
    """The tool calls of the tenant."""

    @operation("calls_list", paged(CallRecord), query=CallQuery, can=())
    def get(self, request: Request) -> Response:
        """The newest first."""
        query = read(CallQuery, request.query_params)
        calls = call_rows(narrowed(CALLS, self.actor, query).defer(None))
        return self.page("calls", calls, NEWEST_FIRST, query, CallRecord)


class OneCall(ApiView):
    """One tool call."""

    @operation("calls_show", CallDetail)
    def get(self, request: Request, id: UUID) -> Response:
        """The call with each try, its result and effect, and every verdict on it."""
        return Response(call_shown(self.actor, id))


class RepeatBody(Strict):
    """Why it shall happen once more."""

    reason = Text()


class CallRepeat(ApiView):
    """A second effect."""

    @operation("calls_repeat", CallDetail, body=RepeatBody, can=(403, 404, 409))
    def post(self, request: Request, id: UUID) -> Response:
        """Let the next proposal of this step and these arguments be a call of its own, in every run of the lineage."""
        said = read(RepeatBody, request.data)
        outcome = effect_repeat(actor=self.actor, call_id=id, reason=said["reason"])
        return answer(outcome, lambda: call_shown(self.actor, id))


class ProbeBody(Strict):
    """The attempt that the person was looking at, where they name it."""

    attempts = Whole(required=False)


class CallProbe(ApiView):
    """A look in the other system."""

    @operation("calls_probe", CallDetail, body=ProbeBody, can=(403, 404, 409))
    def post(self, request: Request, id: UUID) -> Response:
        """Ask once whether the key of a call of unknown outcome was executed. The answer is evidence in `probes`, and no verdict."""
        outcome = call_probe(actor=self.actor, call_id=id, attempts=read(ProbeBody, request.data).get("attempts"))
        return answer(outcome, lambda: call_shown(self.actor, id))


class AttachBody(Strict):
    """What the file shows, in words."""

    note = Text(default="")


ATTACH_FORM = {
    "multipart/form-data": {
        "type": "object",
        "properties": {"file": {"type": "string", "format": "binary"}, "note": {"type": "string"}},
        "required": ["file"],
    }
}


class CallAttachments(ApiView):
    """The files beside a call."""

    parser_classes = (MultiPartParser,)

    @operation("calls_attach", CallDetail, body=ATTACH_FORM, can=(403, 404, 409, 413))
    def post(self, request: Request, id: UUID) -> Response:
        """Put a file beside a call that was sent, as evidence. It says nothing of the call by itself."""
        note = read(AttachBody, request.POST)["note"]
        file = request.FILES.get("file")
        given = Upload(file.name or "", file.read(ATTACHMENT_BYTES + 1)) if file else Upload("", b"")
        outcome = call_attach(actor=self.actor, call_id=id, file=given, note=note)
        return answer(outcome, lambda: call_shown(self.actor, id))


class CallAttachmentFile(ApiView):
    """One file beside a call."""

    @operation("calls_attachment", OpenApiTypes.BINARY, media_type="application/octet-stream")
    def get(self, request: Request, id: UUID, attachment: UUID) -> HttpResponse:
        """The bytes as they were given."""
        return attachment_response(access_attachment(actor=self.actor, call_id=id, id=attachment))


def attachment_response(row: Attachment) -> HttpResponse:
    """A file that somebody put beside a call, to be saved."""
    return file_response(row.filename, artifact_bytes(tenant_id=row.tenant_id, sha256=row.sha256))


class CallVerdict(ApiView):
    """The verdict on a call of unknown outcome."""

    @operation("calls_reconcile", CallDetail, body=VerdictBody, can=(403, 404, 409))
    def post(self, request: Request, id: UUID) -> Response:
        """Say whether it happened, and how one knows. Its facts are stored at once."""
        said = read(VerdictBody, request.data)
        verdict = VerdictRequest(
            Verdict(said["verdict"]), said["evidence"], said["external_ref"], FollowUp(said["then"])
        )
        outcome = call_reconcile(actor=self.actor, call_id=id, said=verdict)
        return answer(outcome, lambda: call_shown(self.actor, id))
