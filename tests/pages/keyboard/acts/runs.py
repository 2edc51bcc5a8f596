"""Runs and their calls."""

from collections.abc import Callable, Sequence
from uuid import uuid4

from accounts.models import AuditEvent
from checkpoints.models import Commitment, Intent, Obligation
from receipts.models import Attachment, Contradiction, Probe, SecondEffect, ToolCall
from runs.models import Budget, Bulk, ControlRequest, Run, RunTag
from tests.pages.driven import ALDER, BIRCH
from tests.pages.keyboard.acts.journey import WHY, Journey, Make, rows
from tests.pages.keyboard.driver import Step, chooses, follows, gives, keys, picks, presses, ticks, types
from tests.pages.keyboard.house import House

# ── runs ──


def _of_run(run: Run, act: str, steps: Sequence[Step], done: Callable[[], bool]) -> Journey:
    return Journey(f"/runs/{run.id}/{act}/", steps, done)


def stop(house: House) -> Journey:
    run = house.queued()
    steps = [types("Reason, required", WHY), presses("Stop this run")]
    return _of_run(run, "stop", steps, rows(ControlRequest, run=run, kind="STOP", reason=WHY))


def abort(house: House) -> Journey:
    """A stop that does not wait for what is on its way."""
    run, kept = house.on_its_way()
    steps = [types("Reason, required", WHY, "#abort-it"), presses("Close it now, without the answer")]
    done = rows(ControlRequest, run=run, abort_reason=WHY)
    return Journey(f"/runs/{run.id}/stop/", steps, done, kept.close)


def pause(house: House) -> Journey:
    run = house.queued()
    steps = [types("Your reason", WHY), presses("Pause the run")]
    return _of_run(run, "pause", steps, rows(ControlRequest, run=run, kind="PAUSE", reason=WHY))


def resume(house: House) -> Journey:
    run = house.paused()
    steps = [types("Your reason", WHY), presses("Resume")]
    return _of_run(run, "retry", steps, rows(Run, id=run.id, status="QUEUED"))


def settle(house: House) -> Journey:
    run = house.spent()
    steps = [types("Your reason", WHY), presses("Settle the run")]
    return _of_run(run, "settle", steps, rows(Run, id=run.id, status="SETTLED"))


def goal(house: House) -> Journey:
    run = house.waiting().run
    steps = [types("The goal from now on", "Another goal."), types("Your reason", WHY), presses("Revise the goal")]
    return _of_run(run, "goal", steps, rows(Intent, run=run, version=2, reason=WHY))


def bind(house: House) -> Journey:
    run = house.waiting().run
    steps = [
        types("Constraints, one a line", "Be brief.\nWrite English."),
        ticks("publish_report"),
        types("Your reason", WHY),
        presses("Bind it"),
    ]
    return _of_run(run, "bind", steps, rows(Commitment, run=run, statement="Write English."))


def cap(house: House) -> Journey:
    run = house.queued()
    now = Budget.objects.get(run=run, unit="model_calls").cap or 0
    steps = [
        picks("What is capped", "model_calls"),
        types("The cap from now on", str(now + 7)),
        types("Your reason", WHY),
        presses("Raise the cap"),
    ]
    return _of_run(run, "budget", steps, rows(Budget, run=run, unit="model_calls", cap=now + 7))


def tags(house: House) -> Journey:
    run = house.queued()
    steps = [types("Tags to add", "by-hand desk:emea"), presses("Change the tags")]
    return _of_run(run, "tags", steps, rows(RunTag, run=run, tag="desk:emea"))


def continue_(house: House) -> Journey:
    run = house.stopped()
    steps = [types("Your reason", WHY), presses("Continue as a new run")]
    return _of_run(run, "continue", steps, rows(Run, continued_from=run))


def fork(house: House) -> Journey:
    run = house.published().run
    steps = [types("Your reason", WHY), presses("Start the fork")]
    return Journey(f"/runs/{run.id}/checkpoints/2/fork/", steps, rows(Run, forked_from=run))


def upgraded(act: str, button: str) -> Make:
    """After a deploy. Without one it is refused, and that it was asked for stands in the audit."""

    def make(house: House) -> Journey:
        run = house.waiting().run
        steps = [types("Your reason", WHY), presses(button)]
        return _of_run(run, act, steps, rows(AuditEvent, object_id=run.id, action__startswith=f"run.{act}"))

    make.__name__ = act
    return make


