"""What leads from one run to another, each a page: continue, fork, replay; and, after a deploy, migrate and pin anew."""

from typing import Any
from uuid import UUID, uuid4

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from accounts.errors import Refused
from accounts.statements import together
from accounts.states import Actor, Permission
from checkpoints.models import Head
from checkpoints.selectors import access_checkpoint, current_intent
from console.pages.acts import Act, act_page, off_reason, waits_to_supersede
from console.pages.room import page, respond
from console.pages.run.say import RECOVERY
from receipts.models import ToolCall
from receipts.selectors import access_call
from receipts.states import CallStatus, EffectClass
from runs.models import Run
from runs.selectors import access_run
from runs.states import can_continue, can_revise_goal
from runtime.descent import Preview
from runtime.services import (
    SuccessorRequest,
    checkpoint_migrate,
    effect_repeat,
    fork_preview,
    fork_preview_of,
    run_continue,
    run_fork,
    run_repin,
    run_replay,
)
from runtime.standing import Standing, run_recovery


@page
def continue_page(request: HttpRequest, actor: Actor, id: UUID) -> HttpResponseBase:
    """GET and POST /runs/<id>/continue/: go on with what an ended run left, in a new one."""
    run = access_run(actor=actor, id=id)
    followers, heads = together(Run.objects.filter(continued_from=run).order_by("id")[:1], Head.objects.filter(run=run))
    continued = followers[0].id if followers else None
    found = fork_preview(actor=actor, run_id=id, revision=heads[0].revision)
    why = f"Run {continued} continues it already." if continued else _not_continued(run)
    act = Act(
        title="Continue as a new run",
        template="pages/acts/continue.html",
        button="Continue as a new run",
        done="This run continues the one that ended. It is queued.",
        off=off_reason(actor.may(Permission.START), Permission.START, can_continue(run.status) and not continued, why),
        facts=_successor_facts(request, found, run, heads[0].revision),
    )
    return act_page(
        request, actor, run, act, lambda reason: run_continue(actor=actor, run_id=id, wanted=_wanted(request, reason))
    )


def _not_continued(run: Run) -> str:
    if run.ended_at is None:
        return f"The run is {run.status}. Only what has ended is continued."
    return f"The run is {run.status}: it left nothing to continue. To go on from an earlier revision, fork it."


@page
def fork_page(request: HttpRequest, actor: Actor, id: UUID, revision: int) -> HttpResponseBase:
    """GET and POST /runs/<id>/checkpoints/<revision>/fork/: begin a new run at this revision."""
    saved = access_checkpoint(actor=actor, run_id=id, revision=revision)
    run, found = saved.run, fork_preview_of(saved)
    why = found.sentence if isinstance(found, Refused) else ""
    act = Act(
        title=f"Fork revision {revision}",
        template="pages/acts/fork.html",
        button="Start the fork",
        done=f"This run begins at revision {revision} of its source. It is queued.",
        off=off_reason(actor.may(Permission.START), Permission.START, not why, why),
        facts=_successor_facts(request, found, run, revision),
    )
    return act_page(
        request,
        actor,
        run,
        act,
        lambda reason: run_fork(actor=actor, run_id=id, revision=revision, wanted=_wanted(request, reason)),
    )


def _successor_facts(request: HttpRequest, found: Preview | Refused, run: Run, revision: int) -> dict[str, Any]:
    intent = current_intent(run.id)
    return {
        "revision": revision,
        "preview": None if isinstance(found, Refused) else found,
        "intent": intent,
        "goal": _goal(request) or intent.goal,
        "key": request.POST.get("key") or str(uuid4()),
    }


def _goal(request: HttpRequest) -> str:
    return request.POST.get("goal", "").replace("\r\n", "\n")


def _wanted(request: HttpRequest, reason: str) -> SuccessorRequest:
    """What the form asks for. Its key makes a form that is sent twice start one run."""
    return SuccessorRequest(reason=reason, goal=_goal(request), key=request.POST.get("key") or str(uuid4()))


def _not_twice(call: ToolCall) -> str:
    if call.effect_class == EffectClass.READ_ONLY:
        return "The call only reads. It left no mark outside, so there is nothing to have a second time."
    return f"The call is {call.status}. Only an effect that has happened can be had a second time."


