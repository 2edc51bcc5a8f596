"""One decision behind every door: page, API, command line and batch give the same answer to the same act (thread 13)."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client

from accounts.models import Tenant, User
from accounts.states import Role
from approvals.models import Decision, Vote, Wait
from runs.models import Run
from tests.doors.world import OPERATOR, Doors, manage
from tests.engine.engine import demand, pass_deadline, sql_past_triggers

CODE = re.compile(r'<code class="small">([A-Z_]+)</code>')


@dataclass(frozen=True)
class Said:
    """What a person sends about a wait."""

    wait: Wait
    by: str
    verdict: str = "APPROVE"
    revision: int = 0
    not_shown: tuple[str, ...] = ()

    @property
    def shown(self) -> dict[str, Any]:
        revision = self.revision or self.wait.checkpoint_revision
        return {"revision": revision, "digest": self.wait.checkpoint_digest, "args_digest": self.wait.args_digest}


def by_page(doors: Doors, said: Said) -> str:
    client = Client()
    client.force_login(User.objects.get(username=said.by))
    answer = client.post(f"/waits/{said.wait.id}/", {**said.shown, "verdict": said.verdict, "reason": "I read it"})
    found = CODE.search(answer.content.decode())
    return "" if answer.status_code == 302 else (found[1] if found else str(answer.status_code))


def by_api(doors: Doors, said: Said) -> str:
    body = {**said.shown, "verdict": said.verdict, "reason": "I read it", "not_shown": list(said.not_shown)}
    answer = doors.api("POST", f"/waits/{said.wait.id}/decide/", body, by=said.by)
    return "" if answer.status_code == 200 else str(answer.json()["code"])


def by_command(doors: Doors, said: Said) -> str:
    shown = {f"--{name.replace('_', '-')}": value for name, value in said.shown.items()}
    flags = [part for pair in shown.items() for part in pair] + [f"--not-shown={path}" for path in said.not_shown]
    ran = manage(
        *("waits", "decide", said.wait.id, f"--{said.verdict.lower()}", *flags, "--reason", "I read it"),
        *("--as", said.by, "--json"),
    )
    return "" if ran.code == 0 else str(ran.json["error"]["code"])


def by_batch(doors: Doors, said: Said) -> str:
    item = {**said.shown, "wait": str(said.wait.id), "not_shown": list(said.not_shown)}
    body = {"verdict": said.verdict, "reason": "I read it", "waits": [item]}
    answer = doors.api("POST", "/waits/decide/", body, by=said.by)
    return str(answer.json()[0]["code"] if answer.status_code == 200 else answer.json()["code"])


def by_command_batch(doors: Doors, said: Said) -> str:
    items = json.dumps([{"id": str(said.wait.id), **said.shown}])
    ran = manage(
        *("waits", "decide-many", f"--{said.verdict.lower()}", "--items", items, "--reason", "I read it"),
        *("--as", said.by, "--json"),
    )
    assert ran.code == 1 or ran.code == (3 if ran.json[0]["outcome"] == "REFUSED" else 0)
    return str(ran.json["error"]["code"] if ran.code == 1 else ran.json[0]["code"])


DOORS: list[Callable[[Doors, Said], str]] = [by_page, by_api, by_command, by_batch, by_command_batch]
APPROVER = f"only-{Role.APPROVER}"


def answers(doors: Doors, said: Said) -> set[str]:
    """What every door says. What is refused is said again without changing anything."""
    before = (Decision.objects.count(), Vote.objects.count())
    codes = {door(doors, said) for door in DOORS}
    assert "" in codes or (Decision.objects.count(), Vote.objects.count()) == before
    return codes


@pytest.fixture
def asked(doors: Doors) -> Wait:
    """An open wait that may be decided in a batch, so that only what a test demands of it stands in the way."""
    return demand(doors.waiting(), batchable=True)


@pytest.mark.parametrize("role", [role for role in Role if role not in (Role.APPROVER, Role.AUDITOR)])
@pytest.mark.parametrize("verdict", ["APPROVE", "REJECT"])
def test_who_may_not_decide_hears_so_at_every_door(doors: Doors, asked: Wait, role: Role, verdict: str) -> None:
    assert answers(doors, Said(asked, f"only-{role}", verdict)) == {"NOT_ALLOWED"}


def test_whoever_started_the_run_hears_so_at_every_door(doors: Doors, asked: Wait) -> None:
    demand(asked, starter_may_decide=False)
    assert answers(doors, Said(asked, OPERATOR)) == {"SELF_APPROVAL"}
    assert answers(doors, Said(asked, OPERATOR, "REJECT")) == {"SELF_APPROVAL"}
    Tenant.objects.filter(id=doors.tenant.id).update(self_approval=False)
    demand(asked, starter_may_decide=True)
    try:
        assert answers(doors, Said(asked, OPERATOR)) == {"SELF_APPROVAL"}
    finally:
        Tenant.objects.filter(id=doors.tenant.id).update(self_approval=True)


def test_time_password_and_what_moved_are_the_same_at_every_door(doors: Doors, asked: Wait) -> None:
    assert answers(doors, Said(asked, APPROVER, revision=1)) == {"STALE_REVISION"}
    demand(asked, dwell_seconds=3600)
    assert answers(doors, Said(asked, APPROVER)) == {"DWELL"}
    demand(asked, dwell_seconds=0, step_up=True)
    assert answers(doors, Said(asked, APPROVER)) == {"STEP_UP"}
    demand(asked, step_up=False, required_group="funds")
    assert answers(doors, Said(asked, APPROVER)) == {"NOT_ALLOWED"}
    demand(asked, required_group="", quorum=2)
    assert by_api(doors, Said(asked, APPROVER)) == ""
    assert answers(doors, Said(asked, APPROVER)) == {"ALREADY_VOTED"}
    pass_deadline(asked)
    assert answers(doors, Said(asked, OPERATOR)) == {"EXPIRED"}


def test_a_part_that_was_not_shown_is_refused_at_every_door_that_can_say_so(doors: Doors, asked: Wait) -> None:
    said = Said(asked, APPROVER, not_shown=("$.title",))
    assert {door(doors, said) for door in (by_api, by_command, by_batch)} == {"INCOMPLETE_VIEW"}


def test_changed_arguments_are_refused_at_every_door(doors: Doors, asked: Wait) -> None:
    sql_past_triggers("UPDATE receipts_toolcall SET args = args || '\\x00' WHERE id = %s", asked.tool_call_id)
    assert answers(doors, Said(asked, APPROVER)) == {"ARGS_CHANGED"}


@pytest.mark.parametrize("first", DOORS)
def test_one_decision_stands_and_every_door_hears_of_it(doors: Doors, asked: Wait, first: Any) -> None:
    assert first(doors, Said(asked, APPROVER)) == ""
    assert answers(doors, Said(asked, OPERATOR, "REJECT")) == {"ALREADY_DECIDED"}
    assert Decision.objects.filter(wait=asked).count() == 1


@pytest.mark.parametrize("verdict", ["", "approve", "ANSWER", "MAYBE"])
def test_a_batch_whose_verdict_is_none_rejects_nothing(doors: Doors, asked: Wait, verdict: str) -> None:
    seen = f"{asked.checkpoint_revision}:{asked.checkpoint_digest}:{asked.args_digest}"
    body = {"wait": str(asked.id), f"seen-{asked.id}": seen, "verdict": verdict, "reason": "I read it"}
    client = Client()
    client.force_login(User.objects.get(username=OPERATOR))
    page = client.post("/inbox/batch/", body)
    assert page.status_code == 400 and "A decision is either approve or reject." in page.content.decode()
    assert Wait.objects.get(id=asked.id).status == "OPEN"


def test_a_goal_and_a_pause_that_came_since_are_left_alone_at_every_door(doors: Doors) -> None:
    """Two people at one run: what the second one means was drawn before the first one acted."""
    run, who = doors.waiting().run_id, ("--as", OPERATOR, "--json")
    client, said = Client(), {"reason": "I read it"}
    client.force_login(User.objects.get(username=OPERATOR))
    assert doors.api("POST", f"/runs/{run}/goal/", {"goal": "Only compare.", **said}).status_code == 200
    page = client.post(f"/runs/{run}/goal/", {"goal": "Publish it.", "version": "1", **said}).content.decode()
    assert CODE.findall(page) == ["GOAL_MOVED"] and "Publish it.</textarea>" in page and "Only compare." in page
    late = doors.api("POST", f"/runs/{run}/goal/", {"goal": "Publish it.", "version": 1, **said})
    typed = manage("runs", "revise-goal", run, "--goal", "P", "--seen-version", "1", "--reason", "late", *who)
    assert (late.json()["code"], typed.json["error"]["code"]) == ("GOAL_MOVED", "GOAL_MOVED")
    assert doors.api("POST", f"/runs/{run}/pause/", said).status_code == 200
    page = client.post(f"/runs/{run}/retry/", {"pause": "", **said}).content.decode()
    late = doors.api("POST", f"/runs/{run}/resume/", {"pause": None, **said})
    typed = manage("runs", "resume", run, "--pause", uuid4(), "--reason", "late", *who)
    assert CODE.findall(page) == ["PAUSED_SINCE"]
    assert (late.json()["code"], typed.json["error"]["code"]) == ("PAUSED_SINCE", "PAUSED_SINCE")
    assert Run.objects.get(id=run).status == "HELD"
