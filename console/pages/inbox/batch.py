"""GET and POST /inbox/batch/: the waits that were picked, each shown whole, and one verdict for each of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from accounts.errors import Refused
from accounts.states import Actor, Permission
from approvals.errors import UnknownVerdict
from approvals.models import Wait
from approvals.selectors import waits_visible
from approvals.services import BATCH_LIMIT, Answered, Item, Seen, wait_looked
from approvals.states import OF_A_CALL, DecisionVerdict, Risk, can_decide
from console.look import looks
from console.pages import signs
from console.pages.arguments import ArgumentRow
from console.pages.room import for_readers, page, respond
from console.pages.stored import Stored, stored_arguments
from console.pages.titles import call_title, publications_of
from console.pages.words import needs_role
from receipts.models import Publication
from runtime.masking import Masks
from runtime.services import waits_decide

WEIGHT = {Risk.HIGH: 2, Risk.NORMAL: 1, Risk.LOW: 0}


@dataclass(frozen=True)
class Picked:
    """One picked wait as the page shows it, and what came of it if something was decided. `no` is its place on the page."""

    no: int
    wait: Wait
    title: str
    arguments: Stored | None
    answered: Answered | None

    @property
    def rows(self) -> Sequence[ArgumentRow]:
        return self.arguments.rows if self.arguments else []

    @property
    def alone(self) -> str:
        """Why it can't be approved with others, or an empty text."""
        if not self.wait.batchable:
            return "The policy wants it gone through by itself."
        if self.arguments is None:
            return "Its stored arguments can't be read."
        if self.arguments.masked:
            return "Part of its arguments is masked here. Open it to see them."
        return "It holds odd characters that have to be marked." if any(row.odd for row in self.rows) else ""

    @property
    def refused(self) -> Refused | None:
        outcome = self.answered.outcome if self.answered else None
        return outcome if isinstance(outcome, Refused) else None

    @property
    def seen(self) -> str:
        """What was shown of it, as the form carries it."""
        return f"{self.wait.checkpoint_revision}:{self.wait.checkpoint_digest}:{self.wait.args_digest}"


@page
@for_readers
def batch_page(request: HttpRequest, actor: Actor) -> HttpResponseBase:
    """Show what was picked, the gravest first; or decide each of them with one verdict and one reason, and say what came of
    it. What the person was shown travels with each item, so what has moved since is refused by itself.
    """
    asked = request.POST if request.method == "POST" else request.GET
    waits = _picked(actor, asked.getlist("wait"))
    refused: Refused | None = None
    answers: Mapping[UUID, Answered] = {}
    if request.method == "POST":
        outcome = _decide(actor, request, waits)
        if isinstance(outcome, Refused):
            refused = outcome
        else:
            answers = {answered.wait_id: answered for answered in outcome}
            waits = _picked(actor, [*(str(wait.id) for wait in waits), *asked.getlist("beside")])
    shown = _shown(waits, answers)
    if looks(request):
        for one in shown:
            if one.arguments is not None and not one.arguments.masked and can_decide(one.wait.status):
                wait_looked(actor=actor, wait_id=one.wait.id)
    context = _context(actor, shown, refused, answers) | {
        "reason": "" if answers else asked.get("reason", ""),
        "verdict": asked.get("verdict"),
    }
    return respond(request, actor, "pages/inbox/batch.html", context, status=refused.status if refused else 200)


def _picked(actor: Actor, named: Sequence[str]) -> list[Wait]:
    """The waits of these ids that the actor may see, the gravest first: by risk, by effect class, by deadline."""
    ids = [id for id in map(_id, named[: BATCH_LIMIT + 1]) if id is not None]
    waits = waits_visible(actor).filter(id__in=ids).select_related("run", "tool_call", "decision")
    weight = signs.EFFECT
    return sorted(
        waits, key=lambda wait: (-WEIGHT[Risk(wait.risk)], -weight[wait.tool_call.effect_class].step, wait.deadline)
    )


def _id(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def _decide(actor: Actor, request: HttpRequest, waits: Sequence[Wait]) -> list[Answered] | Refused:
    said = request.POST.get("verdict", "")
    if said not in OF_A_CALL:
        return UnknownVerdict()
    verdict = DecisionVerdict(said)
    items = [Item(wait.id, _seen(request, wait)) for wait in waits]
    reason = request.POST.get("reason", "").replace("\r\n", "\n")
    return waits_decide(actor=actor, items=items, verdict=verdict, reason=reason)


def _seen(request: HttpRequest, wait: Wait) -> Seen:
    """What the form says was shown of a wait, and what of it needs more than a batch can give."""
    revision, _, digests = request.POST.get(f"seen-{wait.id}", "").partition(":")
    digest, _, args_digest = digests.partition(":")
    number = int(revision) if revision.isdecimal() and len(revision) < 10 else 0
    arguments = stored_arguments(wait.tool_call, Masks().of(wait.tool_call, run=wait.run))
    hidden = ("$",) if arguments is None else tuple(row.path for row in arguments.rows if row.odd or row.masked)
    return Seen(number, digest[:64], args_digest[:64], hidden)


def _shown(waits: Sequence[Wait], answers: Mapping[UUID, Answered]) -> list[Picked]:
    masks = Masks()
    made: Mapping[UUID, Publication] = publications_of(wait.tool_call_id for wait in waits)
    return [
        Picked(
            no,
            wait,
            call_title(wait.tool_call, made.get(wait.tool_call_id)),
            stored_arguments(wait.tool_call, masks.of(wait.tool_call, run=wait.run)),
            answers.get(wait.id),
        )
        for no, wait in enumerate(waits, start=1)
    ]


def _context(
    actor: Actor, shown: Sequence[Picked], refused: Refused | None, answers: Mapping[UUID, Answered]
) -> dict[str, Any]:
    may = actor.may(Permission.DECIDE)
    off = "" if may else needs_role(Permission.DECIDE, "Deciding")
    open_ones = [one for one in shown if can_decide(one.wait.status)]
    together = [one for one in open_ones if not one.alone]
    off = off or ("" if open_ones else "None of them is open.")
    return {
        "shown": shown,
        "open": open_ones,
        "together": together,
        "apart": _apart(open_ones),
        "refused": refused,
        "answered": bool(answers),
        "decided": [one for one in shown if one.answered and not one.refused],
        "left": [one for one in open_ones if one.refused or not one.answered],
        "unstored": [one for one in shown if one.refused],
        "off": off,
        "approve_off": off or ("" if together else "Each of them has to be gone through by itself."),
        "grave": [one for one in shown if one.wait.risk == Risk.HIGH],
    }


def _apart(shown: Sequence[Picked]) -> list[tuple[str, list[Picked]]]:
    """Those that can't be approved with others, by why."""
    by_reason: dict[str, list[Picked]] = {}
    for one in shown:
        if one.alone:
            by_reason.setdefault(one.alone, []).append(one)
    return list(by_reason.items())
