"""The trace of a run over HTTP."""

from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from console.api.paging import Order, PageQuery
from console.api.parsing import read
from console.api.view import ApiView, operation, paged
from console.records.trace import TraceRecord
from runs.selectors import access_run, trace_rows

AS_WRITTEN = Order(("id",), descending=False)


class RunTrace(ApiView):
    """What was seen of a run."""

    @operation("runs_trace", paged(TraceRecord), query=PageQuery)
    def get(self, request: Request, id: UUID) -> Response:
        """In the order in which it was written. It may have holes: recovery never reads it."""
        query = read(PageQuery, request.query_params)
        return self.page(f"trace {id}", trace_rows(access_run(actor=self.actor, id=id)), AS_WRITTEN, query, TraceRecord)
