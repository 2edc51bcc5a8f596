"""Masking, walked: values are planted in marked arguments, in what the model said and in what tools answered, and every
route, socket and command is asked for them by people of every role.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from django.test import override_settings

from accounts.models import AuditEvent, Notice
from accounts.states import Role
from approvals.models import Wait
from approvals.selectors import policy_number
from approvals.services import PolicyActivated, PolicySaved, Seen, policy_activate, policy_save
from approvals.states import DecisionVerdict
from checkpoints.models import Head
from receipts.models import ToolCall
from runs.models import Run
from runtime.contracts import ToolOutcome, ToolUnknown
from runtime.loop import drive
from runtime.policy import IN_FORCE
from runtime.registry import agents
from runtime.services import Started, StartRequest, run_start, wait_decide
from tests.agents import AGENTS
from tests.doors.asking import decision
from tests.doors.test_access import (
    GUARDED,
    SPOKEN,
    ask,
    browser,
    methods,
)
from tests.doors.things import Things
from tests.doors.world import OPERATOR, Doors, manage, person
from tests.scripted import SCRIPT, calls, done

NUMBER, NAME, CENTS, NOTE = "DE89370400440532013000", "Rosalind Quenby", 4812937, "for leaving quietly"
PLANTED = (NUMBER, NAME, str(CENTS), NOTE)
ECHO = f"Paid {CENTS} to {NAME}, {NUMBER}: {NOTE}"
POLICY = """
[[mask]]
tools = ["pa*"]
arguments = ["note"]

