"""Standing grants: what a person has allowed in advance, where it stands for their approval, and where it does not."""

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from django.db import DatabaseError, transaction

from accounts.errors import Invalid, NotAllowed, Refused
from accounts.models import Membership, Tenant
from approvals.errors import GrantOver, NoSuchTool
from approvals.models import Grant, GrantUse, PolicyDecision, Wait
from approvals.services import GrantGiven, GrantRevoked, grant_revoke
from runtime.contracts import ToolRetryable
from runtime.loop import drive
from runtime.services import GrantRequest, Rehearsal, policy_rehearse, tool_grant
from tests.agents import Told
from tests.engine.engine import (
    At,
    Engine,
    attempts_of,
    call_named,
    pass_retry,
    sql,
    sql_past_triggers,
)
from tests.engine.governed import govern, rule
from tests.engine.races import together
from tests.scripted import SCRIPT, calls


def give(engine: Engine, by: str = "ann", **wanted: Any) -> GrantGiven | Refused:
    asked: dict[str, Any] = {"agent": "told", "tool": "once", "hours": 2, "max_uses": 3}
    request = GrantRequest(**asked | wanted)
    return tool_grant(actor=engine.person(by), wanted=request, reason="a routine")


def given(engine: Engine, by: str = "ann", **wanted: Any) -> Grant:
    outcome = give(engine, by, **wanted)
    assert isinstance(outcome, GrantGiven), outcome
    return Grant.objects.get(id=outcome.grant_id)


def revoke(engine: Engine, grant: Grant, by: str = "abe") -> GrantRevoked | Refused:
    return grant_revoke(actor=engine.person(by), grant_id=grant.id, reason="no more")


def asks(engine: Engine, label: str = "a") -> bool:
    """Whether a new run that calls `once` waits for a person."""
    run_id = engine.run(calls(("once", label)))
    waits = Wait.objects.filter(run_id=run_id).exists()
    assert (label in SCRIPT.labels("once")) != waits
    return waits


# ── where it stands ──────────────────────────────────────────────────────────


def test_a_call_within_a_grant_is_sent_by_it_and_counted_in_that_commit(engine: Engine) -> None:
    grant = given(engine)
    run_id = engine.run(calls(("once", "a")))
    call = call_named(run_id, "a")
    assert attempts_of(call) == [(1, "OK", f"grant:{grant.id}")]
    said = PolicyDecision.objects.get(tool_call=call)
    assert (said.outcome, said.rule.startswith(f"Allowed by grant {grant.id} of ann-north. Rule 4:")) == ("ALLOW", True)
    assert GrantUse.objects.get().tool_call_id == call.id
    grant.refresh_from_db()
    assert (grant.uses, Wait.objects.count()) == (1, 0)


def test_a_grant_ends_with_its_uses(engine: Engine) -> None:
    grant = given(engine, max_uses=2)
    assert [asks(engine, label) for label in ("a", "b", "c")] == [False, False, True]
    grant.refresh_from_db()
    assert grant.uses == 2


def test_a_grant_ends_with_its_time_by_the_clock_of_the_database(engine: Engine) -> None:
    grant = given(engine)
    past = "UPDATE approvals_grant SET given_at = given_at - interval '3 h', expires_at = expires_at - interval '3 h'"
    sql_past_triggers(f"{past} WHERE id = %s", grant.id)
    assert asks(engine)


def test_a_grant_ends_when_it_is_revoked_by_anybody_who_may_decide(engine: Engine) -> None:
    grant = given(engine)
    assert revoke(engine, grant) == GrantRevoked(grant.id, 0)
    assert isinstance(revoke(engine, grant), GrantOver)
    assert asks(engine)


def test_a_grant_holds_only_while_its_condition_does(engine: Engine) -> None:
    given(engine, condition="args['label'].starts_with('safe')")
    assert [asks(engine, label) for label in ("safe-1", "odd", "safe-2")] == [False, True, False]


def test_a_condition_that_can_not_be_asked_covers_nothing(engine: Engine) -> None:
    given(engine, condition="args['amount'] < 3")
    assert asks(engine)


