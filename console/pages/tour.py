"""GET and POST /tour/: six stops on the tenant's own things, for somebody who is here for the first time."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse

from accounts.models import User
from accounts.services import tour_seen
from accounts.states import Actor, Permission
from approvals.selectors import waits_visible
from approvals.states import WaitStatus
from console.pages.report.versions import reports_visible
from console.pages.room import for_readers, page, respond
from receipts.selectors import calls_visible
from receipts.states import CallStatus
from runs.selectors import runs_visible


@dataclass(frozen=True)
class Stop:
    """One stop: what one sees there, what to try, and where it is. Without a `url` there is nothing yet; `say` says how
    to get one.
    """

    title: str
    say: str
    tries: str
    url: str
    link: str


@page
@for_readers
def tour(request: HttpRequest, actor: Actor) -> HttpResponseBase:
    """The stops; POST says that the person needs the tour no more, and leads back to the overview."""
    user = cast("User", request.user)
    if request.method == "POST":
        tour_seen(user=user)
        return redirect("overview")
    return respond(request, actor, "pages/tour.html", {"stops": list(_stops(actor)), "seen": user.tour_seen_at})


def _stops(actor: Actor) -> Iterator[Stop]:
    yield _inbox()
    yield _decision(actor)
    yield _run(actor)
    yield _unknown(actor)
    yield _stop(actor)
    yield _report(actor)


def _inbox() -> Stop:
    return Stop(
        "What needs you",
        "The inbox holds everything that waits for a person: calls to approve, calls of which nobody knows whether they "
        "happened, runs that are held. What is unknown comes first, then what runs out first.",
        "j and k move, Enter opens. No key decides anything.",
        reverse("inbox"),
        "Open the inbox",
    )


def _decision(actor: Actor) -> Stop:
    wait = waits_visible(actor).filter(status=WaitStatus.OPEN).order_by("opened_at", "id").first()
    return Stop(
        "One call, shown in full",
        "A decision is about one call, bound to one revision and to these exact arguments. If anything moves before it is "
        "sent, nothing is sent and you are asked anew.",
        "Read what happens if you approve and if you reject; both stand above their button."
        if wait
        else f"Nothing waits now. {_starts(actor)}: it asks before it publishes.",
        reverse("wait", args=[wait.id]) if wait else _start_url(actor),
        "Open a decision" if wait else _start_link(actor),
    )


def _run(actor: Actor) -> Stop:
    run = runs_visible(actor).order_by("-created_at", "-id").first()
    return Stop(
        "A run on one time axis",
        "Checkpoints, model calls, tool calls with each attempt, waits, reports, stops, and who held the lease when. It goes "
        "on by itself while you look.",
        "h and l walk through its events, f freezes what you see."
        if run
        else f"There is no run yet. {_starts(actor)}; it takes two small files, or claims that are typed.",
        reverse("run", args=[run.id]) if run else _start_url(actor),
        "Open the newest run" if run else _start_link(actor),
    )


def _starts(actor: Actor) -> str:
    """What leads to a first run, for who may start one and for who may not."""
    return "Start one" if actor.may(Permission.START) else "Somebody with the role operator starts one"


def _start_url(actor: Actor) -> str:
    return reverse("run-new" if actor.may(Permission.START) else "runs")


def _start_link(actor: Actor) -> str:
    return "Start a run" if actor.may(Permission.START) else "Look at the runs"


def _unknown(actor: Actor) -> Stop:
    call = calls_visible(actor).filter(status=CallStatus.UNCERTAIN).order_by("-created_at", "-id").first()
    return Stop(
        "A call that may have happened",
        "When a call was sent and no answer came, nobody knows whether it happened. It is not sent again until a person has "
        "looked outside and says what is known.",
        "Its page says where to look first, and what follows from each of the three verdicts."
        if call
        else "There is none now. To see one, have the outside world drop its answer, and approve a publication.",
        reverse("call", args=[call.id]) if call else f"{reverse('design')}#call-UNCERTAIN",
        "Open the call" if call else "What the sign says",
    )


def _stop(actor: Actor) -> Stop:
    run = runs_visible(actor).filter(ended_at=None).order_by("-created_at", "-id").first()
    return Stop(
        "Stopping, and what it can’t call back",
        "Before the button: what stays, what may still land, what will not start. A stop is accepted at once, adopted at the "
        "next seam, and settled when nothing can land any more.",
        "Looking stops nothing. The button wants a reason." if run else "No run lives now.",
        reverse("stop", args=[run.id]) if run else reverse("scopes"),
        "Look at its stop page" if run else "Stops of more than one run",
    )


def _report(actor: Actor) -> Stop:
    report = reports_visible(actor).order_by("-id").first()
    return Stop(
        "What was published stays",
        "Each version of a report stays readable, whatever happens to its run, and each number leads to the receipt it comes "
        "from.",
        "Follow a number." if report else "Nothing is published yet.",
        reverse("report", args=[report.id]) if report else reverse("reports"),
        "Open the newest report" if report else "Open the reports",
    )
