"""GET /audit/ and /audit/verified/: what people did, and whether the chain that holds it is whole."""

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from accounts.audit import audit_verify
from accounts.models import AuditHead
from accounts.states import Actor, Permission
from console.lists.audit import AUDIT
from console.pages.lists.page import list_response
from console.pages.room import page, respond


@page
def audit_list(request: HttpRequest, actor: Actor) -> HttpResponseBase:
    """The events of the tenant with their filters. Needs the permission to audit."""
    head = AuditHead.objects.filter(tenant_id=actor.tenant_id).first()
    return list_response(request, actor, AUDIT, template="pages/lists/audit.html", more={"head": head})


@page
def audit_verified(request: HttpRequest, actor: Actor) -> HttpResponseBase:
    """Walk the whole chain now, and say whether it is unbroken. A panel of its own: it takes the longer, the longer the chain."""
    if not actor.may(Permission.AUDIT):
        raise PermissionDenied(f"This needs the permission “{Permission.AUDIT}”, which your roles do not hold.")
    try:
        events = audit_verify(actor.tenant_id)
        counted = "The one event was" if events == 1 else f"All {events:,} events were"
        context = {"whole": f"{counted} read now, and each seal was made anew."}
    except ValueError as broken:
        context = {"broken": str(broken)}
    return respond(request, actor, "pages/lists/verified.html", context)