def test_a_grant_is_for_the_tool_as_it_was_defined(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    given(engine)
    (tool,) = [one for one in Told.spec.tools if one.key == "once"]
    changed = type("Once", (type(tool),), {"timeout_seconds": 77.0})()
    tools = tuple(changed if one is tool else one for one in Told.spec.tools)
    monkeypatch.setattr(Told, "spec", replace(Told.spec, tools=tools))
    assert asks(engine)


# ── where it does not ────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "demand",
    [{"people": 2}, {"risk": "high"}, {"step_up": True}, {"dwell": "30s"}, {"grants": False}, {"group": "finance"}],
    ids=str,
)
def test_a_grant_never_stands_for_more_than_one_plain_approval_that_its_owner_could_give(
    engine: Engine, demand: dict[str, Any]
) -> None:
    given(engine)
    govern(engine, rule("ask", "ask", tools=["once"], **demand))
    assert asks(engine)


def test_a_grant_of_a_member_of_the_group_that_is_asked_stands(engine: Engine) -> None:
    given(engine)
    govern(engine, rule("ask", "ask", tools=["once"], group="finance"))
    Membership.objects.filter(user__username="ann-north").update(groups=["finance"])
    assert not asks(engine)
    Membership.objects.filter(user__username="ann-north").update(groups=[])


def test_a_grant_does_not_stand_for_the_starter_where_the_starter_may_not_decide(engine: Engine) -> None:
    given(engine, by="olga")
    assert not asks(engine, "a")
    govern(engine, rule("four eyes", "ask", tools=["once"], starter_may_decide=False))
    assert asks(engine, "b")
    govern(engine, rule("one is enough", "ask", tools=["once"]))
    Tenant.objects.filter(id=engine.tenant.id).update(self_approval=False)
    assert asks(engine, "c")


def test_a_grant_lapses_with_the_role_of_its_owner(engine: Engine) -> None:
    given(engine)
    member = Membership.objects.get(user__username="ann-north")
    Membership.objects.filter(id=member.id).update(roles=["viewer"])
    try:
        assert asks(engine)
    finally:
        Membership.objects.filter(id=member.id).update(roles=member.roles)


def test_a_policy_that_denies_is_not_lifted_by_a_grant(engine: Engine) -> None:
    given(engine)
    govern(engine, rule("never", "deny", tools=["once"]))
    run_id = engine.run(calls(("once", "a")))
    assert (call_named(run_id, "a").status, SCRIPT.labels("once")) == ("DENIED", [])


def test_another_tenants_grant_covers_nothing(engine: Engine) -> None:
    grant = given(engine)
    elsewhere = Tenant.objects.create(slug="far", name="Far")
    sql_past_triggers("UPDATE approvals_grant SET tenant_id = %s WHERE id = %s", elsewhere.id, grant.id)
    assert asks(engine)


# ── races and retries ────────────────────────────────────────────────────────


def test_a_grant_that_is_revoked_before_the_commit_sends_nothing(engine: Engine, at_point: At) -> None:
    grant = given(engine)

    def revoke_it() -> None:
        revoke(engine, grant)

    at_point("after_turn_sealed", revoke_it)
    assert asks(engine)
    assert (GrantUse.objects.count(), SCRIPT.labels("once")) == (0, [])


def test_many_runs_at_once_use_a_grant_as_often_as_it_says(engine: Engine) -> None:
    grant = given(engine, max_uses=2)
    SCRIPT.tell(calls(("once", "a")))
    runs = [engine.start() for _ in range(5)]
    together(*[partial(drive, run_id) for run_id in runs])
    grant.refresh_from_db()
    assert (grant.uses, GrantUse.objects.count(), len(SCRIPT.labels("once"))) == (2, 2, 2)
    assert Wait.objects.filter(run_id__in=runs, status="OPEN").count() == 3


def test_a_retry_goes_by_the_grant_only_while_it_stands(engine: Engine) -> None:
    grant = given(engine)
    SCRIPT.do("a", ToolRetryable("not now", retry_after=3600))
    run_id = engine.run(calls(("once", "a")))
    assert call_named(run_id, "a").status == "RETRY_WAIT"
    revoke(engine, grant)
    pass_retry(run_id)
    drive(run_id)
    assert (call_named(run_id, "a").status, call_named(run_id, "a").attempts) == ("FAILED", 1)


