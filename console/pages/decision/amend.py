"""GET and POST /waits/<id>/amend/: reject a call and write it anew with other arguments (T42)."""

import json
from typing import Any
from uuid import UUID

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse

from accounts.codec import BodyChanged
from accounts.errors import Invalid, Refused
from accounts.states import Actor, Permission
from approvals.models import Wait
from approvals.selectors import access_wait
from approvals.services import Seen
from approvals.states import can_decide
from console.pages.acts import Act, off_reason
from console.pages.room import page, respond
from receipts.selectors import written_arguments
from runs.canonical import NotCanonical, parse
from runtime.masking import Mask, Masks
from runtime.services import Amended, Written, call_amend


@page
def amend_page(request: HttpRequest, actor: Actor, id: UUID) -> HttpResponseBase:
    """Show the arguments as they were written, to be changed; or put the changed call in the place of the one that waits."""
    wait = access_wait(actor=actor, id=id)
    refused: Refused | None = None
    if request.method == "POST":
        outcome = _amend(request, actor, id)
        if isinstance(outcome, Amended):
            return redirect(reverse("call", args=[outcome.call_id]))
        refused = outcome
        wait = access_wait(actor=actor, id=id)
    return respond(
        request, actor, "pages/acts/page.html", _context(request, actor, wait, refused), status=_status(refused)
    )


def _status(refused: Refused | None) -> int:
    return refused.status if refused else 200


def _amend(request: HttpRequest, actor: Actor, id: UUID) -> Amended | Refused:
    sent = request.POST
    try:
        arguments = parse(sent.get("arguments", ""))
    except NotCanonical as error:
        return Invalid({"field": "arguments", "reason": str(error)})
    if not isinstance(arguments, dict):
        return Invalid({"field": "arguments", "reason": "they have to be a JSON object."})
    revision = sent.get("revision", "")
    number = int(revision) if revision.isdecimal() and len(revision) < 10 else 0
    seen = Seen(number, sent.get("digest", "")[:64], sent.get("args_digest", "")[:64])
    reason = sent.get("reason", "").replace("\r\n", "\n")
    return call_amend(actor=actor, wait_id=id, written=Written(arguments, seen, reason))


def _context(request: HttpRequest, actor: Actor, wait: Wait, refused: Refused | None) -> dict[str, Any]:
    masks = Masks(actor)
    written = _as_written(wait, masks.of(wait.tool_call, run=wait.run))
    masks.tell()
    act = Act(
        title="Write this call anew",
        template="pages/acts/amend.html",
        button="Reject it and put this in its place",
        done="",
        off=_off(actor, wait, written),
        facts={},
    )
    return {
        "run": wait.run,
        "act": act,
        "wait": wait,
        "call": wait.tool_call,
        "refused": refused,
        "reason": request.POST.get("reason", ""),
        "arguments": request.POST.get("arguments") or written,
    }


def _off(actor: Actor, wait: Wait, written: str) -> str:
    off = off_reason(actor.may(Permission.DECIDE), Permission.DECIDE, can_decide(wait.status), "This wait is closed.")
    return off or ("" if written else "The stored arguments can't be read, or part of them is masked for you.")


def _as_written(wait: Wait, mask: Mask) -> str:
    """What was written of the arguments, as JSON to be changed; "" where the store was changed, or part of them is masked."""
    if mask.paths:
        return ""
    try:
        return json.dumps(written_arguments(wait.tool_call), ensure_ascii=False, indent=2)
    except (BodyChanged, LookupError):
        return ""
