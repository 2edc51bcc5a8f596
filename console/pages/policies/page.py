"""GET /policies/, GET and POST /policies/new/ and /policies/<number>/: read, write, try and put in force."""

from typing import Any

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse

from accounts.errors import NotFound, Refused
from accounts.states import Actor, Permission
from approvals.models import PolicyVersion, Wait
from approvals.policies import read, version_name
from approvals.selectors import access_policy, policies_visible, policy_number, policy_of
from approvals.services import PolicyActivated, PolicySaved, policy_activate, policy_save
from approvals.states import WaitStatus
from console.lists.policies import POLICIES
from console.pages.diff import difference, text_pieces
from console.pages.few import Few
from console.pages.lists.page import list_response
from console.pages.policies.say import ICON, LAMP, OUTCOME, demand_said, faults_said, masks_said, rules_said
from console.pages.room import page, respond
from console.records.policies import activations_of
from runtime.services import Rehearsal, policy_rehearse, policy_rehearse_version

ROWS = 200
TRIED_CALLS = 200
SAMPLE = """# The first rule that is about a call says what happens. Where none is, the built-in rules do.
# Constraints of a run and tools that its agent does not declare are denied before any rule is read.

[amounts]
# Which argument holds the amount of a tool, as a path with dots.
# pay_invoice = "total.value"

[[rule]]
name = "What leaves a mark outside is seen by one person"
effects = ["IDEMPOTENT", "QUERYABLE", "NON_IDEMPOTENT"]
if = "tool != 'send_answer_part'"
then = "ask"
people = 1
deadline = "8h"
"""


@page
def policy_list(request: HttpRequest, actor: Actor) -> HttpResponseBase:
    """Every version, which one is in force, and every time that another one came."""
    number = policy_number(actor.tenant_id)
    found = activations_of(actor)[: ROWS + 1] if actor.may(Permission.READ) else []
    activations = Few(found, ROWS)
    more = {
        "number": number,
        "name": version_name(number),
        "came": activations,
        "activations": [(one, version_name(one.before), version_name(one.number)) for one in activations],
        "may_govern": actor.may(Permission.GOVERN),
    }
    return list_response(request, actor, POLICIES, template="pages/policies/list.html", more=more)


@page
def policy_new(request: HttpRequest, actor: Actor) -> HttpResponseBase:
    """The editor of a draft: check and try it, or save it as the next version. What was typed stays on the page."""
    text = request.POST.get("text", "").replace("\r\n", "\n")
    summary = request.POST.get("summary", "").strip()
    outcome: Any = None
    if request.method == "POST" and request.POST.get("do") == "save":
        outcome = policy_save(actor=actor, text=text, summary=summary)
        if isinstance(outcome, PolicySaved):
            return redirect(reverse("policy", args=[outcome.number]))
    elif request.method == "POST":
        outcome = policy_rehearse(actor=actor, text=text, limit=TRIED_CALLS)
    else:
        text = _begun_from(request, actor)
    refused = outcome if isinstance(outcome, Refused) else None
    found = read(text)
    context = {
        "text": text,
        "summary": summary,
        "refused": refused,
        "faults": faults_said(text, found.faults) if request.method == "POST" else [],
        "rules": rules_said(found.document) if found.document and request.method == "POST" else [],
        "masks": masks_said(found.document) if found.document and request.method == "POST" else [],
        "may_govern": actor.may(Permission.GOVERN),
        "environment": settings.ENVIRONMENT_NAME,
        **_tried(outcome),
    }
    status = refused.status if refused else 200
    return respond(request, actor, "pages/policies/edit.html", context, status=status)


def _begun_from(request: HttpRequest, actor: Actor) -> str:
    """The text that an editor opens with: that of a named version, of the one in force, or a sample."""
    asked = request.GET.get("from", "")
    number = int(asked) if asked.isdecimal() and len(asked) < 9 else policy_number(actor.tenant_id)
    version = policies_visible(actor).filter(number=number).first()
    return version.text if version else SAMPLE


