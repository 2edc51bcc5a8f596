"""GET and POST /waits/<id>/amend/: reject a call and write it anew with other arguments (T42), field by field or as JSON."""

import json
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from django.http import HttpRequest, QueryDict
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse

from accounts.codec import BodyChanged
from accounts.errors import Invalid, Refused
from accounts.models import Tenant
from accounts.states import Actor, Permission
from approvals.models import Wait
from approvals.selectors import access_wait
from approvals.services import Seen
from approvals.states import can_decide
from console.pages.acts import Act, off_reason
from console.pages.decision.written import ArgumentField, FieldFault, changed_by_fields, fields_of
from console.pages.room import page, respond
from receipts.errors import ArgumentsUnusable
from receipts.selectors import written_arguments
from runs.canonical import NotCanonical, parse
from runtime.masking import Masks
from runtime.services import Amended, Written, call_amend


@page
def amend_page(request: HttpRequest, actor: Actor, id: UUID) -> HttpResponseBase:
    """Show the arguments as they were written, to be changed; or put the changed call in the place of the one that waits."""
    wait = access_wait(actor=actor, id=id)
    refused: Refused | None = None
    if request.method == "POST":
        outcome = _amend(request, actor, wait)
        if isinstance(outcome, Amended):
            return redirect(f"{reverse('call', args=[outcome.call_id])}?then=decision")
        refused = outcome
        wait = access_wait(actor=actor, id=id)
    return respond(
        request, actor, "pages/acts/page.html", _context(request, actor, wait, refused), status=_status(refused)
    )


def _placed(refused: Refused, fields: Sequence[ArgumentField]) -> Refused:
    """The same refusal; where its tool names a field of the page, at that field."""
    place = str(refused.facts.get("reason", "")).partition(":")[0]
    named = isinstance(refused, ArgumentsUnusable) and any(one.path == place for one in fields)
    return ArgumentsUnusable({**refused.facts, "field": place}) if named else refused


def _status(refused: Refused | None) -> int:
    return refused.status if refused else 200


def _amend(request: HttpRequest, actor: Actor, wait: Wait) -> Amended | Refused:
    sent = request.POST
    arguments = _typed(sent, wait)
    if isinstance(arguments, Refused):
        return arguments
    revision = sent.get("revision", "")
    number = int(revision) if revision.isdecimal() and len(revision) < 10 else 0
    seen = Seen(number, sent.get("digest", "")[:64], sent.get("args_digest", "")[:64])
    reason = sent.get("reason", "").replace("\r\n", "\n")
    return call_amend(actor=actor, wait_id=wait.id, written=Written(arguments, seen, reason))


def _typed(sent: QueryDict, wait: Wait) -> dict[str, Any] | Refused:
    """The arguments as they were typed: in the fields, or as JSON where that was changed, and never a mixture of both."""
    text = sent.get("arguments", "")
    fields = {name: sent.get(name, "") for name in sent if name.startswith("leaf-")}
    written = _written(wait) if fields else None
    if written is not None:
        try:
            by_fields = changed_by_fields(written, fields)
        except FieldFault as fault:
            return Invalid({"field": fault.path, "reason": f"{fault.why}."})
        if text.replace("\r\n", "\n").strip() in ("", _as_json(written)):
            return by_fields
        if by_fields != written:
            return Invalid({"field": "arguments", "reason": "the fields and the JSON were both changed; change one."})
    try:
        arguments = parse(text)
    except NotCanonical as error:
        return Invalid({"field": "arguments", "reason": str(error)})
    return arguments if isinstance(arguments, dict) else Invalid({"field": "arguments", "reason": _NO_OBJECT})


def _context(request: HttpRequest, actor: Actor, wait: Wait, refused: Refused | None) -> dict[str, Any]:
    masks = Masks(actor)
    written = None if masks.of(wait.tool_call, run=wait.run).paths else _written(wait)
    masks.tell()
    fields = fields_of(written or {}, request.POST)
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
        "refused": _placed(refused, fields) if refused else None,
        "reason": request.POST.get("reason", ""),
        "arguments": request.POST.get("arguments") or _as_json(written or {}),
        "fields": fields,
        "json_open": bool(written)
        and request.POST.get("arguments", "").replace("\r\n", "\n").strip() not in ("", _as_json(written or {})),
        "own": Tenant.objects.get(id=wait.tenant_id).self_approval,
    }


def _off(actor: Actor, wait: Wait, written: Mapping[str, Any] | None) -> str:
    off = off_reason(actor.may(Permission.DECIDE), Permission.DECIDE, can_decide(wait.status), "This wait is closed.")
    return off or (
        "" if written is not None else "The stored arguments can't be read, or part of them is masked for you."
    )


def _written(wait: Wait) -> dict[str, Any] | None:
    """What was written of the arguments; None where the store was changed."""
    try:
        return written_arguments(wait.tool_call)
    except (BodyChanged, LookupError):
        return None


def _as_json(written: Mapping[str, Any]) -> str:
    return json.dumps(written, ensure_ascii=False, indent=2)


_NO_OBJECT = "they have to be a JSON object."
