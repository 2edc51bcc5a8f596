"""GET and POST /runs/<id>/stop/: the forecast, the button, and then the three stages until the run is closed."""

from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect

from accounts.errors import Refused
from accounts.states import Actor, Permission
from console.pages.notice import asked_before, refusal_notice
from console.pages.room import page, respond
from console.pages.stop.forecast import Forecast
from console.pages.words import needs_role
from runs.models import Run, RunTransition
from runs.selectors import access_run, control_of
from runs.states import can_abort, can_stop
from runtime.services import run_abort, run_stop

PANELS = {"stop-live": "pages/stop/live.html"}


@page
def stop_page(request: HttpRequest, actor: Actor, id: UUID) -> HttpResponseBase:
    """The page of a stop, and of an abort (`how=abort`). What was accepted leads back to it; a refused act shows it again with
    the reason kept.
    """
    run = access_run(actor=actor, id=id)
    reason = request.POST.get("reason", "").replace("\r\n", "\n")
    aborts = request.POST.get("how") == "abort"
    refused = None
    if request.method == "POST":
        outcome = (run_abort if aborts else run_stop)(actor=actor, run_id=id, reason=reason)
        if not isinstance(outcome, Refused):
            if not (outcome.new or aborts):
                first = control_of(outcome.request_id)
                messages.warning(request, asked_before(first.requested_by, first.accepted_at), extra_tags="is-caution")
            return redirect("stop", id=id)
        refused = outcome
        run = access_run(actor=actor, id=id)
    context = {
        **_context(run, actor),
        "reason": reason,
        "aborts": aborts,
        "refused": refusal_notice(refused, form="#stop-it") if refused else None,
    }
    return respond(request, actor, "pages/stop/page.html", context, PANELS, refused.status if refused else 200)


def _context(run: Run, actor: Actor) -> dict[str, Any]:
    forecast = Forecast(run)
    stop = forecast.stop
    possible = can_stop(run.status, forecast.stop_open)
    return {
        "run": run,
        "forecast": forecast,
        "stop": stop,
        "adopted_by": _adopter(run, stop.adopted_fence) if stop and stop.adopted_fence else "",
        "topic": f"run:{run.id}",
        "possible": possible,
        "abortable": can_abort(run.status) and actor.may(Permission.STOP),
        "off": "" if actor.may(Permission.STOP) else needs_role(Permission.STOP, "Stopping"),
        "heartbeat": settings.HEARTBEAT_SECONDS,
    }


def _adopter(run: Run, fence: int) -> str:
    """Who held the lease under the fence that adopted the stop."""
    taken = RunTransition.objects.filter(run=run, fence=fence, to_status="RUNNING")
    return taken.order_by("id").values_list("actor", flat=True).first() or ""
