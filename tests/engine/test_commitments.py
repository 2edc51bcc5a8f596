"""Constraints and assumptions: accepted at the start with their source, carried, held by policy, withdrawn by a person."""

from dataclasses import replace
from importlib import import_module
from typing import Any
from uuid import UUID

import pytest
from django.db import DatabaseError

from accounts.errors import Invalid, NotAllowed, NotFound
from approvals.errors import GroundWithdrawn
from approvals.models import Wait
from approvals.services import Decided
from checkpoints.errors import CommitmentGone
from checkpoints.models import Checkpoint, Commitment, Intent
from checkpoints.selectors import load_head
from receipts.models import ModelCall
from runs.errors import KeyReused, RunEnded, RunHeldByWorker
from runs.models import Refusal, Wakeup
from runtime.contracts import Constraint, ToolRetryable
from runtime.loop import drive
from runtime.registry import agents
from runtime.services import (
    GoalRevised,
    Started,
    StartRequest,
    Terms,
    Withdrawn,
    commitment_withdraw,
    run_bind,
    run_start,
)
from runtime.tasks import sweep
from tests.agents import Bound
from tests.engine.engine import At, Engine, call_named, open_wait, people, run_now, sql
from tests.engine.races import Aside, gate_at, together
from tests.scripted import SCRIPT, calls, went_well

TERMS = Terms(constraints=("Read only on prod.",), assumptions=("The fund is open.",), denied=("note",))


def start(engine: Engine, terms: Terms = TERMS, *, agent: str = "told", key: str = "") -> Any:
    wanted = StartRequest(agent, {}, terms=terms, **({"key": key} if key else {}))
    return run_start(actor=engine.person("olga"), wanted=wanted)


def started(engine: Engine, *answers: Any, terms: Terms = TERMS, agent: str = "told") -> UUID:
    SCRIPT.tell(*answers)
    outcome = start(engine, terms, agent=agent)
    assert isinstance(outcome, Started), outcome
    return outcome.run_id


def withdraw(engine: Engine, run_id: UUID, by: str = "otto", reason: str = "it is not so any more") -> Any:
    commitment = Commitment.objects.filter(run_id=run_id).order_by("accepted_at", "id")[0]
    return commitment_withdraw(actor=engine.person(by), commitment_id=commitment.id, reason=reason)


def refusals(run_id: UUID) -> list[str]:
    return list(Refusal.objects.filter(run_id=run_id).order_by("id").values_list("kind", flat=True))


# ── accepted ─────────────────────────────────────────────────────────────────


def test_what_a_run_accepts_is_carried_with_its_source_and_covered_by_the_digest(engine: Engine) -> None:
    """C-002, C-011, C-013."""
    run_id = started(engine, agent="bound")
    contract = load_head(run_now(run_id)).snapshot.contract
    declared, added, denial = contract.constraints
    assert (declared.statement, declared.source_kind, declared.source_ref, declared.source_version) == (
        "Send no typed call.",
        "AGENT",
        "bound",
        "1",
    )
    assert (added.statement, added.source_kind, added.source_ref) == (
        "Read only on prod.",
        "PERSON",
        "person:olga-north",
    )
    assert (denial.statement, denial.denies, denial.accepted_revision) == ("Do not call note.", ("note",), 1)
    assert [term.statement for term in contract.assumptions] == ["The wiki is up.", "The fund is open."]
    changed = load_head(run_now(run_id)).snapshot
    other = changed.model_copy(
        update={"contract": contract.model_copy(update={"constraints": contract.constraints[1:]})}
    )
    assert other.body() != changed.body()
    drive(run_id)
    assert load_head(run_now(run_id)).snapshot.contract.terms == contract.terms


def test_the_model_is_told_what_binds_the_run(engine: Engine) -> None:
    drive(started(engine))
    assert SCRIPT.requests[0].constraints == ("Read only on prod.", "Do not call note.")
    assert SCRIPT.requests[0].assumptions == ("The fund is open.",)
    bare = started(engine, terms=Terms())
    drive(bare)
    assert len(set(ModelCall.objects.values_list("request_digest", flat=True))) == 2


@pytest.mark.parametrize(
    ("terms", "field"),
    [
        (Terms(constraints=(" ",)), "constraint"),
        (Terms(assumptions=("x" * 2001,)), "assumption"),
        (Terms(constraints=("a",) * 51), "constraint"),
        (Terms(denied=("nothing_like_it",)), "deny"),
    ],
)
def test_terms_that_can_not_be_kept_are_refused_by_their_field(engine: Engine, terms: Terms, field: str) -> None:
    outcome = start(engine, terms)
    assert isinstance(outcome, Invalid)
    assert outcome.facts["field"] == field
    assert not Commitment.objects.exists()


