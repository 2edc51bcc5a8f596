"""`manage.py workspaces`: the workspaces of a tenant and how far the research in each got."""

from typing import Any, ClassVar
from uuid import UUID

from console.management.noun import Asked, Noun, Shown, clock, shown, table
from console.records import records_of
from console.records.memory import ProgressRecord, WorkspaceRecord
from runs.selectors import access_workspace, progress_of, workspaces_visible


class Command(Noun):
    help = "Workspaces."
    noun: ClassVar[str] = "workspace"

    def add_verbs(self) -> None:
        listing = self.verb("list", self.list, "The newest workspaces of your tenant.")
        self.add_limit(listing)
        showing = self.verb("show", self.show, "The progress of a workspace, the newest version first.")
        showing.add_argument("id", type=UUID)

    def list(self, asked: Asked) -> Shown:
        rows = self.limited(workspaces_visible(asked.actor).order_by("-created_at", "-id"), asked)
        records = records_of(WorkspaceRecord, rows)
        lines = [(one["id"], one["versions"], clock(one["created_at"]), one["title"]) for one in records]
        return Shown(records, table(("ID", "VERSIONS", "CREATED", "TITLE"), lines, "There are no workspaces."))

    def show(self, asked: Asked) -> Shown:
        records = records_of(ProgressRecord, progress_of(access_workspace(actor=asked.actor, id=asked["id"]).id))
        return Shown(records, "\n\n".join(_text(one) for one in records) or "No run has said how far it got.")


def _text(progress: dict[str, Any]) -> str:
    lines = [f"  {one['status']:<9}{shown(one['id'])}: {shown(one['text'])}" for one in progress["questions"]]
    head = f"v{progress['version']}  {clock(progress['at'])}  run {progress['run']}"
    return "\n".join([head, shown(progress["summary"]), *lines])
