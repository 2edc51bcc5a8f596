"""A tenant's policy: what it lets go, denies and asks, and what becomes of what is under way when another comes into force."""

from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Any
from uuid import UUID

import pytest
from django.db import DatabaseError, transaction
from django.db.models import Max

from accounts.errors import NotAllowed, NotFound
from approvals.errors import PolicyChanged, PolicyFaulty, PolicyInForce, PolicyMoved, ToolChanged
from approvals.models import PolicyActivation, PolicyDecision, PolicyHead, PolicyVersion, Vote, Wait
from approvals.selectors import policy_head_open, policy_number, policy_number_kept
from approvals.services import Decided, PolicyActivated, PolicySaved, policy_activate, policy_save
from receipts.models import ToolCall
from runs.canonical import digest
from runs.models import RunTransition, Wakeup
from runtime.contracts import ToolContext, ToolOutcome
from runtime.loop import drive
from runtime.services import run_pause
from runtime.tasks import sweep
from tests.agents import Told
from tests.engine.engine import At, Engine, attempts_of, call_named, open_wait, people, run_now, sql
from tests.engine.governed import activate, govern, rule
from tests.engine.races import Aside, together
from tests.scripted import SCRIPT, calls

ASK_ALL = rule("everything is asked", "ask")
LET_ONCE = rule("once may go", "allow", tools=["once"])


@pytest.fixture
def other(engine: Engine) -> Engine:
    """Another tenant of the same installation."""
    return Engine(people("south"))


def outcomes(run_id: UUID) -> list[tuple[str, str, str]]:
    """(step, outcome, version) of what policy said about the calls of a run, in the order of the calls."""
    rows = PolicyDecision.objects.filter(tool_call__run_id=run_id).order_by("tool_call__ordinal", "at")
    return [(row.tool_call.step_name, row.outcome, row.policy_version) for row in rows.select_related("tool_call")]


# ── a version that can't be read here ────────────────────────────────────────


def in_force_by_sql(engine: Engine, text: str, named: str | None = None) -> None:
    """Put a text in force that no act would save: as another installation left it, or with the digest of another text."""
    tenant = engine.tenant.id
    number = (PolicyVersion.objects.filter(tenant_id=tenant).aggregate(last=Max("number"))["last"] or 0) + 1
    said = {"digest": digest((named or text).encode()), "summary": "by hand", "saved_by": "person:nobody"}
    PolicyVersion.objects.create(tenant_id=tenant, number=number, text=text, **said)
    policy_head_open(tenant)
    PolicyHead.objects.filter(tenant_id=tenant).update(number=number)


@pytest.mark.parametrize("changed", [False, True])
def test_a_policy_that_can_not_be_read_here_lets_nothing_go(engine: Engine, changed: bool) -> None:
    if changed:
        in_force_by_sql(engine, LET_ONCE, named=ASK_ALL)
    else:
        in_force_by_sql(engine, rule("by night", "deny", hours={"from": "20:00", "to": "06:00", "zone": "Mars/Base"}))
    run_id = engine.run(calls(("once", "a"), ("look", "b")))
    assert {call_named(run_id, label).status for label in ("a", "b")} == {"DENIED"}
    assert (SCRIPT.labels("once"), SCRIPT.labels("look")) == ([], [])
    said = "its text was changed after it was saved" if changed else "there is no time zone 'Mars/Base'"
    assert said in PolicyDecision.objects.filter(tool_call__run_id=run_id)[0].rule


def test_a_version_that_can_not_be_read_here_is_not_put_in_force(engine: Engine) -> None:
    in_force_by_sql(engine, "rule = []")
    activate(engine, 0)
    done = policy_activate(actor=engine.person("gail"), number=1, seen=0, reason="once more")
    assert isinstance(done, PolicyFaulty)
    assert policy_number(engine.tenant.id) == 0


# ── what it says is what happens ─────────────────────────────────────────────


