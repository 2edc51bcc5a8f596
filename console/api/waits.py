"""Waits over HTTP: list, show, decide, take a vote back, say who looks, put another call in the place of one."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.http import HttpResponse, QueryDict
from drf_spectacular.types import OpenApiTypes
from rest_framework import serializers
from rest_framework.parsers import MultiPartParser
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.api import refused_response
from accounts.errors import Refused
from accounts.services import actor_confirm
from approvals.selectors import access_answer_file, waits_whose
from approvals.services import (
    FILE_BYTES,
    Declined,
    FileGiven,
    FormGiven,
    Given,
    Item,
    Seen,
    TextGiven,
    question_answer,
    vote_withdraw,
    wait_assign,
    wait_claim,
    wait_release,
)
from approvals.states import OF_A_CALL, DecisionVerdict, Risk, WaitStatus, Whose
from console.api.lists import narrowed
from console.api.paging import Order, PageQuery
from console.api.parsing import NoBody, ReasonBody, Strict, StrictJSONParser, Text, Whole, read
from console.api.view import ApiView, answer, file_response, operation, paged
from console.lists.waits import WAITS
from console.look import looks
from console.records.calls import CallDetail, call_shown
from console.records.waits import BatchAnswer, WaitRecord, batch_answer, wait_rows, wait_shown
from runtime.services import Written, call_amend, wait_decide, waits_decide

NEWEST_FIRST = Order(("opened_at", "id"))


class WaitQuery(PageQuery):
    """Filters of the list of waits, as its page takes them. `person` decided; `since` and `until` are of when it was asked, `due` of when it
    runs out: a day, a moment or so long ago (`12 h`).
    """

    status = serializers.ListField(child=serializers.ChoiceField(choices=list(WaitStatus)), required=False)
    risk = serializers.ListField(child=serializers.ChoiceField(choices=list(Risk)), required=False)
    run = serializers.UUIDField(required=False)
    tool = Text(required=False)
    person = Text(required=False)
    since = Text(required=False)
    until = Text(required=False)
    due = Text(required=False)
    whose = serializers.ChoiceField(
        choices=list(Whose),
        default=Whose.ALL,
        help_text="`mine`: at which you look, or somebody for whom you decide now; `unclaimed`: at which nobody looks",
    )


class DecisionBody(Strict):
    """A decision, with exactly what the person was shown. If the wait is bound to anything else, it is refused."""

    verdict = serializers.ChoiceField(choices=list(OF_A_CALL))
    revision = Whole()
    digest = Text()
    args_digest = Text()
    reason = Text()
    not_shown = serializers.ListField(child=Text(), required=False)
    password = Text(required=False)


class AnswerBody(Strict):
    """An answer in free words (`text`) or by the fields of its form (`form`), with exactly what the person was shown."""

    text = Text(required=False)
    form = serializers.DictField(required=False)
    revision = Whole()
    digest = Text()
    args_digest = Text()

    def validate(self, said: dict[str, Any]) -> dict[str, Any]:
        if ("text" in said) == ("form" in said):
            raise serializers.ValidationError({"text": ["Give text or form, one of the two."]})
        return said


class AnswerFileBody(Strict):
    """What the person was shown of the question that a file answers."""

    revision = Whole()
    digest = Text()
    args_digest = Text()


class DeclineBody(AnswerFileBody):
    """Why a question is not answered, with exactly what the person was shown."""

    reason = Text()


ANSWER_FORM = {
    "multipart/form-data": {
        "type": "object",
        "properties": {
            "file": {"type": "string", "format": "binary"},
            "revision": {"type": "integer"},
            "digest": {"type": "string"},
            "args_digest": {"type": "string"},
        },
        "required": ["file", "revision", "digest", "args_digest"],
    }
}


class AssignBody(Strict):
    """To whom, by their username, and why."""

    person = Text()
    reason = Text()


class AmendBody(Strict):
    """The arguments as they should be, without what the tool fills in itself; what the person was shown; and why."""

    arguments = serializers.DictField()
    revision = Whole()
    digest = Text()
    args_digest = Text()
    reason = Text()


class Waits(ApiView):
    """The waits of the tenant."""

    @operation("waits_list", paged(WaitRecord), query=WaitQuery, can=())
    def get(self, request: Request) -> Response:
        """The newest first."""
        query = read(WaitQuery, request.query_params)
        waits = wait_rows(narrowed(WAITS, self.actor, query))
        waits = waits_whose(waits, actor=self.actor, whose=Whose(query["whose"]))
        return self.page("waits", waits, NEWEST_FIRST, query, WaitRecord)


class OneWait(ApiView):
    """One wait."""

    @operation("waits_show", WaitRecord)
    def get(self, request: Request, id: UUID) -> Response:
        """The call that waits, its exact arguments, and the revision and digests that a decision has to name."""
        return Response(wait_shown(self.actor, id, looks=looks(request)))


class WaitDecision(ApiView):
    """The decision of a wait."""

    @operation("waits_decide", WaitRecord, body=DecisionBody, can=(403, 404, 409, 429))
    def post(self, request: Request, id: UUID) -> Response:
        """Approve or reject. There is one decision a wait; who comes second is told who decided what, and when. Where the
        wait asks for several people, an approval is a vote, and the one that meets the quorum decides; `not_shown` names
        the arguments that could not be shown whole, with which nothing is approved. `password` is the person's own, for a
        wait that asks for it (`step_up`).
        """
        said = read(DecisionBody, request.data)
        actor = actor_confirm(actor=self.actor, password=said["password"]) if "password" in said else self.actor
        if isinstance(actor, Refused):
            return refused_response(actor)
        outcome = wait_decide(
            actor=actor,
            wait_id=id,
            verdict=DecisionVerdict(said["verdict"]),
            seen=_seen_in(said),
            reason=said["reason"],
        )
        return answer(outcome, lambda: wait_shown(self.actor, id))


class BatchItem(Strict):
    """One wait, with exactly what the person was shown of it."""

    wait = serializers.UUIDField()
    revision = Whole()
    digest = Text()
    args_digest = Text()
    not_shown = serializers.ListField(child=Text(), required=False)


class BatchBody(Strict):
    """Several waits, with one verdict and one reason."""

    verdict = serializers.ChoiceField(choices=list(OF_A_CALL))
    waits = BatchItem(many=True)
    reason = Text()


class WaitBatch(ApiView):
    """Decisions of several waits."""

    @operation("waits_decide_many", BatchAnswer(many=True), body=BatchBody, can=(403,))
    def post(self, request: Request) -> Response:
        """Each is decided by itself, in the order given; what is refused for one changes nothing for the others. Only waits
        that are `batchable` can be approved so; any can be rejected.
        """
        said = read(BatchBody, request.data)
        items = [Item(each["wait"], _seen_in(each)) for each in said["waits"]]
        outcome = waits_decide(
            actor=self.actor, items=items, verdict=DecisionVerdict(said["verdict"]), reason=said["reason"]
        )
        if isinstance(outcome, Refused):
            return refused_response(outcome)
        return Response([batch_answer(each) for each in outcome])


def _seen_in(said: Mapping[str, Any]) -> Seen:
    return Seen(said["revision"], said["digest"], said["args_digest"], tuple(said.get("not_shown", ())))


class WaitAnswer(ApiView):
    """The answer to a question."""

    parser_classes = (StrictJSONParser, MultiPartParser)

    @operation("waits_answer", WaitRecord, body={"application/json": AnswerBody, **ANSWER_FORM}, can=(403, 404, 409))
    def post(self, request: Request, id: UUID) -> Response:
        """Answer it: as JSON, or as a form with one file of at most 1 MiB where it asks for a file. The first answer closes it,
        and is the result of the question, as the word of whoever gave it; who comes second is told who did, and when. Fields
        that can't be taken are named, each with why.
        """
        given, said = _given_file(request) if isinstance(request.data, QueryDict) else _given(request)
        outcome = question_answer(actor=self.actor, wait_id=id, seen=_seen_in(said), given=given)
        return answer(outcome, lambda: wait_shown(self.actor, id))


def _given(request: Request) -> tuple[Given, Mapping[str, Any]]:
    said = read(AnswerBody, request.data)
    return (TextGiven(said["text"]) if "text" in said else FormGiven(said["form"])), said


def _given_file(request: Request) -> tuple[Given, Mapping[str, Any]]:
    file = request.FILES.get("file")
    given = FileGiven(file.name or "", file.read(FILE_BYTES + 1)) if file else FileGiven("", b"")
    return given, read(AnswerFileBody, request.POST)


class WaitAnswerFile(ApiView):
    """The file that answered a question."""

    @operation("waits_answer_file", OpenApiTypes.BINARY, media_type="application/octet-stream")
    def get(self, request: Request, id: UUID) -> HttpResponse:
        """Its bytes as they were given. 404 where no file was the answer."""
        given = access_answer_file(actor=self.actor, wait_id=id)
        return file_response(given.filename, given.data)


class WaitDecline(ApiView):
    """No answer to a question, and why."""

    @operation("waits_decline", WaitRecord, body=DeclineBody, can=(403, 404, 409))
    def post(self, request: Request, id: UUID) -> Response:
        """Decline to answer, with a reason that the model is told. It closes the question as an answer does."""
        said = read(DeclineBody, request.data)
        outcome = question_answer(actor=self.actor, wait_id=id, seen=_seen_in(said), given=Declined(said["reason"]))
        return answer(outcome, lambda: wait_shown(self.actor, id))


class VoteWithdrawal(ApiView):
    """The withdrawal of one's own vote."""

    @operation("waits_withdraw", WaitRecord, body=ReasonBody, can=(403, 404, 409))
    def post(self, request: Request, id: UUID) -> Response:
        """Take your own vote back, while nothing is decided. It stays as evidence, and you may vote again."""
        said = read(ReasonBody, request.data)
        outcome = vote_withdraw(actor=self.actor, wait_id=id, reason=said["reason"])
        return answer(outcome, lambda: wait_shown(self.actor, id))


