"""GET and POST /tenant/: in which of their tenants a person acts, kept on the session."""

from typing import Any, cast

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache

from accounts.models import User
from accounts.selectors import TENANT, tenants_of


@login_required
@never_cache
def tenant_page(request: HttpRequest) -> HttpResponseBase:
    """Show the tenants of a person; or act in the one that they choose. What is not theirs is not offered, and not taken."""
    tenants = tenants_of(cast("User", request.user))
    chosen = request.POST.get("tenant", "")
    if request.method == "POST" and chosen in dict(tenants):
        request.session[TENANT] = chosen
        messages.success(request, f"You act in {dict(tenants)[chosen]} now.", extra_tags="is-clear")
        return redirect(_next(request))
    context: dict[str, Any] = {
        "tenants": tenants,
        "chosen": request.session.get(TENANT, ""),
        "next": _next(request),
        "refused": request.method == "POST",
    }
    return render(request, "tenant.html", context, status=404 if request.method == "POST" else 200)


def _next(request: HttpRequest) -> str:
    """Where to go on: what was asked for before the tenant was, if it is an address of this site; or the overview."""
    wanted = request.POST.get("next") or request.GET.get("next") or ""
    safe = url_has_allowed_host_and_scheme(wanted, {request.get_host()}, require_https=request.is_secure())
    return wanted if safe else reverse("overview")