@page
def policy_page(request: HttpRequest, actor: Actor, number: int) -> HttpResponseBase:
    """One version: its rules, what differs from the one in force, what it would have said, and the act that puts it in force."""
    version = _version(actor, number)
    refused: Refused | None = None
    if request.method == "POST":
        outcome = _activate(request, actor, number)
        if isinstance(outcome, PolicyActivated):
            messages.success(
                request, f"Policy {version_name(number)} is in force. Open waits are asked anew, run by run."
            )
            return redirect(reverse("policy", args=[number]))
        refused = outcome
    now = policy_number(actor.tenant_id)
    context = {
        "number": number,
        "name": version_name(number),
        "version": version,
        "text": version.text if version else "",
        **_read(version),
        "now": now,
        "now_name": version_name(now),
        "is_in_force": now == number,
        "difference": _difference(actor, version, now),
        "waits": Wait.objects.filter(tenant_id=actor.tenant_id, status=WaitStatus.OPEN).count(),
        "refused": refused,
        "reason": request.POST.get("reason", ""),
        "may_govern": actor.may(Permission.GOVERN),
        **(_tried(_rehearsal(actor, version)) if now != number else {}),
    }
    return respond(request, actor, "pages/policies/page.html", context, status=refused.status if refused else 200)


def _version(actor: Actor, number: int) -> PolicyVersion | None:
    """A version that the actor may see; None for the built-in policy. Raises NotFound."""
    if not actor.may(Permission.READ):
        raise NotFound
    return access_policy(actor=actor, number=number) if number else None


def _read(version: PolicyVersion | None) -> dict[str, Any]:
    """Its rules in words; where it can't be read here, why."""
    if version is None:
        return {"rules": [], "masks": [], "unreadable": ""}
    policy = policy_of(version.tenant_id, version.number)
    document = policy.document
    return {
        "rules": rules_said(document) if document else [],
        "masks": masks_said(document) if document else [],
        "unreadable": policy.unreadable,
    }


def _difference(actor: Actor, version: PolicyVersion | None, now: int) -> Any:
    """How the text differs from the one in force; None where one of them is the built-in policy, or they are the same."""
    if version is None or now in (0, version.number):
        return None
    current = access_policy(actor=actor, number=now)
    return difference(text_pieces(current.text), text_pieces(version.text))


def _rehearsal(actor: Actor, version: PolicyVersion | None) -> Rehearsal | Refused:
    if version is None:
        return policy_rehearse_version(actor=actor, number=0, limit=TRIED_CALLS)
    return policy_rehearse(actor=actor, text=version.text, limit=TRIED_CALLS)


def _activate(request: HttpRequest, actor: Actor, number: int) -> PolicyActivated | Refused:
    seen = request.POST.get("seen", "")
    known = int(seen) if seen.isdecimal() and len(seen) < 9 else -1
    reason = request.POST.get("reason", "").replace("\r\n", "\n")
    return policy_activate(actor=actor, number=number, seen=known, reason=reason)


def _tried(found: Any) -> dict[str, Any]:
    """What a dry run found, as its table shows it: the calls of which it would say something else."""
    if not isinstance(found, Rehearsal):
        return {}
    return {
        "rehearsal": found,
        "compared_with": version_name(found.number),
        "changes": [(row, _ruled(row.now), _ruled(row.draft)) for row in found.changed[:ROWS]],
        "same": len(found.rows) - len(found.changed),
    }


def _ruled(ruling: Any) -> dict[str, Any]:
    asked = demand_said(ruling.demand, grants=ruling.grants) if ruling.outcome == "REQUIRE_APPROVAL" else ()
    return {
        "word": OUTCOME[ruling.outcome],
        "lamp": LAMP[ruling.outcome],
        "icon": ICON[ruling.outcome],
        "rule": ruling.rule,
        "asks": ", ".join(asked),
    }