# ── who may, and what is kept ────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("by", "wanted", "refused"),
    [
        ("otto", {}, NotAllowed),
        ("vera", {}, NotAllowed),
        ("gail", {}, NotAllowed),
        ("ann", {"tool": "nothing"}, NoSuchTool),
        ("ann", {"agent": "nobody"}, NoSuchTool),
        ("ann", {"hours": 0}, Invalid),
        ("ann", {"hours": 721}, Invalid),
        ("ann", {"max_uses": 0}, Invalid),
        ("ann", {"max_uses": 1001}, Invalid),
        ("ann", {"condition": "tool > 3"}, Invalid),
    ],
)
def test_a_grant_that_can_not_be_given_is_refused_and_audited(
    engine: Engine, by: str, wanted: dict[str, Any], refused: type[Refused]
) -> None:
    assert isinstance(give(engine, by, **wanted), refused)
    assert not Grant.objects.exists()
    assert [entry[0] for entry in engine.audited()] == ["grant.give.refused"]


def test_giving_and_revoking_are_audited(engine: Engine) -> None:
    revoke(engine, given(engine))
    assert [entry[:2] for entry in engine.audited()] == [("grant.give", "person:ann"), ("grant.revoke", "person:abe")]


@pytest.mark.parametrize(
    "change",
    [
        *("owner = 'person:x'", "tool = 'x'", "condition = ''||'x'", "max_uses = 9", "uses = 3", "uses = -1"),
        *("expires_at = expires_at + interval '1 day'", "revoked_at = clock_timestamp()"),
    ],
)
def test_the_scope_of_a_grant_is_frozen_and_its_uses_go_one_by_one(engine: Engine, change: str) -> None:
    grant = given(engine)
    with pytest.raises(DatabaseError), transaction.atomic():
        sql(f"UPDATE approvals_grant SET {change} WHERE id = %s", grant.id)


# ── in a dry run ─────────────────────────────────────────────────────────────

ASKED = rule("one is asked", "ask", tools=["once"])


def tried(engine: Engine, *rules: str) -> list[tuple[str, str, str]]:
    """What the policy in force and a draft of these rules say of the newest calls, by label: (label, now, draft) outcomes."""
    found = policy_rehearse(actor=engine.person("gail"), text="\n".join(rules))
    assert isinstance(found, Rehearsal), found
    return [(row.step.partition("/")[2], f"{row.now.outcome}", f"{row.draft.outcome}") for row in found.rows]


def test_a_dry_run_counts_the_grants_that_stand_now_under_both_policies(engine: Engine) -> None:
    engine.run(calls(("once", "covered"), ("once", "other")))
    grant = given(engine, condition="args['label'] == 'covered'", max_uses=1)
    assert tried(engine, ASKED) == [("other", "REQUIRE_APPROVAL", "REQUIRE_APPROVAL"), ("covered", "ALLOW", "ALLOW")]
    strict = rule("one is asked, whatever was granted", "ask", tools=["once"], grants=False)
    assert tried(engine, strict)[1] == ("covered", "ALLOW", "REQUIRE_APPROVAL")
    assert tried(engine, rule("two are asked", "ask", tools=["once"], people=2))[1][2] == "REQUIRE_APPROVAL"
    grant.refresh_from_db()
    assert grant.uses == 0
    revoke(engine, grant)
    assert tried(engine, ASKED)[1] == ("covered", "REQUIRE_APPROVAL", "REQUIRE_APPROVAL")


def test_a_dry_run_names_the_grant_by_which_a_call_would_go(engine: Engine) -> None:
    engine.run(calls(("once", "a")))
    grant = given(engine)
    found = policy_rehearse(actor=engine.person("gail"), text=ASKED)
    assert isinstance(found, Rehearsal) and not found.changed
    assert found.rows[0].draft.rule.startswith(f"Allowed by grant {grant.id} of ann-north.")
