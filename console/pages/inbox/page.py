"""The pages of the inbox: the list with its preview, and the count in the top bar."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import reverse

from accounts.errors import NotFound
from accounts.statements import together
from accounts.states import Actor, Permission
from approvals.selectors import access_wait
from approvals.states import WaitKind, Whose, can_decide
from console.lists.fields import COUNT_LIMIT
from console.lists.listing import said_count
from console.pages.arguments import ArgumentRow
from console.pages.inbox.filter import KINDS, WHOSE, Filter, filter_of
from console.pages.inbox.items import Counts, Item, gone_on_without, inbox_counts, inbox_groups
from console.pages.room import for_readers, page, respond
from console.pages.stored import stored_arguments
from console.pages.titles import call_question, call_title, publications_of
from receipts.models import Attempt, Publication, Reconciliation, ToolCall
from receipts.selectors import access_call, access_contradiction
from runs.selectors import access_run
from runtime.masking import Mask, Masks

PANELS = {"inbox-list": "pages/inbox/list.html", "inbox-item": "pages/inbox/item.html"}


@dataclass(frozen=True)
class Tab:
    word: str
    lamp: str
    icon: str
    count: int
    said: str
    url: str
    current: bool


@page
@for_readers
def inbox(request: HttpRequest, actor: Actor) -> HttpResponseBase:
    """GET /inbox/: `?kind=` keeps one kind, `?whose=` one's own or what nobody looks at, `?item=` looks at one item. Its
    panels are the list and the preview.
    """
    chosen = filter_of(request.GET)
    counts = inbox_counts(actor, chosen.whose)
    masks = Masks(policy=counts.policy)
    groups = inbox_groups(actor, counts.at, chosen.kind, chosen.whose, masks)
    items = [item for group in groups for item in group.items]
    asked = request.GET.get("item", "")
    current = next((item for item in items if item.key == asked), None)
    looked_at = asked or (items[0].key if items else "")
    context: dict[str, Any] = {
        "groups": groups,
        "counts": counts,
        "more": said_count(more) if (more := _not_shown(counts, chosen, items)) > 0 else "",
        "tabs": _tabs(counts, chosen),
        "whose": [(words, replace(chosen, whose=one).url, one == chosen.whose) for one, words in WHOSE.items()],
        "chosen": chosen,
        "list_url": chosen.url,
        "current_key": looked_at,
        "place": items.index(current) + 1 if current else (1 if items and not asked else 0),
        "shown": len(items),
        "preview": preview_of(actor, looked_at, masks) if looked_at else None,
        **({"inbox_total": counts.said} if chosen.whose == Whose.ALL else {}),
    }
    return respond(request, actor, "pages/inbox/page.html", context, PANELS)


def _not_shown(counts: Counts, chosen: Filter, items: Sequence[Item]) -> int:
    """How many open waits there are beside those that are shown; where they are not counted to the end, more than the limit."""
    waiting = {"approvals": counts.approvals, "questions": counts.questions}
    kinds = [kind for kind in waiting if chosen.kind in ("", kind)]
    if any(waiting[kind] > COUNT_LIMIT for kind in kinds):
        return COUNT_LIMIT + 1
    return sum(waiting[kind] for kind in kinds) - sum(item.kind in kinds for item in items)


@page
def inbox_count(request: HttpRequest, actor: Actor) -> HttpResponseBase:
    """GET /inbox/count/: the number in the top bar."""
    return respond(request, actor, "components/inbox_count.html", {})


def _tabs(counts: Counts, chosen: Filter) -> list[Tab]:
    numbers: dict[str, int] = {"": counts.total} | vars(counts)
    said = {key: said_count(numbers[key]) for key in KINDS} | {"": counts.said}
    return [
        Tab(word, lamp, icon, numbers[key], said[key], replace(chosen, kind=key).url, key == chosen.kind)
        for key, (word, lamp, icon) in KINDS.items()
    ]


@dataclass(frozen=True)
class Preview:
    """What the preview shows of one item, whatever its state is by now."""

    kind: str
    title: str
    subject: Any
    run: Any
    rows: list[ArgumentRow] | None
    odd: list[ArgumentRow]
    attempts: list[Attempt]
    masked: int
    url: str
    may_act: bool
    gone_on: Reconciliation | None = None
    """Who has said of an unknown call that the run goes on without it."""


def preview_of(actor: Actor, key: str, masks: Masks) -> Preview | None:
    """The preview behind an item's key, through the access selectors. None for a key that names nothing here."""
    kind, _, text = key.partition("-")
    build = {"wait": _wait_preview, "call": _call_preview, "run": _run_preview, "flag": _flag_preview}.get(kind)
    try:
        return build(actor, UUID(text), masks) if build else None
    except (ValueError, NotFound):
        return None


def _wait_preview(actor: Actor, id: UUID, masks: Masks) -> Preview:
    wait = access_wait(actor=actor, id=id)
    mask = masks.of(wait.tool_call, run=wait.run)
    rows = _rows_of(wait.tool_call, mask)
    may = can_decide(wait.status) and actor.may(Permission.DECIDE)
    odd = [row for row in rows or [] if row.odd]
    if wait.kind == WaitKind.QUESTION:
        stored = stored_arguments(wait.tool_call, mask)
        title = stored.value["question"] if stored is not None and stored.intact else wait.tool_call.step_name
        return Preview(
            "question", title, wait, wait.run, rows, odd, [], len(mask.paths), reverse("wait", args=[id]), may
        )
    title = call_title(wait.tool_call, publications_of([wait.tool_call_id]).get(wait.tool_call_id))
    return Preview("wait", title, wait, wait.run, rows, odd, [], len(mask.paths), reverse("wait", args=[id]), may)


def _rows_of(call: ToolCall, mask: Mask) -> list[ArgumentRow] | None:
    """The arguments; None when they are not the ones that were recorded any more."""
    stored = stored_arguments(call, mask)
    return stored.rows if stored is not None and stored.intact else None


def _call_preview(actor: Actor, id: UUID, masks: Masks) -> Preview:
    call = access_call(actor=actor, id=id)
    mask = masks.of(call)
    rows = _rows_of(call, mask)
    attempts, published, gone_on = together(
        Attempt.objects.filter(tool_call=call).order_by("attempt_no"),
        Publication.objects.select_related("report_version").filter(tool_call=call),
        gone_on_without(call),
    )
    odd = [row for row in rows or [] if row.odd]
    title = call_question(call, next(iter(published), None))
    may = actor.may(Permission.RECONCILE)
    said, url = next(iter(gone_on), None), reverse("call", args=[id])
    return Preview("call", title, call, call.run, rows, odd, attempts, len(mask.paths), url, may, said)


def _run_preview(actor: Actor, id: UUID, masks: Masks) -> Preview:
    run = access_run(actor=actor, id=id)
    return Preview("run", run.title, run, run, [], [], [], 0, reverse("run", args=[id]), actor.may(Permission.RESUME))


def _flag_preview(actor: Actor, id: UUID, masks: Masks) -> Preview:
    flag = access_contradiction(actor=actor, id=id)
    url = reverse("contradiction-close", args=[id])
    title = call_title(flag.tool_call, publications_of([flag.tool_call_id]).get(flag.tool_call_id))
    return Preview("flag", title, flag, flag.tool_call.run, [], [], [], 0, url, actor.may(Permission.RECONCILE))