def test_a_call_that_a_rule_lets_go_is_sent_and_nobody_is_asked(engine: Engine) -> None:
    govern(engine, LET_ONCE)
    run_id = engine.run(calls(("once", "a")))
    assert run_now(run_id).status == "COMPLETED"
    assert attempts_of(call_named(run_id, "a")) == [(1, "OK", "policy:v1")]
    assert outcomes(run_id) == [("once/a", "ALLOW", "v1")]
    assert PolicyDecision.objects.get().rule == "Rule 1 of policy v1: once may go"


def test_a_read_that_a_rule_denies_is_not_sent_and_its_neighbour_is(engine: Engine) -> None:
    govern(engine, rule("no secrets are read", "deny", if_="args['label'].starts_with('secret')"))
    run_id = engine.run(calls(("look", "secret-1"), ("look", "b")))
    assert (call_named(run_id, "secret-1").status, call_named(run_id, "b").status) == ("DENIED", "SUCCEEDED")
    assert SCRIPT.labels("look") == ["b"]
    assert outcomes(run_id) == [("look/secret-1", "DENY", "v1"), ("look/b", "ALLOW", "v1")]


def test_a_read_that_a_rule_asks_about_waits_for_as_many_people_as_it_says(engine: Engine) -> None:
    govern(engine, rule("two look at it", "ask", tools=["look"], people=2, group="finance", risk="high", deadline="1h"))
    wait = open_wait(engine.run(calls(("look", "a"))))
    assert (wait.quorum, wait.required_group, wait.risk, wait.policy_version) == (2, "finance", "HIGH", "v1")
    assert 3590 < (wait.deadline - wait.opened_at).total_seconds() < 3601
    assert SCRIPT.labels("look") == []


def test_a_rule_that_can_not_be_asked_denies_and_the_model_hears_why(engine: Engine) -> None:
    govern(engine, rule("by amount", "ask", if_="args['amount'] > 3"))
    run_id = engine.run(calls(("once", "a")))
    assert call_named(run_id, "a").status == "DENIED"
    assert "there is no 'amount'" in SCRIPT.requests[-1].history[-1]["value"]["error"]


def test_hours_go_by_the_clock_of_the_database(engine: Engine) -> None:
    ((now,),) = sql("SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'HH24:MI')")
    later = sql("SELECT to_char((clock_timestamp() + interval '2 hours') AT TIME ZONE 'UTC', 'HH24:MI')")[0][0]
    before = sql("SELECT to_char((clock_timestamp() - interval '1 hour') AT TIME ZONE 'UTC', 'HH24:MI')")[0][0]
    govern(engine, rule("not now", "deny", tools=["look"], hours={"from": before, "to": later}))
    assert call_named(engine.run(calls(("look", "a"))), "a").status == "DENIED", now


def test_another_tenants_policy_is_not_asked(engine: Engine, other: Engine) -> None:
    govern(other, rule("nothing goes", "deny"))
    run_id = engine.run(calls(("look", "a")))
    assert (run_now(run_id).status, outcomes(run_id)) == ("COMPLETED", [("look/a", "ALLOW", "builtin-1")])


# ── another version comes into force ─────────────────────────────────────────


def test_a_read_of_a_run_under_way_goes_by_the_policy_that_came_meanwhile(engine: Engine) -> None:
    def tighten(_: ToolContext) -> ToolOutcome:
        govern(engine, rule("no more looking", "deny", tools=["look"]))
        return ToolOutcome({"seen": 1})

    SCRIPT.do("a", tighten)
    run_id = engine.run(calls(("look", "a")), calls(("look", "b")))
    assert outcomes(run_id) == [("look/a", "ALLOW", "builtin-1"), ("look/b", "DENY", "v1")]
    assert (SCRIPT.labels("look"), call_named(run_id, "b").attempts) == (["a"], 0)
    assert run_now(run_id).status == "COMPLETED"