def new_run(house: House) -> Journey:
    a, b = (house.folder / name for name in ("by-hand-a.csv", "by-hand-b.csv"))
    a.write_text(ALDER)
    b.write_text(BIRCH)
    title = uuid4().hex
    steps = [
        gives("Disclosure A", a),
        gives("Disclosure B", b),
        types("Goal", "Compare by hand."),
        types("Constraints, one a line", "Be brief."),
        ticks("publish_report"),
        types("Tags", "by-hand"),
        types("Title", title),
        chooses("Settle…"),
        presses("Start the run"),
    ]
    return Journey("/runs/new/?agent=fund_comparison", steps, rows(Run, title=title, inputs__filename="by-hand-b.csv"))


def new_run_of_words(house: House) -> Journey:
    title = uuid4().hex
    steps = [
        types("Claims, one a line", "Northwind Grid operated 412 substations at the end of 2025."),
        types("Title", title),
        types("Workspace", "By hand"),
        presses("Start the run"),
    ]
    return Journey("/runs/new/?agent=evidence_search", steps, rows(Run, title=title))


def commitment_withdraw(house: House) -> Journey:
    term = Commitment.objects.filter(run=house.waiting().run)[0]
    steps = [types("Your reason", WHY), presses("Withdraw it")]
    return Journey(f"/commitments/{term.id}/withdraw/", steps, rows(Commitment, id=term.id, withdrawal_reason=WHY))


def obligation_release(house: House) -> Journey:
    promise = Obligation.objects.filter(run=house.waiting().run, status="OPEN")[0]
    steps = [types("Your reason", WHY), presses("Release this promise")]
    return Journey(f"/obligations/{promise.id}/release/", steps, rows(Obligation, id=promise.id, release_reason=WHY))


def stop_many(house: House) -> Journey:
    run = house.queued()
    query = f"q={run.title.replace(' ', '%2B')}"
    steps = [types("Reason, required", WHY), presses("Stop these 1")]
    return Journey(f"/bulks/new/?act=STOP&query={query}", steps, rows(Bulk, items__run=run, reason=WHY))


def resume_many(house: House) -> Journey:
    run = house.paused()
    query = f"q={run.title.replace(' ', '%2B')}"
    steps = [follows("Resume"), types("Reason, required", WHY), presses("Resume these 1")]
    return Journey(f"/bulks/new/?act=STOP&query={query}", steps, rows(Bulk, items__run=run, act="RESUME", reason=WHY))


# ── calls ──


def attach(house: House) -> Journey:
    call = house.unknown()
    file = house.folder / "seen.txt"
    file.write_text("one post")
    steps = [gives("File", file), types("What it shows", "One post."), presses("Put it beside the call")]
    return Journey(f"/calls/{call.id}/", steps, rows(Attachment, tool_call=call, note="One post."))


def probe(house: House) -> Journey:
    """The other side is asked for the key, and what it says is kept."""
    call = house.askable()
    house.outside.tell(lookup=True)
    done = rows(Probe, tool_call=call, found="THERE")
    return Journey(
        f"/calls/{call.id}/", [presses("Ask the other side once")], done, lambda: house.outside.tell(lookup=False)
    )


def verdict(house: House) -> Journey:
    call = house.unknown()
    steps = [
        keys("v"),
        chooses("It did not happen"),
        picks("And then", "FAIL"),
        types("Evidence, required", WHY),
        presses("Record the verdict"),
    ]
    return Journey(f"/calls/{call.id}/", steps, rows(ToolCall, id=call.id, status="FAILED"))


def contradict(house: House) -> Journey:
    call = house.judged()
    steps = [chooses("It did not happen"), types("How you know", WHY), presses("Raise the flag")]
    return Journey(f"/calls/{call.id}/contradict/", steps, rows(Contradiction, tool_call=call, evidence=WHY))


def flag_close(house: House) -> Journey:
    flag = house.flagged()
    steps = [types("Your reason", WHY), presses("Close the flag")]
    return Journey(f"/contradictions/{flag.id}/close/", steps, rows(Contradiction, id=flag.id, closing_reason=WHY))


def repeat(house: House) -> Journey:
    call = house.published().publishing
    steps = [types("Your reason", WHY), presses("Ask for it once more")]
    return Journey(f"/calls/{call.id}/repeat/", steps, rows(SecondEffect, tool_call=call, reason=WHY))
