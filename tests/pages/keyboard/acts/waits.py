"""Deciding, answering, and who does it for whom."""

import json
from collections.abc import Callable
from datetime import timedelta
from uuid import uuid4

from django.utils import timezone

from approvals.models import Answer, Assignment, Decision, Delegation, Vote, Wait
from receipts.models import ToolCall
from receipts.selectors import written_arguments
from tests.pages.keyboard.acts.journey import WHY, Journey, rows
from tests.pages.keyboard.driver import chooses, dates, follows, gives, keys, opens, picks, presses, ticks, types
from tests.pages.keyboard.house import House

# ── decisions ──


def approve(house: House) -> Journey:
    wait = house.waiting().wait
    steps = [keys("a"), types("Your reason", WHY, "#approve"), presses("Approve this call")]
    return Journey(f"/waits/{wait.id}/", steps, rows(Decision, wait=wait, verdict="APPROVE", reason=WHY))


def reject(house: House) -> Journey:
    wait = house.waiting().wait
    steps = [types("What should change", WHY), presses("Reject this call")]
    return Journey(f"/waits/{wait.id}/", steps, rows(Decision, wait=wait, verdict="REJECT", reason=WHY))


def amend(house: House) -> Journey:
    wait = house.waiting().wait
    steps = [
        follows("Write it anew with other arguments…"),
        types("title", "A title by hand"),
        types("Your reason", WHY),
        presses("Reject it and put this in its place"),
    ]
    anew = rows(ToolCall, run_id=wait.run_id, author=house.ann.label)
    return Journey(f"/waits/{wait.id}/", steps, anew)


def amend_as_json(house: House) -> Journey:
    wait = house.waiting().wait
    text = json.dumps(written_arguments(wait.tool_call) | {"title": "By hand, as JSON"})
    steps = [
        opens("As JSON instead"),
        types("The arguments, as JSON", text),
        types("Your reason", WHY),
        presses("Reject it and put this in its place"),
    ]
    return Journey(f"/waits/{wait.id}/amend/", steps, rows(ToolCall, run_id=wait.run_id, author=house.ann.label))


def withdraw_vote(house: House) -> Journey:
    wait = house.voted()
    steps = [types("Your reason", WHY), presses("Take it back")]
    return Journey(f"/waits/{wait.id}/withdraw/", steps, rows(Vote, wait=wait, withdrawal_reason=WHY))


def claim(house: House) -> Journey:
    wait = house.waiting().wait
    return Journey(f"/waits/{wait.id}/look/", [presses("I look at it")], rows(Assignment, wait=wait, ended_at=None))


def release(house: House) -> Journey:
    wait = house.waiting().wait
    steps = [
        presses("I look at it"),
        lambda by: by.page.wait_for_url(f"**/waits/{wait.id}/"),
        lambda by: by.open(f"/waits/{wait.id}/look/"),
        presses("I do not look at it any more"),
    ]
    over = rows(Assignment, wait=wait, ended_at__isnull=False)
    return Journey(f"/waits/{wait.id}/look/", steps, over)


def assign(house: House) -> Journey:
    wait = house.waiting().wait
    steps = [picks("To whom", house.ben.name), types("Your reason", WHY), presses("Give it")]
    return Journey(f"/waits/{wait.id}/assign/", steps, rows(Assignment, wait=wait, person=house.ben.label))


def reject_several(house: House) -> Journey:
    waits = [house.waiting().wait for _ in range(2)]
    query = "&".join(f"wait={wait.id}" for wait in waits)
    steps = [types("What should change", WHY), presses("Reject 2")]
    both = lambda: Decision.objects.filter(wait__in=waits, verdict="REJECT").count() == len(waits)  # noqa: E731
    return Journey(f"/inbox/batch/?{query}", steps, both)


def approve_several(house: House) -> Journey:
    """What the policy lets be approved together: picked in the inbox by its one button, gone through, and approved at once."""
    title = f"low {uuid4().hex[:6]}"
    waits = [house.fit(title) for _ in range(2)]
    steps = [
        types("Show only rows with this text", title),
        presses("Pick 2 that may be approved together"),
        presses("Go through them…"),
        lambda by: by.page.wait_for_url("**/inbox/batch/**"),
        types("Your reason", WHY, "#approve"),
        presses("Approve 2"),
    ]
    both = lambda: Decision.objects.filter(wait__in=waits, verdict="APPROVE", reason=WHY).count() == len(waits)  # noqa: E731
    return Journey("/inbox/?kind=approvals", steps, both)


# ── answers ──

CHOICES = {
    "type": "object",
    "properties": {
        "gates": {"type": "array", "title": "Gates", "items": {"type": "string", "enum": ["North", "South", "West"]}},
        "pallets": {"type": "integer", "title": "Pallets", "minimum": 1},
        "day": {"type": "string", "title": "Day", "format": "date"},
        "fragile": {"type": "boolean", "title": "Fragile"},
    },
    "required": ["gates", "pallets"],
}


def _is_answered(wait: Wait) -> Callable[[], bool]:
    return rows(Answer, wait=wait)


def answer_form(house: House) -> Journey:
    wait = house.asking()
    steps = [keys("a"), chooses("some of both"), presses("Send the answer")]
    return Journey(f"/waits/{wait.id}/", steps, _is_answered(wait))


def answer_choices(house: House) -> Journey:
    wait = house.asked("form", CHOICES)
    steps = [
        ticks("North"),
        ticks("West"),
        types("Pallets", "33"),
        dates("Day", "09", "30", "2026"),
        chooses("Yes"),
        presses("Send the answer"),
    ]
    return Journey(f"/waits/{wait.id}/", steps, _is_answered(wait))


def answer_text(house: House) -> Journey:
    wait = house.asked("text")
    steps = [types("In your words", "The second.\nAnd the third."), presses("Send the answer")]
    return Journey(f"/waits/{wait.id}/", steps, _is_answered(wait))


def answer_file(house: House) -> Journey:
    wait = house.asked("file")
    file = house.folder / "lines.txt"
    file.write_text("1 cash")
    steps = [gives("One file", file), presses("Send the answer")]
    return Journey(f"/waits/{wait.id}/", steps, _is_answered(wait))


def decline(house: House) -> Journey:
    wait = house.asking()
    steps = [types("Why not", WHY), presses("Decline to answer")]
    return Journey(f"/waits/{wait.id}/", steps, rows(Decision, wait=wait, verdict="DECLINE", reason=WHY))


# ── people for people ──


def delegate(house: House) -> Journey:
    day = timezone.now() + timedelta(days=30)
    until = (f"{day:%m}", f"{day:%d}", f"{day:%Y}", "11", "30", "AM")
    why = uuid4().hex
    steps = [
        picks("Who decides", house.ben.name),
        dates("Until", *until),
        types("Your reason", why),
        presses("Give it"),
    ]
    return Journey("/delegations/", steps, rows(Delegation, reason=why))


def delegation_end(house: House) -> Journey:
    id = house.delegation()
    return Journey(f"/delegations/{id}/end/", [presses("End it")], rows(Delegation, id=id, ended_at__isnull=False))
