"""Admission: everything of a run or nothing, and one run per request, whoever asks how often."""

from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Any
from uuid import UUID

import pytest
from django.db import DatabaseError, transaction

from accounts.errors import Invalid, NotAllowed, Refused
from checkpoints.selectors import load_head
from runs.errors import KeyReused, ThreadBusy
from runs.models import Run
from runtime.loop import drive
from runtime.services import InputRefused, Started, StartRequest, UnknownAgent, Upload, run_start
from tests.agents import Told
from tests.engine.engine import Engine, added, counts, head_of, lease_of, people, run_now
from tests.engine.races import Aside, gate_at, terminate, together

ADMITTED = {
    "accounts_auditevent": 1,
    "checkpoints_checkpoint": 1,
    "checkpoints_head": 1,
    "checkpoints_intent": 1,
    "runs_agent": 1,
    "runs_agentversion": 1,
    "runs_allowance": 1,
    "runs_lease": 1,
    "runs_message": 1,
    "runs_run": 1,
    "runs_runtransition": 1,
    "runs_thread": 1,
}


def start(engine: Engine, by: str = "otto", **wanted: Any) -> Started | Refused:
    return run_start(actor=engine.person(by), wanted=StartRequest(**({"agent": "told", "inputs": {}} | wanted)))


def test_a_run_is_admitted_with_everything_that_it_needs(engine: Engine) -> None:
    before = counts()
    outcome = start(engine, goal=" Compare. ", title="Mine", thread="t", key="k")
    assert isinstance(outcome, Started)
    assert (outcome.new, added(before)) == (True, ADMITTED)
    run = run_now(outcome.run_id)
    assert (run.status, run.title, run.created_by, run.lineage_id) == ("QUEUED", "Mine", "person:otto-north", run.id)
    assert (lease_of(run.id).fence, lease_of(run.id).owner) == (0, None)
    assert (head_of(run.id).revision, head_of(run.id).phase) == (1, "READY_TO_DECIDE")
    assert load_head(run).snapshot.contract.goal == "Compare."
    assert engine.hints == [run.id]


def test_the_same_key_returns_the_same_run(engine: Engine) -> None:
    first = start(engine, key="k")
    before = counts()
    again = start(engine, key="k")
    assert isinstance(first, Started)
    assert again == Started(first.run_id, new=False)
    assert added(before) == {}


@pytest.mark.parametrize(
    "other",
    [
        {"goal": "Another."},
        {"agent": "promising"},
        {"inputs": {"a": Upload("a", b"x")}},
        {"recovery_policy": "SETTLE"},
    ],
)
def test_the_same_key_for_something_else_is_refused(engine: Engine, other: dict[str, Any]) -> None:
    start(engine, key="k")
    refused = start(engine, key="k", **other)
    assert isinstance(refused, KeyReused)
    assert Run.objects.count() == 1


def test_the_same_key_at_the_same_instant_returns_the_same_run(engine: Engine) -> None:
    outcomes = together(*[partial(start, engine, key="k")] * 8)
    assert all(isinstance(outcome, Started) for outcome in outcomes), outcomes
    assert Run.objects.count() == 1
    assert {outcome.run_id for outcome in outcomes if isinstance(outcome, Started)} == {Run.objects.get().id}
    assert [outcome.new for outcome in outcomes if isinstance(outcome, Started)].count(True) == 1


def test_the_same_key_in_two_tenants_makes_two_runs(engine: Engine) -> None:
    other = Engine(people("south"))
    assert {type(start(engine, key="k")), type(start(other, key="k"))} == {Started}
    assert Run.objects.count() == 2


def test_a_thread_has_one_live_run(engine: Engine) -> None:
    first = start(engine, thread="t")
    assert isinstance(first, Started)
    refused = start(engine, thread="t")
    assert isinstance(refused, ThreadBusy)
    assert str(first.run_id) in refused.sentence
    drive(first.run_id)
    assert isinstance(start(engine, thread="t"), Started)


def test_a_thread_has_one_live_run_also_at_the_same_instant(engine: Engine) -> None:
    outcomes = together(*[partial(start, engine, thread="t")] * 8)
    assert [type(outcome) for outcome in outcomes].count(Started) == 1
    assert [type(outcome) for outcome in outcomes].count(ThreadBusy) == 7


@pytest.mark.parametrize(
    ("wanted", "refused"),
    [
        ({"by": "ann"}, NotAllowed),
        ({"by": "vera"}, NotAllowed),
        ({"agent": "nobody"}, UnknownAgent),
        ({"agent": "nobody\ud800" * 100}, UnknownAgent),
        ({"goal": "x" * 4001}, Invalid),
        ({"goal": "\0"}, Invalid),
        ({"title": "x" * 201}, Invalid),
        ({"title": "\ud800"}, Invalid),
        ({"thread": "x" * 201}, Invalid),
        ({"key": ""}, Invalid),
        ({"key": "x" * 201}, Invalid),
        ({"recovery_policy": "HOPE"}, Invalid),
        ({"agent": "fund_comparison"}, InputRefused),
        (
            {"agent": "fund_comparison", "inputs": {"a": Upload("a.csv", b"\xff"), "b": Upload("b.csv", b"")}},
            InputRefused,
        ),
    ],
)
def test_a_request_that_can_not_be_used_leaves_nothing_of_a_run(
    engine: Engine, wanted: dict[str, Any], refused: type[Refused]
) -> None:
    before = counts()
    outcome = start(engine, **wanted)
    assert isinstance(outcome, refused), outcome
    assert outcome.sentence
    assert added(before) == {"accounts_auditevent": 1}
    assert engine.hints == []


@pytest.mark.parametrize("place", ["run_admit", "contract_open", "message_append", "checkpoint_first", "audit"])
def test_an_admission_that_is_cut_off_leaves_nothing(
    engine: Engine, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T40."""
    before = counts()
    with monkeypatch.context() as patch:
        gate = gate_at(patch, import_module("runtime.services.start"), place)
        cut = Aside(lambda: start(engine, key="k"))
        gate.wait_reached()
        terminate(cut.pid)
        gate.open()
        assert isinstance(cut.error(), DatabaseError)
    assert (added(before), engine.hints) == ({}, [])
    assert isinstance(start(engine, key="k"), Started)


def test_what_is_promised_of_a_crash_is_chosen_at_the_start_and_stays(engine: Engine) -> None:
    """A-084, T02: the person's choice, or what the agent declares; the database lets nobody change it."""
    chosen = start(engine, recovery_policy="SETTLE")
    assert isinstance(chosen, Started)
    assert [run_now(chosen.run_id).recovery_policy, run_now(engine.start()).recovery_policy] == [
        "SETTLE",
        "RESUME_IN_PLACE",
    ]
    with pytest.raises(DatabaseError, match="Cannot update rows"), transaction.atomic():
        Run.objects.filter(id=chosen.run_id).update(recovery_policy="RESUME_IN_PLACE")


def test_two_versions_of_an_agent_are_pinned_apart(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:

    def digest_of(run_id: UUID) -> str:
        return Run.objects.select_related("agent_version").get(id=run_id).agent_version.manifest_digest

    first, second = engine.start(), engine.start()
    monkeypatch.setattr(Told, "spec", replace(Told.spec, instructions="Do it differently."))
    third = engine.start()
    assert digest_of(first) == digest_of(second) != digest_of(third)
