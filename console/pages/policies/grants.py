"""GET and POST /grants/ and /grants/<id>/: what people have allowed in advance; give, look at and revoke."""

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse

from accounts.errors import Refused
from accounts.states import Actor, Permission
from approvals.models import Grant
from approvals.selectors import access_grant
from approvals.services import GrantGiven, GrantRevoked, grant_revoke
from console.lists.grants import GRANTS, WORDS, grant_state
from console.pages.lists.page import list_response
from console.pages.room import page, respond
from receipts.states import EffectClass
from runs.selectors import database_now
from runtime.registry import agents
from runtime.services import GrantRequest, tool_grant

ROWS = 200


@page
def grant_list(request: HttpRequest, actor: Actor) -> HttpResponseBase:
    """Every grant, and the form that gives one. A refusal keeps what was typed and chosen."""
    refused: Refused | None = None
    if request.method == "POST":
        outcome = _give(request, actor)
        if isinstance(outcome, GrantGiven):
            messages.success(request, "The grant stands.")
            return redirect(reverse("grant", args=[outcome.grant_id]))
        refused = outcome
    more = {
        "tools": _tools(),
        "typed": {name: request.POST.get(name, "") for name in ("tool", "condition", "hours", "max_uses", "reason")},
        "refused": refused,
        "may_decide": actor.may(Permission.DECIDE),
    }
    status = refused.status if refused else 200
    return list_response(request, actor, GRANTS, template="pages/policies/grants.html", more=more, status=status)


def _give(request: HttpRequest, actor: Actor) -> GrantGiven | Refused:
    agent, _, tool = request.POST.get("tool", "").partition("/")
    wanted = GrantRequest(
        agent=agent,
        tool=tool,
        condition=request.POST.get("condition", ""),
        hours=_number(request.POST.get("hours", "")),
        max_uses=_number(request.POST.get("max_uses", "")),
    )
    return tool_grant(actor=actor, wanted=wanted, reason=request.POST.get("reason", "").replace("\r\n", "\n"))


def _number(text: str) -> int:
    """A whole number as it was typed; 0, which no grant takes, where it is none."""
    return int(text) if text.isdecimal() and len(text) < 9 else 0


def _tools() -> list[dict[str, str]]:
    """The tools that policy could ask about: those that do more than read."""
    return [
        {"value": f"{key}/{tool.key}", "agent": agent.spec.title, "tool": tool.key}
        for key, agent in agents().items()
        for tool in agent.spec.tools
        if tool.effect_class != EffectClass.READ_ONLY and not tool.local
    ]


@page
def grant_page(request: HttpRequest, actor: Actor, id: UUID) -> HttpResponseBase:
    """One grant: its scope, every call that was sent by it, and the form that ends it."""
    grant = access_grant(actor=actor, id=id)
    refused: Refused | None = None
    if request.method == "POST":
        reason = request.POST.get("reason", "").replace("\r\n", "\n")
        outcome = grant_revoke(actor=actor, grant_id=id, reason=reason)
        if isinstance(outcome, GrantRevoked):
            return redirect(reverse("grant", args=[id]))
        refused = outcome
        grant = access_grant(actor=actor, id=id)
    context: dict[str, Any] = {
        "grant": grant,
        "state": _state(grant),
        "uses": grant.used_by.select_related("tool_call__run").order_by("-at")[:ROWS],
        "refused": refused,
        "reason": request.POST.get("reason", ""),
        "may_decide": actor.may(Permission.DECIDE),
    }
    return respond(request, actor, "pages/policies/grant.html", context, status=refused.status if refused else 200)


def _state(grant: Grant) -> dict[str, Any]:
    """Whether a grant stands, and if not, why."""
    state = grant_state(grant, database_now())
    return {"stands": state == "STANDS", "word": WORDS[state]}
