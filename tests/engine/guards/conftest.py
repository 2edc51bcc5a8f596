"""A completed run, and that nothing of a test stays."""

from collections.abc import Iterator
from uuid import uuid4

import pytest

from checkpoints.services import refused_save_record
from checkpoints.states import NotSaved, Trigger
from runs.services import refusal_record
from runs.states import RefusalKind
from runtime.contracts import ToolUnknown
from runtime.loop import drive
from runtime.services import Upload
from tests.engine.engine import Engine, call_named, people, run_now
from tests.engine.guards.rows import Told
from tests.engine.races import undone
from tests.scripted import SCRIPT, calls


@pytest.fixture(scope="module")
def told(shared_engine: Engine) -> Told:
    """The run asked, was approved, lost an answer, was given a verdict, and had its goal revised on the way."""
    SCRIPT.tell(calls(("look", "a")), calls(("note", "b")), calls(("post", "c")))
    SCRIPT.do("c", ToolUnknown("no answer"))
    run_id = shared_engine.start("bound", inputs={"a": Upload("a.csv", b"x")})
    drive(run_id)
    shared_engine.revise(run_id, "Do it better.")
    drive(run_id)
    shared_engine.approve(run_id)
    drive(run_id)
    shared_engine.reconcile(call_named(run_id, "c"), "EXECUTED", external_ref="post-1")
    drive(run_id)
    run = run_now(run_id)
    assert run.status == "COMPLETED"
    shared_engine.repeat(call_named(run_id, "c"))
    refusal_record(tenant_id=run.tenant_id, run_id=run_id, kind=RefusalKind.STALE_FENCE)
    refused = NotSaved(uuid4(), Trigger.CURSOR, 1, "SCHEMA", "$", "because")
    refused_save_record(refused, tenant_id=run.tenant_id, run_id=run_id, fence=1)
    shared_engine.stop(shared_engine.start())
    return Told(run, call_named(run_id, "c"))


@pytest.fixture(scope="module")
def foreign(told: Told) -> Told:
    """A run of another tenant."""
    engine = Engine(people("south"))
    run_id = engine.run(calls(("once", "x")))
    return Told(run_now(run_id), call_named(run_id, "x"))


@pytest.fixture(autouse=True)
def _nothing_stays(told: Told) -> Iterator[None]:
    with undone():
        yield
