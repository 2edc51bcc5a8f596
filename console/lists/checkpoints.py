"""The list of the revisions of a run."""

from dataclasses import replace

from django.db.models import QuerySet

from accounts.states import Actor
from checkpoints.models import Checkpoint
from checkpoints.states import Phase, Trigger
from console.lists.cells import Cell, Column
from console.lists.fields import Choice, Flag, Moment, by, only, picks
from console.lists.keyset import Order
from console.lists.listing import Empty, Listing, Sort
from runs.models import Run


def _revision(row: Checkpoint) -> Cell:
    is_head = row.run.head.revision == row.revision
    return Cell(
        "link",
        row.revision,
        url=f"/runs/{row.run_id}/checkpoints/{row.revision}/",
        note="HEAD" if is_head else "",
        machine="badge",
    )


def _size(row: Checkpoint) -> Cell:
    return Cell("size", row.body_bytes, note="purged" if row.purged_at else "")


def _difference(row: Checkpoint) -> Cell:
    if row.revision == 1:
        return Cell("text", None)
    return Cell("link", f"to {row.revision - 1}", url=f"/runs/{row.run_id}/checkpoints/{row.revision}/#diff")


def _none(actor: Actor) -> QuerySet[Checkpoint]:
    return Checkpoint.objects.none()


CHECKPOINTS = Listing(
    key="checkpoints",
    row="checkpoint",
    title="Checkpoints",
    url_name="checkpoints",
    say="Every save is a revision that is never changed. Only the head can be gone on from; older ones can be read and compared, never restored in place.",
    rows=_none,
    fields=(
        Choice("phase", "Phase", by("phase__in"), picks=picks(*Phase), several=True),
        Choice("trigger", "Why saved", by("trigger__in"), picks=picks(*Trigger), several=True),
        Moment("since", "Saved since", by("created_at__gte"), "A day as 2026-11-30, or 12 h for 12 hours ago."),
        Moment("until", "Saved until", by("created_at__lt"), end_of_day=True),
        Flag("purged", "Purged ones only", only(purged_at__isnull=False)),
    ),
    sorts=(
        Sort("newest", "newest first", Order(("revision",))),
        Sort("oldest", "oldest first", Order(("revision",), descending=False)),
    ),
    columns=(
        Column("revision", "Revision", _revision),
        Column("phase", "Phase", lambda row: Cell("phase", row.phase)),
        Column("trigger", "Why saved", lambda row: Cell("trigger", row.trigger)),
        Column("created_at", "Saved", lambda row: Cell("moment", row.created_at)),
        Column("fence", "Fence", lambda row: Cell("number", row.fence)),
        Column("bytes", "Bytes", _size),
        Column("digest", "Digest", lambda row: Cell("digest", row.digest)),
        Column("difference", "Difference", _difference),
        Column("purged_at", "Purged", lambda row: Cell("when", row.purged_at)),
        Column("goal_version", "Goal", lambda row: Cell("number", row.intent_version)),
    ),
    shown=("revision", "phase", "trigger", "created_at", "fence", "bytes", "digest", "difference"),
    empty=Empty("Nothing was saved yet.", "A run saves its first revision when it is started."),
)


def checkpoints_of(run: Run) -> Listing:
    """The list of the revisions of one run that `access_run` has given out."""
    rows = Checkpoint.objects.filter(run=run).defer("body").select_related("run__head")
    return replace(CHECKPOINTS, rows=lambda _: rows.all(), place=(run.id,), topic=f"run:{run.id}")