[[rule]]
name = "people are asked about payments"
tools = ["pay"]
then = "ask"
batch = true
risk = "low"
"""
OPENED = {"wait", "wait-amend", "call", "api:wait", "api:call"}  # the doors of one call, where who decides is shown it


def pay(label: str) -> Any:
    payees = [{"name": NAME, "country": "DE"}, {"name": f"{NAME} senior", "country": "FR"}]
    given = {"label": label, "number": NUMBER, "cents": CENTS, "payees": payees, "note": NOTE}
    return calls(("pay", given), text=f"I will pay. {ECHO}")


@pytest.fixture(scope="module")
def planted(things: Things, doors: Doors) -> Iterator[dict[str, Things]]:
    """Runs of an agent that pays: one that waits, one whose outcome nobody knows, one that is over; by that name."""
    with override_settings(AGENTS=["runtime.agents.fund_comparison.FundComparison", *AGENTS]):
        agents.cache_clear()
        before = _govern(POLICY)
        try:
            yield {
                "waiting": _seen(things, _run(pay("named"))),
                "unknown": _seen(things, _unknown()),
                "over": _seen(things, _over()),
            }
        finally:
            _in_force(before)
            SCRIPT.clear()
    agents.cache_clear()


def _govern(text: str) -> int:
    by = person("only-governance")
    before = policy_number(by.tenant_id)
    saved = policy_save(actor=by, text=text, summary="masks the note of payments")
    assert isinstance(saved, PolicySaved), saved.sentence
    _in_force(saved.number)
    return before


def _in_force(number: int) -> None:
    by = person("only-governance")
    done = policy_activate(actor=by, number=number, seen=policy_number(by.tenant_id), reason="for a walk")
    assert isinstance(done, PolicyActivated), done.sentence
    IN_FORCE.clear()


def _run(*turns: Any, run_id: Any = None) -> Any:
    SCRIPT.clear()
    SCRIPT.tell(*turns)
    outcome = run_start(actor=person(OPERATOR), wanted=StartRequest("paying", {}))
    assert isinstance(outcome, Started), outcome
    drive(outcome.run_id)
    return outcome.run_id


def _approved(run_id: Any) -> Any:
    wait = Wait.objects.get(run_id=run_id, status="OPEN")
    shown = manage("waits", "show", wait.id, "--as", "only-approver")
    assert NUMBER in shown.out
    seen = Seen(wait.checkpoint_revision, wait.checkpoint_digest, wait.args_digest)
    wait_decide(actor=person("only-approver"), wait_id=wait.id, verdict=DecisionVerdict.APPROVE, seen=seen, reason="ok")
    drive(run_id)
    return run_id


def _unknown() -> Any:
    run_id = _run(pay("lost"), done())
    SCRIPT.do("lost", ToolUnknown(f"no answer to {ECHO}"))
    assert ToolCall.objects.get(run_id=_approved(run_id)).status == "UNCERTAIN"
    return run_id


def _over() -> Any:
    wrong = calls(("pay", {"label": "wrong", "number": [NUMBER], "cents": NAME}))
    run_id = _run(wrong, pay("over"), done())
    SCRIPT.do("over", ToolOutcome({"said": ECHO, NUMBER: CENTS}, external_ref=NUMBER, target=NAME, remark=ECHO))
    assert Run.objects.get(id=_approved(run_id)).status == "COMPLETED"
    return run_id


def _seen(things: Things, run_id: Any) -> Things:
    """The objects of a walk, with this run and what is in it in the place of others."""
    call, revision = ToolCall.objects.get(run_id=run_id), Head.objects.get(run_id=run_id).revision
    named = {
        **things.named,
        "run": {"id": run_id},
        "checkpoint": {"id": run_id, "revision": revision},
        "difference": {"id": run_id, "revision": 1, "other": revision},
        "wait": {"id": Wait.objects.filter(tool_call=call).latest("opened_at").id},
        "call": {"id": call.id},
    }
    return replace(things, named=named)


def _leaked(text: str) -> list[str]:
    return [value for value in PLANTED if value in text or json.dumps(value)[1:-1] in text]


def _body(answer: Any) -> str:
    """What an answer says, whatever it is: a page, a record, a file."""
    body = b"".join(answer.streaming_content) if answer.streaming else answer.content
    return body.decode(errors="replace")


STATES = ["waiting", "unknown", "over"]


WALKED = [  # viewers everywhere, and whoever sees more on the doors of one call; the others where there is time
    *((Role.VIEWER, state) for state in STATES),
    *((Role.RECONCILER, "unknown"), (Role.APPROVER, "waiting")),
    *(
        pytest.param(role, state, marks=pytest.mark.matrix)
        for role, state in (
            *((Role.OPERATOR, "over"), (Role.AUDITOR, "over"), (Role.RECONCILER, "waiting")),
            *((Role.APPROVER, "over"), (Role.GOVERNANCE, "over")),
        )
    ),
]


def may_see(role: Role, state: str) -> bool:
    return role in (Role.APPROVER, Role.GOVERNANCE) or (role, state) == (Role.RECONCILER, "unknown")


@pytest.mark.parametrize(("role", "state"), WALKED)
def test_no_route_shows_what_is_marked_to_who_may_not_see_it(
    doors: Doors, planted: dict[str, Things], role: Role, state: str
) -> None:
    sees = OPENED if may_see(role, state) else set()
    for name in GUARDED:
        if "GET" not in methods(name) or name in sees:
            continue
        answer = ask(doors, planted[state], name, "GET", f"only-{role}")
        assert not _leaked(_body(answer)), name


@pytest.mark.parametrize(("role", "state"), WALKED)
def test_no_command_shows_what_is_marked_to_who_may_not_see_it(
    planted: dict[str, Things], role: Role, state: str
) -> None:
    for name, verb in SPOKEN.items():
        if may_see(role, state) and verb.named in {"wait", "call"}:
            continue
        for form in ((), ("--json",)):
            ran = manage(*name, *planted[state].arguments(verb.named), *verb.rest, *form, "--as", f"only-{role}")
            assert not _leaked(ran.out + ran.err), (name, form)


@pytest.mark.parametrize("list", ["transitions", "turns", "tasks", "wakeups", "refusals", "saves", "lapses"])
@pytest.mark.parametrize("state", STATES)
def test_no_list_of_the_ledger_shows_what_is_marked(planted: dict[str, Things], state: str, list: str) -> None:
    ran = manage("runs", "ledger", *planted[state].arguments("run"), list, "--json", "--as", OPERATOR)
    assert ran.code == 0 and not _leaked(ran.out)


@pytest.mark.parametrize("kind", ["wait", "call", "run"])
@pytest.mark.parametrize("state", STATES)
def test_panels_and_previews_show_nothing_that_is_marked(planted: dict[str, Things], state: str, kind: str) -> None:
    client, id = browser(OPERATOR), planted[state].named[kind]["id"]
    for path in (f"/inbox/?item={kind}-{id}", f"/inbox/batch/?wait={id}"):
        assert not _leaked(client.get(path).content.decode())


def test_what_is_stored_to_be_told_holds_nothing_that_is_marked(planted: dict[str, Things]) -> None:
    assert not _leaked(json.dumps(list(Notice.objects.values_list("facts", flat=True))))
    rows = AuditEvent.objects.values_list("detail", flat=True)
    assert not _leaked(json.dumps(list(rows)))
    steps = ToolCall.objects.filter(tool="pay").values_list("step_name", "external_ref", "error")
    assert not _leaked(json.dumps(list(steps)))


@pytest.mark.parametrize("door", ["page", "api", "command"])
def test_who_may_decide_sees_it_on_the_door_of_the_wait_and_of_the_call(
    doors: Doors, planted: dict[str, Things], door: str
) -> None:
    thing = planted["waiting"]
    for kind in ("wait", "call"):
        if door == "command":
            text = manage(f"{kind}s", "show", *thing.arguments(kind), "--json", "--as", "only-approver").out
        else:
            text = ask(doors, thing, kind if door == "page" else f"api:{kind}", "GET", "only-approver").content.decode()
        assert sorted(_leaked(text)) == sorted(PLANTED)


def test_a_masked_value_says_its_type_its_length_and_a_digest_that_equal_values_share(
    doors: Doors, planted: dict[str, Things]
) -> None:
    first = ask(doors, planted["waiting"], "api:call", "GET", "only-viewer").json()
    second = ask(doors, planted["over"], "api:call", "GET", "only-viewer").json()
    assert first["masked"] == ["cents", "note", "number", "payees[0].name", "payees[1].name"]
    assert first["arguments"]["number"].startswith(f"masked text of {len(NUMBER)} characters, digest ")
    assert first["arguments"]["number"] == second["arguments"]["number"]
    assert first["arguments"]["cents"].startswith("masked number of 7 characters, digest ")
    names = [payee["name"] for payee in first["arguments"]["payees"]]
    assert names[0] != names[1] and [payee["country"] for payee in first["arguments"]["payees"]] == ["DE", "FR"]
    assert second["result"]["value"] == {"said": "Paid masked to masked, masked: masked", "masked": "masked"}


def test_looking_at_an_audited_field_is_recorded_once_a_quarter_of_an_hour(
    doors: Doors, planted: dict[str, Things]
) -> None:
    call = planted["unknown"].named["call"]["id"]
    seen = AuditEvent.objects.filter(action="arguments.seen", object_id=str(call), actor="person:only-reconciler")
    for name in ("api:call", "call", "api:calls"):
        ask(doors, planted["unknown"], name, "GET", "only-reconciler")
    (event,) = seen
    assert event.detail["fields"] == ["number"] and event.object_type == "call"
    ask(doors, planted["unknown"], "api:call", "GET", "only-viewer")
    assert not AuditEvent.objects.filter(action="arguments.seen", actor="person:only-viewer").exists()


def test_nobody_approves_what_they_were_not_shown(doors: Doors, planted: dict[str, Things]) -> None:
    wait = Wait.objects.get(id=planted["waiting"].named["wait"]["id"])
    item = {name: value for name, value in decision(wait).items() if name not in ("verdict", "reason")}
    body = {"verdict": "APPROVE", "reason": "fine", "waits": [{"wait": str(wait.id), **item}]}
    (answer,) = doors.api("POST", "/waits/decide/", body).json()
    assert (answer["outcome"], answer["code"]) == ("REFUSED", "INCOMPLETE_VIEW") and "number" in answer["detail"]
    straight = doors.api("POST", f"/waits/{wait.id}/decide/", decision(wait))
    assert straight.json()["code"] == "INCOMPLETE_VIEW"
    page = browser(OPERATOR).get("/inbox/batch/", {"wait": str(wait.id)}).content.decode()
    assert "Part of its arguments is masked here." in page
    assert Wait.objects.get(id=wait.id).status == "OPEN"


def test_a_policy_shows_a_field_to_a_group_only(doors: Doors, planted: dict[str, Things]) -> None:
    kept = policy_number(doors.tenant.id)
    _govern(POLICY.replace('arguments = ["note"]', 'arguments = ["note", "label"]\nshown_to = "group:payroll"'))
    try:
        thing = planted["waiting"]
        shown = ask(doors, thing, "api:wait", "GET", "only-approver").json()
        assert shown["masked"] == ["label", "note"] and shown["arguments"]["number"] == NUMBER
        page = ask(doors, thing, "wait", "GET", "only-approver").content.decode()
        assert "Part of the arguments is masked for you" in page and NOTE not in page
    finally:
        _in_force(kept)