def test_the_same_key_with_other_terms_is_refused(engine: Engine) -> None:
    first = start(engine, key="k")
    assert start(engine, key="k") == Started(first.run_id, new=False)
    assert isinstance(start(engine, Terms(), key="k"), KeyReused)


# ── held by policy ───────────────────────────────────────────────────────────


@pytest.mark.parametrize("denied", ["note", "look", "once", "READ_ONLY", "NON_IDEMPOTENT"])
def test_a_carried_constraint_denies_the_call_that_it_names(engine: Engine, denied: str) -> None:
    """C-004, whatever is sent in the turn's own commit, after it, or after an approval."""
    tool = {"READ_ONLY": "look", "NON_IDEMPOTENT": "once"}.get(denied, denied)
    run_id = started(engine, calls((tool, "a")), terms=Terms(denied=(denied,)))
    drive(run_id)
    call = call_named(run_id, "a")
    assert (call.status, SCRIPT.labels(tool), run_now(run_id).status) == ("DENIED", [], "COMPLETED")
    assert "the run accepted the constraint" in call.error
    assert call.policy_decisions.get().outcome == "DENY"


# ── withdrawn ────────────────────────────────────────────────────────────────


def test_a_run_that_waits_is_held_when_what_it_rests_on_is_withdrawn(engine: Engine) -> None:
    """C-029: there is no valid continuation, and no decision on it."""
    run_id = started(engine, calls(("once", "a")))
    drive(run_id)
    wait = open_wait(run_id)
    before = Checkpoint.objects.filter(run_id=run_id).count()
    assert isinstance(withdraw(engine, run_id), Withdrawn)
    assert (run_now(run_id).status, engine.hints[-1]) == ("QUEUED", run_id)
    refused = engine.decide(wait)
    assert isinstance(refused, GroundWithdrawn)
    assert "“Read only on prod.”" in refused.sentence
    drive(run_id)
    run = run_now(run_id)
    wait.refresh_from_db()
    assert (run.status, run.hold_reason, wait.status) == ("HELD", "RESUME_REFUSED", "INVALIDATED")
    assert run.hold_detail.startswith("WITHDRAWN: the constraint “Read only on prod.” was withdrawn by otto-north")
    assert list(Wakeup.objects.filter(run_id=run_id).values_list("cause", "status")) == [("WITHDRAWN", "REFUSED")]
    assert (refusals(run_id), SCRIPT.labels("once")) == (["WITHDRAWN"], [])
    assert Checkpoint.objects.filter(run_id=run_id).count() == before
    engine.resume(run_id)
    drive(run_id)
    assert (run_now(run_id).status, refusals(run_id)) == ("HELD", ["WITHDRAWN", "WITHDRAWN"])


def test_an_approval_that_was_given_before_is_not_used(engine: Engine) -> None:
    run_id = started(engine, calls(("once", "a")))
    drive(run_id)
    wait = open_wait(run_id)
    engine.approve(run_id)
    withdraw(engine, run_id)
    drive(run_id)
    wait.refresh_from_db()
    assert (run_now(run_id).status, wait.status, SCRIPT.labels("once")) == ("HELD", "INVALIDATED", [])
    assert call_named(run_id, "a").status == "AWAITING_APPROVAL"


def test_a_withdrawal_after_the_check_and_before_the_commit_that_sends_is_seen_by_it(
    engine: Engine, at_point: At
) -> None:
    """Ruling 4: the guards are asked inside the commit that consumes the wait."""
    run_id = started(engine, calls(("once", "a")))
    drive(run_id)
    engine.approve(run_id)
    at_point("before_attempt_commit", lambda: _done(engine, run_id))
    drive(run_id)
    assert (SCRIPT.labels("once"), run_now(run_id).status, refusals(run_id)) == ([], "HELD", ["WITHDRAWN"])


def _done(engine: Engine, run_id: UUID) -> None:
    assert isinstance(withdraw(engine, run_id), Withdrawn)


