"""What outlives a run, over HTTP: workspaces, their progress, and long-term memory. Read only."""

from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from console.api.paging import Order, PageQuery
from console.api.parsing import Text, read
from console.api.view import ApiView, operation, paged
from console.records import records_of
from console.records.memory import MemoryRecord, ProgressRecord, WorkspaceRecord
from runs.selectors import access_workspace, memory_visible, progress_of, workspaces_visible

BY_TIME = Order(("created_at", "id"))
BY_MEMORY = Order(("at", "id"))


class MemoryQuery(PageQuery):
    """`subject` finds what was kept under exactly this."""

    subject = Text(required=False)


class Workspaces(ApiView):
    """The workspaces of the tenant."""

    @operation("workspaces_list", paged(WorkspaceRecord), query=PageQuery, can=())
    def get(self, request: Request) -> Response:
        """The newest first."""
        query = read(PageQuery, request.query_params)
        return self.page("workspaces", workspaces_visible(self.actor), BY_TIME, query, WorkspaceRecord)


class WorkspaceProgressList(ApiView):
    """The progress of a workspace."""

    @operation("workspaces_progress", ProgressRecord(many=True))
    def get(self, request: Request, id: UUID) -> Response:
        """Every version, the newest first."""
        workspace = access_workspace(actor=self.actor, id=id)
        return Response(records_of(ProgressRecord, progress_of(workspace.id)))


class Memory(ApiView):
    """What the tenant's agents remember."""

    @operation("memory_list", paged(MemoryRecord), query=MemoryQuery, can=())
    def get(self, request: Request) -> Response:
        """The newest first."""
        query = read(MemoryQuery, request.query_params)
        items = memory_visible(self.actor)
        if "subject" in query:
            items = items.filter(subject=query["subject"])
        return self.page("memory", items, BY_MEMORY, query, MemoryRecord)