def test_a_call_with_an_effect_is_not_sent_on_a_policy_that_is_over(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new policy comes after the call was ruled on and before the commit that sends it."""
    govern(engine, LET_ONCE)
    ruled = import_module("runtime.loop.route").rule_on
    with monkeypatch.context() as patch:

        def rule_then_tighten(*asked: Any) -> Any:
            said = ruled(*asked)
            patch.undo()
            govern(engine, rule("two from now on", "ask", tools=["once"], people=2))
            return said

        patch.setattr(import_module("runtime.loop.route"), "rule_on", rule_then_tighten)
        run_id = engine.run(calls(("once", "a")))
    assert (open_wait(run_id).quorum, SCRIPT.labels("once")) == (2, [])
    assert call_named(run_id, "a").attempts == 0


def test_a_wait_is_not_opened_under_a_policy_that_is_over(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    ruled = import_module("runtime.loop.route").rule_on
    with monkeypatch.context() as patch:

        def rule_then_loosen(*asked: Any) -> Any:
            said = ruled(*asked)
            patch.undo()
            govern(engine, LET_ONCE)
            return said

        patch.setattr(import_module("runtime.loop.route"), "rule_on", rule_then_loosen)
        engine.run(calls(("once", "a")))
    assert (Wait.objects.count(), SCRIPT.labels("once")) == (0, ["a"])


def test_a_new_policy_waits_for_a_dispatch_that_goes_by_the_old_one(engine: Engine, at_point: At) -> None:
    """Ruling 35: whoever goes by the policy keeps it until the commit."""
    govern(engine, LET_ONCE)
    saved = policy_save(actor=engine.person("gail"), text=ASK_ALL, summary="tighter")
    assert isinstance(saved, PolicySaved)
    aside: list[Aside] = []

    def tighten() -> None:
        aside.append(Aside(lambda: activate(engine, saved.number)))
        aside[0].wait_blocked()

    at_point("inside_dispatch_tx", tighten)
    run_id = engine.run(calls(("once", "a")))
    aside[0].result()
    assert attempts_of(call_named(run_id, "a")) == [(1, "OK", "policy:v1")]
    assert policy_number(engine.tenant.id) == 2


def test_open_waits_are_asked_anew_under_the_policy_that_came(engine: Engine, wait: Wait) -> None:
    govern(engine, rule("two from now on", "ask", tools=["once"], people=2))
    assert (Wait.objects.get(id=wait.id).status, run_now(wait.run_id).status) == ("OPEN", "WAITING")
    for verdict in ("APPROVE", "REJECT"):
        assert isinstance(engine.decide(wait, verdict), PolicyChanged)
    sweep()
    wait.refresh_from_db()
    assert (wait.status, wait.status_reason) == ("SUPERSEDED", "another version of the policy came into force")
    assert RunTransition.objects.filter(run_id=wait.run_id).latest("id").cause == "POLICY_CHANGED"
    drive(wait.run_id)
    fresh = open_wait(wait.run_id)
    assert (fresh.quorum, fresh.policy_version, fresh.tool_call_id) == (2, "v1", wait.tool_call_id)
    assert Wakeup.objects.get(wait_id=wait.id).status == "CONSUMED"
    sweep()
    assert open_wait(wait.run_id).id == fresh.id


def test_an_approval_that_was_not_used_yet_is_void_under_the_policy_that_came(engine: Engine) -> None:
    run_id = engine.run(calls(("once", "a"), ("once", "b")))
    first, second = Wait.objects.filter(run_id=run_id).order_by("tool_call__ordinal")
    engine.decide(first)
    govern(engine, ASK_ALL)
    sweep()
    for wait, status in ((first, "INVALIDATED"), (second, "SUPERSEDED")):
        assert Wait.objects.get(id=wait.id).status == status
    drive(run_id)
    assert Wait.objects.filter(run_id=run_id, status="OPEN", policy_version="v1").count() == 2
    assert SCRIPT.labels("once") == []


@pytest.mark.parametrize(("then", "status", "sent"), [("allow", "SUCCEEDED", ["a"]), ("deny", "DENIED", [])])
def test_the_policy_that_came_may_let_go_or_deny_what_people_were_asked_about(
    engine: Engine, wait: Wait, then: str, status: str, sent: list[str]
) -> None:
    govern(engine, rule("from now on", then, tools=["once"]))
    sweep()
    drive(wait.run_id)
    assert (call_named(wait.run_id, "a").status, SCRIPT.labels("once")) == (status, sent)
    assert run_now(wait.run_id).status == "COMPLETED"


def test_putting_the_built_in_policy_back_supersedes_too(engine: Engine) -> None:
    govern(engine, ASK_ALL)
    wait = open_wait(engine.run(calls(("once", "a"))))
    activate(engine, 0)
    sweep()
    drive(wait.run_id)
    assert open_wait(wait.run_id).policy_version == "builtin-1"


def test_waits_are_superseded_run_by_run_and_only_where_no_worker_holds_the_run(engine: Engine, other: Engine) -> None:
    mine, theirs = (open_wait(one.run(calls(("once", "a")))) for one in (engine, other))
    held = open_wait(engine.run(calls(("once", "b"))))
    run_pause(actor=engine.person("otto"), run_id=held.run_id, reason="not now")
    assert run_now(held.run_id).status == "HELD"
    govern(engine, ASK_ALL)
    sweep()
    statuses = [Wait.objects.get(id=one.id).status for one in (mine, theirs, held)]
    assert statuses == ["SUPERSEDED", "OPEN", "SUPERSEDED"]
    assert run_now(held.run_id).status in ("HELD", "WAITING")


def test_a_tool_that_was_redefined_takes_its_open_waits_back(
    engine: Engine, wait: Wait, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pin is gone, so the run is held until a person pins it anew; then people are asked about the tool as it is."""
    redefine(monkeypatch, "once", timeout_seconds=77.0)
    sweep()
    wait.refresh_from_db()
    assert (wait.status, wait.status_reason) == ("SUPERSEDED", "the tool once was changed after this was asked")
    drive(wait.run_id)
    run = run_now(wait.run_id)
    assert (run.status, run.hold_reason, SCRIPT.labels("once")) == ("HELD", "RESUME_REFUSED", [])
    assert run.hold_detail.startswith("PIN_UNAVAILABLE")


def test_a_tool_that_is_the_same_keeps_its_waits(engine: Engine, wait: Wait) -> None:
    sweep()
    assert Wait.objects.get(id=wait.id).status == "OPEN"


@pytest.mark.parametrize("verdict", ["APPROVE", "REJECT"])
def test_nothing_is_decided_about_a_tool_that_is_defined_anew_before_the_sweep_has_noticed(
    engine: Engine, wait: Wait, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    redefine(monkeypatch, "once", timeout_seconds=77.0)
    refused = engine.decide(wait, verdict)
    assert isinstance(refused, ToolChanged)
    assert refused.facts["tool"] == "once" and refused.facts["asked"] == wait.tool_hash != refused.facts["now"]
    assert f"{wait.opened_at:%Y-%m-%d %H:%M:%S} UTC" in refused.sentence
    assert engine.audited()[-1] == ("wait.decide.refused", "person:ann", "TOOL_CHANGED")
    assert not Vote.objects.exists() and Wait.objects.get(id=wait.id).status == "OPEN"
    monkeypatch.undo()
    assert isinstance(engine.decide(wait, verdict), Decided)


def test_a_decision_under_another_policy_says_who_put_it_in_force_and_when(engine: Engine, wait: Wait) -> None:
    govern(engine, ASK_ALL)
    refused = engine.decide(wait)
    assert isinstance(refused, PolicyChanged) and refused.facts["by"] == "gail-north"
    last = PolicyActivation.objects.latest("seq")
    assert f"gail-north put policy v1 in force at {last.at:%Y-%m-%d %H:%M:%S} UTC" in refused.sentence


def redefine(patch: pytest.MonkeyPatch, key: str, **changed: Any) -> None:
    """Let the agent that is installed have another definition of one of its tools."""
    (tool,) = [one for one in Told.spec.tools if one.key == key]
    other = type(type(tool).__name__, (type(tool),), changed)()
    patch.setattr(Told, "spec", replace(Told.spec, tools=tuple(other if t is tool else t for t in Told.spec.tools)))


# ── who may, and what is kept ────────────────────────────────────────────────


def test_only_who_governs_saves_and_activates(engine: Engine) -> None:
    for name in ("olga", "ann", "vera"):
        assert isinstance(policy_save(actor=engine.person(name), text=ASK_ALL, summary="mine"), NotAllowed)
        assert isinstance(policy_activate(actor=engine.person(name), number=0, seen=0, reason="mine"), NotAllowed)
    assert not PolicyVersion.objects.exists()
    assert [entry[0] for entry in engine.audited()] == ["policy.save.refused", "policy.activate.refused"] * 3


def test_a_faulty_text_is_refused_with_every_fault_and_nothing_is_saved(engine: Engine) -> None:
    text = rule("a", "ask", people=0) + rule("b", "maybe")
    refused = policy_save(actor=engine.person("gail"), text=text, summary="wrong")
    assert isinstance(refused, PolicyFaulty)
    assert refused.facts["count"] == 2
    assert [(fault["rule"], fault["field"], fault["line"]) for fault in refused.facts["all"]] == [
        (1, "people", 4),
        (2, "then", 7),
    ]
    assert "The first: rule 1, people, line 4" in refused.sentence
    assert not PolicyVersion.objects.exists()


def test_saving_the_newest_text_again_gives_the_version_that_is_there(engine: Engine) -> None:
    gail = engine.person("gail")
    assert policy_save(actor=gail, text=ASK_ALL, summary="one") == PolicySaved(1, new=True)
    assert policy_save(actor=gail, text=ASK_ALL, summary="again") == PolicySaved(1, new=False)
    assert policy_save(actor=gail, text=LET_ONCE, summary="two") == PolicySaved(2, new=True)
    assert policy_number(engine.tenant.id) == 0


def test_a_version_is_activated_once_and_only_by_who_saw_what_is_in_force(engine: Engine) -> None:
    govern(engine, ASK_ALL)
    gail = engine.person("gail")
    assert isinstance(policy_activate(actor=gail, number=1, seen=1, reason="again"), PolicyInForce)
    moved = policy_activate(actor=gail, number=0, seen=7, reason="back")
    assert isinstance(moved, PolicyMoved)
    assert "Policy v1 came into force meanwhile; you were looking at v7" in moved.sentence
    with pytest.raises(NotFound):
        policy_activate(actor=gail, number=9, seen=1, reason="none")
    rows = PolicyActivation.objects.order_by("seq").values_list("seq", "before", "number", "reason")
    assert list(rows) == [(1, 0, 1, "for a test")]


def test_of_two_who_activate_at_once_one_does(engine: Engine) -> None:
    gail = engine.person("gail")
    for text in (ASK_ALL, LET_ONCE):
        policy_save(actor=gail, text=text, summary="one of two")
    for _ in range(5):
        seen = policy_number(engine.tenant.id)
        numbers = [number for number in (0, 1, 2) if number != seen]
        acts = [partial(policy_activate, actor=gail, number=number, seen=seen, reason="race") for number in numbers]
        done = together(*acts)
        assert sorted(type(one).__name__ for one in done) == ["PolicyActivated", "PolicyMoved"]
        (won,) = [one for one in done if isinstance(one, PolicyActivated)]
        assert policy_number(engine.tenant.id) == won.number


def test_the_first_policy_of_a_tenant_waits_for_who_goes_by_the_built_in_one(engine: Engine) -> None:
    saved = policy_save(actor=engine.person("gail"), text=ASK_ALL, summary="first")
    assert isinstance(saved, PolicySaved)
    with transaction.atomic():
        assert policy_number_kept(engine.tenant.id) == 0
        aside = Aside(lambda: activate(engine, saved.number))
        aside.wait_blocked()
    aside.result()
    assert policy_number(engine.tenant.id) == 1


def test_versions_and_activations_are_never_changed_and_the_head_names_a_version(engine: Engine) -> None:
    govern(engine, ASK_ALL)
    for statement in (
        "UPDATE approvals_policyversion SET text = 'x'",
        "DELETE FROM approvals_policyversion",
        "UPDATE approvals_policyactivation SET reason = 'x'",
        "DELETE FROM approvals_policyhead",
        "UPDATE approvals_policyhead SET number = 9",
        "TRUNCATE approvals_policyversion",
    ):
        with pytest.raises(DatabaseError), transaction.atomic():
            sql(statement)
    assert PolicyHead.objects.get(tenant=engine.tenant).number == 1
    assert ToolCall.objects.count() == 0
