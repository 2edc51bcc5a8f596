"""What governs, lists that are kept, who is told, and the tour."""

from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID, uuid4

from playwright.sync_api import expect

from accounts.models import Endpoint, Notice, SavedView, User
from approvals.models import Grant, PolicyActivation, PolicyVersion
from runs.models import ScopeControl
from tests.pages.keyboard.acts.journey import WHY, Journey, rows
from tests.pages.keyboard.driver import Step, chooses, keys, opens, picks, presses, ticks, types
from tests.pages.keyboard.house import POLICY, House

# ── what governs ──


def grant_give(house: House) -> Journey:
    why = uuid4().hex
    steps = [
        picks("The tool", "fund_comparison/publish_report"),
        types("Only if", "args['slug'] == 'none'"),
        types("For hours", "3"),
        types("For calls", "2"),
        types("Your reason", why),
        presses("Approve these in advance"),
    ]
    return Journey("/grants/", steps, rows(Grant, reason=why, max_uses=2))


def grant_revoke(house: House) -> Journey:
    id = house.grant()
    steps = [types("Your reason", WHY), presses("Revoke it")]
    return Journey(f"/grants/{id}/", steps, rows(Grant, id=id, revocation_reason=WHY))


def policy_save(house: House) -> Journey:
    summary = uuid4().hex
    steps = [
        types("The text", f"{POLICY}# {summary}\n"),
        types("What it is for, in one line", summary),
        presses("Save as a draft"),
    ]
    number = house.policy()
    return Journey(f"/policies/new/?from={number}", steps, rows(PolicyVersion, summary=summary))


def policy_try(house: House) -> Journey:
    number = house.policy()
    tried = lambda by: expect(by.page.locator("#tried")).to_contain_text("newest call")  # noqa: E731
    return Journey(f"/policies/new/?from={number}", [presses("Check and try"), tried], lambda: True)


def policy_activate(house: House) -> Journey:
    number, why = house.policy(), uuid4().hex
    steps = [types("Your reason", why), presses(f"Put v{number} in force")]
    return Journey(f"/policies/{number}/", steps, rows(PolicyActivation, reason=why))


def scope_pause(house: House) -> Journey:
    thread, why = house.published().run.thread_id, uuid4().hex
    steps = [chooses("Pause.…"), types("Reason, required", why), presses_do()]
    return Journey(f"/scopes/new/?scope=THREAD&of={thread}", steps, rows(ScopeControl, reason=why, kind="PAUSE"))


def scope_stopped_at_once(house: House) -> Journey:
    """A stop of a thread that waits for nothing."""
    run, kept = house.on_its_way()
    why = uuid4().hex
    steps = [chooses("Stop, and wait for nothing.…"), types("Reason, required", why), presses_do()]
    aborted = rows(ScopeControl, reason=why, aborted_at__isnull=False)
    return Journey(f"/scopes/new/?scope=THREAD&of={run.thread_id}", steps, aborted, kept.close)


def scope_abort(house: House) -> Journey:
    """Of a stop that stands, and waits for an answer."""
    run, kept = house.on_its_way()
    id = house.scope_stopped(run)
    steps = [
        types("Reason, required", WHY, "#abort-it"),
        presses("Close them now, without the answers"),
    ]
    return Journey(f"/scopes/{id}/", steps, rows(ScopeControl, id=id, abort_reason=WHY), kept.close)


def presses_do() -> Step:
    def step(by: Any) -> None:
        by.reach(by.page.locator("#scope-form button[data-gated]"))
        by.press("Enter")

    return step


def scope_lift(house: House) -> Journey:
    id = house.scope()
    steps = [types("Reason, required", WHY, "#lift-it"), presses("Lift it")]
    return Journey(f"/scopes/{id}/", steps, rows(ScopeControl, id=id, lift_reason=WHY))


# ── lists ──


def view_keep(house: House) -> Journey:
    name = uuid4().hex
    steps = [
        keys("f"),
        ticks("held"),
        presses("Show these"),
        opens("Views"),
        types("Name of the view", name),
        ticks("for everybody here"),
        presses("Keep this view"),
    ]
    return Journey("/runs/", steps, rows(SavedView, name=name, query__contains="status=HELD", shared=True))


def view_remove(house: House) -> Journey:
    view = house.view()
    gone = lambda: not SavedView.objects.filter(id=view.id).exists()  # noqa: E731
    return Journey(f"/views/{view.id}/remove/", [presses("Let this view go")], gone)


# ── who is told ──


def endpoint_add(house: House) -> Journey:
    name = uuid4().hex
    steps = [
        chooses("Webhook…"),
        types("What you call it", name),
        types("Address", "http://127.0.0.1:9/"),
        ticks("for the whole tenant"),
        presses("Add it"),
    ]
    return Journey("/settings/notifications/", steps, rows(Endpoint, name=name, membership=None))


def _of_endpoint(id: UUID, steps: Sequence[Step], done: Callable[[], bool], more: str = "") -> Journey:
    return Journey(f"/settings/notifications/{id}/{more}", steps, done)


def endpoint_change(house: House) -> Journey:
    id, name = house.endpoint(), uuid4().hex
    steps = [types("What you call it", name), presses("Change it")]
    return _of_endpoint(id, steps, rows(Endpoint, id=id, name=name))


def endpoint_pause(house: House) -> Journey:
    id = house.endpoint()
    return _of_endpoint(id, [presses("Pause it")], rows(Endpoint, id=id, paused_at__isnull=False))


def endpoint_resume(house: House) -> Journey:
    id = house.endpoint(paused=True)
    return _of_endpoint(id, [presses("Tell it again")], rows(Endpoint, id=id, paused_at=None))


def endpoint_test(house: House) -> Journey:
    id = house.endpoint()
    return _of_endpoint(id, [presses("Send a test")], rows(Notice, endpoint_id=id, kind="TEST"))


def endpoint_remove(house: House) -> Journey:
    id = house.endpoint()
    return _of_endpoint(id, [presses("Remove it")], rows(Endpoint, id=id, removed_at__isnull=False), "remove/")


def tour_seen(house: House) -> Journey:
    User.objects.filter(username=house.ann.name).update(tour_seen_at=None)
    seen = rows(User, username=house.ann.name, tour_seen_at__isnull=False)
    return Journey("/tour/", [presses("I have seen it")], seen)
