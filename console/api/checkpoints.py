"""Checkpoints over HTTP: list, show, compare."""

from uuid import UUID

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.api import refused_response
from accounts.errors import Refused
from checkpoints.states import Phase, Trigger
from console.api.lists import narrowed
from console.api.paging import Order, PageQuery
from console.api.parsing import Text, read
from console.api.view import ApiView, operation, paged
from console.lists.checkpoints import checkpoints_of
from console.records.checkpoints import (
    CheckpointDetail,
    CheckpointRecord,
    ComparisonRecord,
    checkpoint_at,
    checkpoint_read,
    checkpoints_compared,
)
from console.records.export import ExportRecord, checkpoint_exported
from runs.selectors import access_run

OLDEST_FIRST = Order(("revision",), descending=False)


class CheckpointQuery(PageQuery):
    """Filters of the list of revisions, as its page takes them; `at` finds one. `since` and `until` are a day, a moment or so long ago
    (`12 h`); `purged=yes` are those whose body is gone.
    """

    phase = serializers.ListField(child=serializers.ChoiceField(choices=list(Phase)), required=False)
    trigger = serializers.ListField(child=serializers.ChoiceField(choices=list(Trigger)), required=False)
    since = Text(required=False)
    until = Text(required=False)
    purged = Text(required=False)

    at = serializers.DateTimeField(required=False, help_text="a moment in ISO 8601, with its offset")


class Checkpoints(ApiView):
    """The revisions of a run."""

    @operation("checkpoints_list", paged(CheckpointRecord), query=CheckpointQuery)
    def get(self, request: Request, id: UUID) -> Response:
        """The oldest first. With `at`, the one that was the head at that moment, or none."""
        query = read(CheckpointQuery, request.query_params)
        run = access_run(actor=self.actor, id=id)
        rows = narrowed(checkpoints_of(run), self.actor, query)
        if "at" in query:
            rows = rows.filter(pk__in=checkpoint_at(run, query["at"]).values("pk"))
        return self.page(f"checkpoints {id}", rows, OLDEST_FIRST, query, CheckpointRecord)


class OneCheckpoint(ApiView):
    """One revision of a run."""

    @operation("checkpoints_show", CheckpointDetail)
    def get(self, request: Request, id: UUID, revision: int) -> Response:
        """The revision with its handoff note, its digest checked."""
        return Response(CheckpointDetail(checkpoint_read(actor=self.actor, run_id=id, revision=revision)).data)


class CheckpointExport(ApiView):
    """One revision as a document for other systems."""

    @operation("checkpoints_export", ExportRecord, can=(404, 409))
    def get(self, request: Request, id: UUID, revision: int) -> Response:
        """Identity, version, state, execution, intent, metadata and pending writes; results and messages by reference."""
        exported = checkpoint_exported(actor=self.actor, run_id=id, revision=revision)
        if isinstance(exported, Refused):
            return refused_response(exported)
        return Response(ExportRecord(exported).data)


class CheckpointDifference(ApiView):
    """What changed between two revisions of a run."""

    @operation("checkpoints_diff", ComparisonRecord, can=(404, 409))
    def get(self, request: Request, id: UUID, revision: int, other: int) -> Response:
        """Every place where the two handoff notes differ."""
        compared = checkpoints_compared(actor=self.actor, run_id=id, before=revision, after=other)
        if isinstance(compared, Refused):
            return refused_response(compared)
        return Response(ComparisonRecord(compared).data)
