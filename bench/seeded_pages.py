"""The pages of a seeded database that `make bench-pages` asks for. Call these once Django is set up."""

from collections.abc import Iterator
from typing import Any

BEGIN = "1970-01-01T00:00:00.000000Z~0~"


def counted() -> dict[str, int]:
    """How much there is."""
    from approvals.models import Wait
    from receipts.models import Attempt, ModelCall, ToolCall
    from runs.models import Run

    return {
        "runs": Run.objects.count(),
        "receipts": sum(model.objects.count() for model in (ModelCall, ToolCall, Attempt)),
        "open waits": Wait.objects.filter(status="OPEN").count(),
    }


def pages_of_lists() -> Iterator[tuple[str, str]]:
    """What P11 is about, each with a name: the inbox, lists at their beginning, middle and end, the time axis of the long run."""
    yield from (("inbox", "/inbox/"), ("inbox, one kind", "/inbox/?kind=approvals"))
    for path, query in (
        ("/runs/", ""),
        ("/runs/", "status=COMPLETED"),
        ("/waits/", ""),
        ("/calls/", ""),
        ("/calls/", "unknown=yes"),
    ):
        for place, cursor in _places(path, query):
            named = ", ".join(part for part in (path.strip("/"), query, place) if part)
            yield named, f"{path}?{'&'.join(part for part in (query, cursor) if part)}"
    ended = _ended()
    yield from (("runs, words", "/runs/?q=larch"), ("search, the end of an id", f"/search/?q={str(ended.id)[-6:]}"))
    yield from (
        ("runs, spent over 0.03 $", "/runs/?spend=0.03"),
        ("runs, a thread", f"/runs/?thread={ended.thread_id}"),
    )
    yield from _axis()


def _places(path: str, query: str) -> Iterator[tuple[str, str]]:
    """The first page of a list, one in its middle and the last, each by the cursor that leads there."""
    from django.http import QueryDict

    from accounts.models import User
    from accounts.selectors import actor_of
    from console.lists.calls import CALLS
    from console.lists.listing import PAGE_ROWS
    from console.lists.runs import RUNS
    from console.lists.waits import WAITS

    listing = {"/runs/": RUNS, "/waits/": WAITS, "/calls/": CALLS}[path]
    actor = actor_of(user=User.objects.get(username="operator"), door="page")
    asked = listing.asked(actor, QueryDict(query))
    rows: Any = asked.sort.order.sort(asked.rows())
    number = rows.count()
    yield "first", ""
    for place, before in (("middle", number // 2), ("last", number - PAGE_ROWS)):
        if before > 0:
            yield place, f"after={asked.pager.cursor(rows[before - 1])}"


def _axis() -> Iterator[tuple[str, str]]:
    from receipts.models import ToolCall

    long = _long()
    middle = ToolCall.objects.filter(run=long).order_by("ordinal")[ToolCall.objects.filter(run=long).count() // 2]
    upto = f"{middle.created_at:%Y-%m-%dT%H:%M:%S.%fZ}~0~"
    for place, query in (("first", f"?after={BEGIN}"), ("middle", f"?upto={upto}"), ("last", "")):
        yield f"run of 10,000 events, {place}", f"/runs/{long.id}/{query}"


def _long() -> Any:
    from runs.models import Run

    return Run.objects.filter(status="RUNNING").order_by("-created_at")[0]


def _ended() -> Any:
    from runs.models import Run

    return Run.objects.filter(status="COMPLETED").order_by("-created_at")[100]


def other_pages() -> Iterator[tuple[str, str]]:
    """The other pages, each with a name."""
    from approvals.models import Wait
    from receipts.models import Report, ToolCall

    long, ended = _long(), _ended()
    wait, call = Wait.objects.filter(status="OPEN").order_by("deadline")[50], ToolCall.objects.filter(run=ended).last()
    report = Report.objects.first()
    assert call is not None and report is not None  # noqa: S101, PT018  the seeded database has them
    yield from (("overview", "/"), ("run", f"/runs/{ended.id}/"), ("stop", f"/runs/{long.id}/stop/"))
    yield from (("checkpoint", f"/runs/{ended.id}/checkpoints/1/"), ("fork", f"/runs/{ended.id}/checkpoints/1/fork/"))
    yield from (("recovery", f"/runs/{ended.id}/recovery/"), ("continue", f"/runs/{ended.id}/continue/"))
    yield from (("decision", f"/waits/{wait.id}/"), ("call", f"/calls/{call.id}/"))
    yield from (("stop of everything", "/scopes/new/"), ("reports", "/reports/"), ("report", f"/reports/{report.id}/"))
    yield from (("policies", "/policies/"), ("grants", "/grants/"), ("stops and pauses", "/scopes/"))
    yield from (("workspaces", "/workspaces/"), ("memory", "/memory/"), ("new run", "/runs/new/"))