def test_a_withdrawal_waits_for_the_commit_that_relies_on_it(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = started(engine, calls(("once", "a")))
    drive(run_id)
    engine.approve(run_id)
    gate = gate_at(monkeypatch, import_module("runtime.loop.dispatch"), "prepare_effects")
    worker = Aside(lambda: drive(run_id))
    gate.wait_reached()
    act = Aside(lambda: withdraw(engine, run_id))
    act.wait_blocked()
    gate.open()
    worker.result()
    assert isinstance(act.result(), Withdrawn)
    assert SCRIPT.labels("once") == ["a"]


def test_a_run_does_not_complete_on_withdrawn_ground(engine: Engine) -> None:
    run_id = started(engine, calls(("look", "a")), terms=Terms(assumptions=("It rains.",)))

    def meanwhile(_: Any) -> Any:
        _done(engine, run_id)
        return went_well("a")

    SCRIPT.do("a", meanwhile)
    drive(run_id)
    assert (run_now(run_id).status, refusals(run_id)) == ("HELD", ["WITHDRAWN"])


def test_a_call_with_an_effect_is_not_tried_again_on_withdrawn_ground(engine: Engine) -> None:
    run_id = started(engine, calls(("again", "a")), terms=Terms(assumptions=("It rains.",)))

    def not_now(_: Any) -> Any:
        _done(engine, run_id)
        raise ToolRetryable("not now")

    SCRIPT.do("a", not_now)
    drive(run_id)
    engine.approve(run_id)
    drive(run_id)
    assert (run_now(run_id).hold_reason, len(SCRIPT.sent)) == ("RESUME_REFUSED", 1)
    assert call_named(run_id, "a").status == "RETRY_WAIT"


def test_a_withdrawal_whose_hint_is_lost_is_heard_by_the_sweep(engine: Engine) -> None:
    run_id = started(engine, calls(("once", "a")))
    drive(run_id)
    withdraw(engine, run_id)
    engine.hints.clear()
    sweep()
    assert engine.hints == [run_id]


def test_it_is_withdrawn_once_by_whoever_may_with_a_reason(engine: Engine, wait: Wait) -> None:
    run_id = started(engine)
    first = Commitment.objects.filter(run_id=run_id)[0]
    assert isinstance(withdraw(engine, run_id, by="ann"), NotAllowed)
    assert isinstance(withdraw(engine, run_id, reason=" "), Invalid)
    outcomes = together(*[lambda: withdraw(engine, run_id) for _ in range(4)])
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["CommitmentGone"] * 3 + ["Withdrawn"]
    gone = withdraw(engine, run_id)
    assert isinstance(gone, CommitmentGone)
    assert "by otto-north" in gone.sentence
    with pytest.raises(DatabaseError, match="Invalid transition"):
        sql("UPDATE checkpoints_commitment SET status = 'LIVE' WHERE status = 'WITHDRAWN'")
    with pytest.raises(DatabaseError, match="Cannot update"):
        sql("UPDATE checkpoints_commitment SET statement = 'else' WHERE id = %s", first.id)
    acts = [act for act in engine.audited() if act[0].startswith("commitment")]
    assert ("commitment.withdraw", "person:otto", None) in acts
    assert ("commitment.withdraw.refused", "person:ann", "NOT_ALLOWED") in acts
    stranger = Engine(people("south")).person("olga")
    with pytest.raises(NotFound):
        commitment_withdraw(actor=stranger, commitment_id=first.id, reason="mine")


def test_an_ended_run_keeps_its_record_of_it(engine: Engine) -> None:
    run_id = started(engine)
    drive(run_id)
    assert isinstance(withdraw(engine, run_id), Withdrawn)
    assert (run_now(run_id).status, Wakeup.objects.filter(run_id=run_id).count()) == ("COMPLETED", 0)
    assert isinstance(engine.decide(open_wait(engine.run(calls(("once", "b"))))), Decided)


# ── carried and declared ─────────────────────────────────────────────────────


def redeclare(monkeypatch: pytest.MonkeyPatch, *constraints: Constraint) -> None:
    """Have the agent declare other constraints from now on, as a changed registration would."""
    monkeypatch.setattr(Bound, "spec", replace(Bound.spec, constraints=constraints))
    agents.cache_clear()


def test_what_a_run_accepted_wins_over_a_widened_registration(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """C-004, C-005: the worker is dead while the constraint is dropped; the write is denied all the same."""
    typed = ("typed", {"label": "t", "day": "2026-02-28", "weights": [1.5]})
    run_id = started(engine, calls(("once", "a")), calls(typed), terms=Terms(), agent="bound")
    drive(run_id)
    redeclare(monkeypatch, Constraint("Be brief."))
    engine.approve(run_id)
    drive(run_id)
    call = call_named(run_id, "t")
    assert (call.status, SCRIPT.labels("typed"), run_now(run_id).status) == ("DENIED", [], "COMPLETED")
    refusal = Refusal.objects.get(run_id=run_id)
    assert (refusal.kind, refusal.detail) == ("CONFIG_DRIFT", {"carried": 1, "declared": 1})


def test_the_same_difference_is_said_once_and_another_one_again(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = started(engine, calls(("once", "a")), calls(("once", "b")), terms=Terms(), agent="bound")
    drive(run_id)
    redeclare(monkeypatch)
    engine.approve(run_id)
    drive(run_id)
    engine.approve(run_id)
    redeclare(monkeypatch, Constraint("Be brief."))
    drive(run_id)
    assert refusals(run_id) == ["CONFIG_DRIFT", "CONFIG_DRIFT"]
    assert len(set(Refusal.objects.values_list("evidence_digest", flat=True))) == 2


def test_terms_of_a_person_are_no_drift(engine: Engine) -> None:
    drive(started(engine, agent="bound"))
    assert not Refusal.objects.exists()


# ── bound to more under way ──────────────────────────────────────────────────


def bind(engine: Engine, run_id: UUID, terms: Terms = TERMS, by: str = "otto", reason: str = "it came up") -> Any:
    return run_bind(actor=engine.person(by), run_id=run_id, terms=terms, reason=reason)


def test_a_run_under_way_is_bound_to_more_as_a_version_of_its_contract(engine: Engine) -> None:
    """C-013: accepted at the revision at which it was accepted; the wait is asked again there."""
    run_id = engine.run(calls(("once", "a")), calls(("note", "b")))
    wait = open_wait(run_id)
    before = load_head(run_now(run_id))
    outcome = bind(engine, run_id)
    assert outcome == GoalRevised(version=2, revision=before.revision + 1, superseded=1)
    contract = load_head(run_now(run_id)).snapshot.contract
    assert (contract.version, contract.goal) == (2, before.snapshot.contract.goal)
    added, denial = contract.constraints
    assert (added.statement, added.source_ref, added.source_version) == (
        "Read only on prod.",
        "person:otto-north",
        "contract-2",
    )
    assert (denial.accepted_revision, contract.assumptions[0].statement) == (before.revision + 1, "The fund is open.")
    wait.refresh_from_db()
    assert (wait.status, wait.status_reason) == ("SUPERSEDED", "the run was bound to more")
    assert Intent.objects.get(run_id=run_id, version=2).reason == "it came up"
    assert ("run.bind", "person:otto", None) in engine.audited()
    drive(run_id)
    engine.approve(run_id)
    drive(run_id)
    assert (call_named(run_id, "b").status, run_now(run_id).status) == ("DENIED", "COMPLETED")
    request = SCRIPT.requests[-1]
    assert request.constraints == ("Read only on prod.", "Do not call note.")
    assert any("Read only on prod. (constraint)" in message.get("text", "") for message in request.history)


def test_a_run_is_not_bound_without_words_by_nobody_who_may_or_after_its_end(engine: Engine, wait: Wait) -> None:
    assert isinstance(bind(engine, wait.run_id, Terms()), Invalid)
    assert isinstance(bind(engine, wait.run_id, Terms(denied=("unheard_of",))), Invalid)
    assert isinstance(bind(engine, wait.run_id, by="ann"), NotAllowed)
    assert isinstance(bind(engine, wait.run_id, reason=" "), Invalid)
    with pytest.raises(NotFound):
        bind(Engine(people("south")), wait.run_id, by="olga")
    assert not Commitment.objects.exists()
    engine.stop(wait.run_id)
    assert isinstance(bind(engine, wait.run_id), RunEnded)


def test_a_run_that_is_held_by_a_worker_is_not_bound(engine: Engine) -> None:
    run_id = engine.start()
    sql("UPDATE runs_lease SET fence = 1, owner = 'w', expires_at = clock_timestamp() + interval '1 hour'")
    assert isinstance(bind(engine, run_id), RunHeldByWorker)


def test_the_key_of_a_run_that_was_bound_to_more_still_gives_it(engine: Engine) -> None:
    first = start(engine, key="k")
    bind(engine, first.run_id, Terms(assumptions=("It rains.",)))
    assert start(engine, key="k") == Started(first.run_id, new=False)