class WaitClaim(ApiView):
    """Looking at a wait."""

    @operation("waits_claim", WaitRecord, can=(403, 404, 409))
    def post(self, request: Request, id: UUID) -> Response:
        """Say that you look at it. Others see that; they may decide all the same."""
        read(NoBody, request.data)
        return answer(wait_claim(actor=self.actor, wait_id=id), lambda: wait_shown(self.actor, id))


class WaitRelease(ApiView):
    """Not looking at a wait any more."""

    @operation("waits_release", WaitRecord, can=(403, 404, 409))
    def post(self, request: Request, id: UUID) -> Response:
        """Say that you do not look at it any more."""
        read(NoBody, request.data)
        return answer(wait_release(actor=self.actor, wait_id=id), lambda: wait_shown(self.actor, id))


class WaitAssignment(ApiView):
    """Giving a wait to somebody."""

    @operation("waits_assign", WaitRecord, body=AssignBody, can=(403, 404, 409))
    def post(self, request: Request, id: UUID) -> Response:
        """Give it to a person who may decide; whoever looked at it does not any more."""
        said = read(AssignBody, request.data)
        outcome = wait_assign(actor=self.actor, wait_id=id, person=said["person"], reason=said["reason"])
        return answer(outcome, lambda: wait_shown(self.actor, id))


class WaitAmendment(ApiView):
    """Another call in the place of one that waits."""

    @operation("waits_amend", CallDetail, body=AmendBody, can=(403, 404, 409))
    def post(self, request: Request, id: UUID) -> Response:
        """Reject the call and write it anew. Answers with the person's call; where it needs an approval it is asked about."""
        said = read(AmendBody, request.data)
        seen = Seen(said["revision"], said["digest"], said["args_digest"])
        written = Written(said["arguments"], seen, said["reason"])
        outcome = call_amend(actor=self.actor, wait_id=id, written=written)
        if isinstance(outcome, Refused):
            return refused_response(outcome)
        return Response(call_shown(self.actor, outcome.call_id))
