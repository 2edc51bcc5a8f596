"""F17: a decision from a page that is out of date. It decides nothing; the newer wait stays open."""

from collections.abc import Callable
from dataclasses import replace
from uuid import UUID

import pytest

from accounts.errors import Refused
from accounts.selectors import audit_of
from approvals.errors import ArgsChanged, StaleRevision, Superseded
from approvals.models import Wait
from approvals.services import Seen
from tests.scenarios.records import Records
from tests.scenarios.world import World
from tests.waiting import wait_until

pytestmark = pytest.mark.process


def seen_of(wait: Wait) -> Seen:
    return Seen(wait.checkpoint_revision, wait.checkpoint_digest, wait.args_digest)


def refusals_audited(world: World, wait: Wait) -> list[str]:
    events = audit_of(tenant_id=world.tenant.id, object_type="wait", object_id=str(wait.id))
    return [event.detail["code"] for event in events if event.action == "wait.decide.refused"]


def wait_newer(records: Records) -> Wait:
    """Wait until the run waits again; the wait that is open."""
    wait_until(lambda: len(records.waits) == 2 and records.run.status == "WAITING", "a fresh wait is open")
    return records.waits[1]


def test_an_approval_of_what_was_superseded_decides_nothing(world: World) -> None:
    run_id, old = world.run_to_wait()
    records = Records(run_id)
    world.revise_goal(run_id, "Compare the two funds. Publish only what both files say.")
    new = wait_newer(records)
    assert [wait.status for wait in records.waits] == ["SUPERSEDED", "OPEN"]
    assert new.tool_call_id == old.tool_call_id
    assert new.checkpoint_revision > old.checkpoint_revision
    assert new.checkpoint_digest != old.checkpoint_digest
    assert records.wakeups == [("INTENT", "CONSUMED", 3)]

    refused = world.decide(old)

    assert isinstance(refused, Superseded)
    assert (refused.status, refused.code) == (409, "STALE_REVISION")
    assert str(new.id) in refused.sentence
    # The old page's revision and digest, posted to the new wait.
    assert isinstance(world.decide(new, seen=seen_of(old)), StaleRevision)
    assert_undecided(world, run_id, new)
    assert (refusals_audited(world, old), refusals_audited(world, new)) == (["STALE_REVISION"], ["STALE_REVISION"])

    world.approve(new)
    world.wait_status(run_id, "COMPLETED")
    assert [wait.status for wait in records.waits] == ["SUPERSEDED", "CONSUMED"]
    assert records.decisions == [("APPROVE", "person:operator")]
    assert world.executions(records.call("publish_report")) == 1


@pytest.mark.parametrize(
    ("stale", "refusal", "code"),
    [
        pytest.param(lambda seen: replace(seen, args_digest="0" * 64), ArgsChanged, "ARGS_CHANGED", id="arguments"),
        pytest.param(lambda seen: replace(seen, digest="0" * 64), StaleRevision, "STALE_REVISION", id="digest"),
        pytest.param(lambda seen: replace(seen, revision=3), StaleRevision, "STALE_REVISION", id="revision"),
    ],
)
def test_an_approval_of_something_else_decides_nothing(
    world: World, stale: Callable[[Seen], Seen], refusal: type[Refused], code: str
) -> None:
    run_id, wait = world.run_to_wait()
    refused = world.decide(wait, seen=stale(seen_of(wait)))
    assert isinstance(refused, refusal)
    assert (refused.status, refused.code) == (409, code)
    assert_undecided(world, run_id, wait)
    assert refusals_audited(world, wait) == [code]


def assert_undecided(world: World, run_id: UUID, wait: Wait) -> None:
    records = Records(run_id)
    wait.refresh_from_db()
    assert wait.status == "OPEN"
    assert records.decisions == []
    assert records.run.status == "WAITING"
    assert not [cause for cause, _, _ in records.wakeups if cause == "DECISION"]
    assert world.executions(records.call("publish_report")) == 0