@page
def repeat_page(request: HttpRequest, actor: Actor, id: UUID) -> HttpResponseBase:
    """GET and POST /calls/<id>/repeat/: ask for a second effect of a call that has happened."""
    call = access_call(actor=actor, id=id)
    happened = call.status == CallStatus.SUCCEEDED and call.effect_class != EffectClass.READ_ONLY
    act = Act(
        title="Ask for a second effect",
        template="pages/acts/repeat.html",
        button="Ask for it once more",
        done="The next proposal of this step is a call of its own. Policy rules on it like on any other.",
        off=off_reason(
            actor.may(Permission.REVISE),
            Permission.REVISE,
            happened,
            _not_twice(call),
        ),
        facts={"call": call},
    )
    return act_page(request, actor, call.run, act, lambda reason: effect_repeat(actor=actor, call_id=id, reason=reason))


@page
def replay_page(request: HttpRequest, actor: Actor, id: UUID) -> HttpResponseBase:
    """GET /runs/<id>/replay/: step through what the run stored, `?step=` by step, or all of it with `?step=all`.

    Nothing is asked; that it was looked at is audited.
    """
    replay = run_replay(actor=actor, run_id=id)
    steps = replay.steps
    asked = request.GET.get("step", "")
    last = len(steps)
    at = min(last, max(1, int(asked))) if asked.isascii() and asked.isdigit() and len(asked) < 10 else min(1, last)
    context = {
        "run": replay.run,
        "steps": list(enumerate(steps, 1)),
        "shown": steps if asked == "all" else steps[at - 1 : at] if at else (),
        "at": 0 if asked == "all" else at,
        "last": last,
        "broken": [number for number, step in enumerate(steps, 1) if not step.intact],
        "before": at - 1 if asked != "all" and at > 1 else 0,
        "after": at + 1 if asked != "all" and 0 < at < last else 0,
    }
    return respond(request, actor, "pages/run/replay.html", context)


HEADINGS: tuple[tuple[Standing, str, str], ...] = (
    (Standing.UNKNOWN, "Nobody knows", "What was sent and not answered. Nothing of it is guessed."),
    (
        Standing.REAUTHORISE,
        "To be authorised again",
        "What did not happen. That a note names it gives nobody leave to do it.",
    ),
    (Standing.REUSABLE, "Reusable", "What is stored. It is never executed again."),
)


@page
def recovery_page(request: HttpRequest, actor: Actor, id: UUID) -> HttpResponseBase:
    """GET /runs/<id>/recovery/: everything of the run under one of three headings, what was checked, and the evidence."""
    recovery = run_recovery(actor=actor, run_id=id)
    context = {
        "run": recovery.run,
        "recovery": recovery,
        "policy": RECOVERY[recovery.run.recovery_policy],
        "headings": [(title, says, recovery.under(standing)) for standing, title, says in HEADINGS],
    }
    return respond(request, actor, "pages/run/recovery.html", context)


@page
def migrate_page(request: HttpRequest, actor: Actor, id: UUID) -> HttpResponseBase:
    """GET and POST /runs/<id>/migrate/: bring the head from an older format to the one of today."""
    act = _upgrade(actor, id, "Migrate the checkpoint", "pages/acts/migrate.html", "Migrate", "The head is migrated.")
    run = access_run(actor=actor, id=id)
    return act_page(request, actor, run, act, lambda reason: checkpoint_migrate(actor=actor, run_id=id, reason=reason))


@page
def repin_page(request: HttpRequest, actor: Actor, id: UUID) -> HttpResponseBase:
    """GET and POST /runs/<id>/repin/: pin the run to its agent as it is installed now."""
    act = _upgrade(actor, id, "Pin the run anew", "pages/acts/repin.html", "Pin it", "The run is pinned anew.")
    run = access_run(actor=actor, id=id)
    return act_page(request, actor, run, act, lambda reason: run_repin(actor=actor, run_id=id, reason=reason))


def _upgrade(actor: Actor, id: UUID, title: str, template: str, button: str, done: str) -> Act:
    run = access_run(actor=actor, id=id)
    why = f"The run is {run.status}. This can be done only while no worker holds the run and before it has ended."
    return Act(
        title=title,
        template=template,
        button=button,
        done=f"{done} Open waits were superseded; they are asked again at the new revision.",
        off=off_reason(actor.may(Permission.REVISE), Permission.REVISE, can_revise_goal(run.status), why),
        facts={"waits": waits_to_supersede(run)},
    )
