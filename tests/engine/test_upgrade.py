"""After a deploy (F19, T03, T25): an older format is migrated, and a run is pinned anew, by a person and never by a worker."""

import json
from dataclasses import replace
from typing import Any, ClassVar
from uuid import UUID

import pytest

from accounts.errors import Invalid, NotAllowed
from accounts.models import AuditReason
from accounts.selectors import current_data_key, sealed_body
from approvals.models import Wait
from checkpoints.envelope import Contract, Snapshot, migration
from checkpoints.envelope import snapshot as envelope
from checkpoints.errors import NothingToMigrate
from checkpoints.models import Checkpoint
from checkpoints.selectors import load_snapshot, verified_body
from runs.canonical import canonical, digest
from runs.errors import AgentMissing, NothingToPin, RunEnded, RunHeldByWorker, SentUnderOldPin
from runs.leases import lease_acquire
from runs.models import Refusal, Wakeup
from runtime.contracts import ToolUnknown
from runtime.loop import drive
from runtime.registry import agents
from runtime.services import RunUnreadable, Upgraded
from tests.agents import Told
from tests.engine.engine import (
    Engine,
    added,
    attempts_of,
    call_named,
    counts,
    head_of,
    open_wait,
    run_now,
    sql_past_triggers,
)
from tests.engine.stops import causes
from tests.scripted import SCRIPT, calls, done
from tests.scripted_tools import Once


def in_older_format(run_id: UUID) -> bytes:
    """Store the head as an installation before this one would have: format 0, in which `turn_no` was named `turn`."""
    head = head_of(run_id)
    saved = Checkpoint.objects.get(run_id=run_id, revision=head.revision)
    body = json.loads(verified_body(saved))
    body["turn"] = body.pop("turn_no")
    plain = canonical(body | {"format_version": 0})
    key_id = current_data_key(saved.tenant_id)
    new, where = digest(plain), "WHERE run_id = %s AND revision = %s"
    sql_past_triggers(
        f"UPDATE checkpoints_checkpoint SET format_version = 0, encoding = 'FULL', body = %s, data_key_id = %s, digest = %s {where}",
        *(sealed_body(key_id=key_id, plain=plain), key_id, new, run_id, head.revision),
    )
    sql_past_triggers("UPDATE checkpoints_head SET digest = %s WHERE run_id = %s", new, run_id)
    for table in ("wait", "vote", "decision"):
        column = "checkpoint_digest" if table == "wait" else "seen_digest"
        sql_past_triggers(f"UPDATE approvals_{table} SET {column} = %s", new)
    return plain


def to_format_1(body: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name != "turn"} | {"turn_no": body["turn"]}


def first_revision(run_id: UUID) -> Checkpoint:
    return Checkpoint.objects.get(run_id=run_id, revision=1)


@pytest.fixture
def woken(engine: Engine) -> Wait:
    """An approved wait whose run was woken after a deploy that raised the format, and is held."""
    run_id = engine.run(calls(("once", "a")), done())
    in_older_format(run_id)
    wait = open_wait(run_id)
    engine.decide(wait)
    drive(run_id)
    return wait


# ── the format ───────────────────────────────────────────────────────────────


def test_a_woken_run_of_an_older_format_is_held_and_nothing_of_it_moves(engine: Engine, woken: Wait) -> None:
    run, head = run_now(woken.run_id), head_of(woken.run_id)
    assert (run.status, run.hold_reason) == ("HELD", "RESUME_REFUSED")
    assert "format 0, supported 1" in run.hold_detail
    assert [row.kind for row in Refusal.objects.filter(run=run)] == ["SCHEMA"]
    assert Wakeup.objects.get(wait_id=woken.id).status == "REFUSED"
    woken.refresh_from_db()
    assert woken.status == "APPROVED"
    assert (head.revision, call_named(run.id, "a").attempts) == (woken.checkpoint_revision, 0)


def test_a_runtime_that_is_rolled_back_executes_the_approved_call_once(
    engine: Engine, woken: Wait, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Older(Snapshot):
        @classmethod
        def model_validate_json(cls, json_data: str | bytes | bytearray, **_: Any) -> Any:
            body = to_format_1(json.loads(json_data))
            return Snapshot.model_validate_json(json.dumps(body | {"format_version": 1}))

    monkeypatch.setitem(envelope._PARSERS, 0, Older)
    engine.resume(woken.run_id)
    drive(woken.run_id)
    assert (run_now(woken.run_id).status, SCRIPT.labels("once")) == ("COMPLETED", ["a"])
    woken.refresh_from_db()
    assert woken.status == "CONSUMED"


def test_a_migrated_run_asks_again_at_the_new_revision(
    engine: Engine, woken: Wait, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(migration.STEPS, 0, to_format_1)
    before = head_of(woken.run_id)
    old = Checkpoint.objects.get(run_id=woken.run_id, revision=before.revision)
    agreed = json.loads(verified_body(old))["contract"]
    outcome = engine.migrate(woken.run_id)
    assert outcome == Upgraded(woken.run_id, before.revision + 1, superseded=1)
    new = Checkpoint.objects.get(run_id=woken.run_id, revision=before.revision + 1)
    assert (new.trigger, new.phase, new.format_version, new.parent_digest) == (
        *("MIGRATION", before.phase, 1, before.digest),
    )
    assert canonical(json.loads(verified_body(new))["contract"]) == canonical(agreed)
    old.refresh_from_db()
    assert (old.format_version, old.digest) == (0, before.digest)
    woken.refresh_from_db()
    assert woken.status == "INVALIDATED"
    assert (run_now(woken.run_id).status, causes(woken.run_id)[-1]) == ("QUEUED", "MIGRATION")
    assert engine.audited()[-1] == ("run.migrate", "person:otto", None)
    assert AuditReason.objects.get(event__action="run.migrate", event__object_id=str(woken.run_id)).reason
    drive(woken.run_id)
    fresh = open_wait(woken.run_id)
    assert (fresh.checkpoint_revision, fresh.checkpoint_digest) == (new.revision, new.digest)
    assert SCRIPT.labels("once") == []
    engine.decide(fresh)
    drive(woken.run_id)
    assert (run_now(woken.run_id).status, SCRIPT.labels("once")) == ("COMPLETED", ["a"])


def test_a_held_run_of_an_older_format_can_be_stopped(engine: Engine, woken: Wait) -> None:
    engine.stop(woken.run_id)
    woken.refresh_from_db()
    assert (run_now(woken.run_id).status, woken.status) == ("CANCELLED", "CANCELLED")


def loses_the_goal(body: dict[str, Any]) -> dict[str, Any]:
    return to_format_1(body) | {"contract": body["contract"] | {"goal": "Something else."}}


def forgets_the_turn(body: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name != "turn"}


@pytest.mark.parametrize(
    ("step", "found"),
    [
        (loses_the_goal, "would change what was agreed"),
        (forgets_the_turn, "leads nowhere"),
        (None, "no step leads from format 0 to 1"),
    ],
)
def test_a_migration_that_would_not_keep_the_contract_or_leads_nowhere_changes_nothing(
    engine: Engine, woken: Wait, monkeypatch: pytest.MonkeyPatch, step: Any, found: str
) -> None:
    if step:
        monkeypatch.setitem(migration.STEPS, 0, step)
    before = counts()
    refused = engine.migrate(woken.run_id)
    assert isinstance(refused, RunUnreadable) and found in refused.sentence
    assert added(before) == {"accounts_auditevent": 1}
    assert run_now(woken.run_id).status == "HELD"


def test_a_head_in_the_format_of_today_is_not_migrated(engine: Engine, wait: Wait) -> None:
    assert isinstance(engine.migrate(wait.run_id), NothingToMigrate)


# ── the pins ─────────────────────────────────────────────────────────────────


class OnceAnew(Once):
    """The same tool, changed."""

    version: ClassVar[str] = "2"


def deployed(patch: pytest.MonkeyPatch, **differently: Any) -> None:
    """Install another version of the agent."""
    patch.setattr(Told, "spec", replace(Told.spec, version="2", **differently))


def test_a_run_is_pinned_to_what_is_installed_now_and_asks_again(
    engine: Engine, wait: Wait, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.decide(wait)
    deployed(monkeypatch, instructions="Do it differently.")
    drive(wait.run_id)
    held = run_now(wait.run_id)
    assert (held.status, held.hold_reason) == ("HELD", "RESUME_REFUSED")
    before, old = head_of(wait.run_id), held.agent_version
    outcome = engine.repin(wait.run_id)
    assert outcome == Upgraded(wait.run_id, before.revision + 1, superseded=1)
    run, head = run_now(wait.run_id), head_of(wait.run_id)
    assert (run.agent_version.version, head.trigger, head.phase) == ("2", "REPIN", before.phase)
    snapshot = load_snapshot(Checkpoint.objects.get(run=run, revision=head.revision))
    assert snapshot.manifest_digest == run.agent_version.manifest_digest != old.manifest_digest
    assert (run.status, Wait.objects.get(id=wait.id).status) == ("QUEUED", "INVALIDATED")
    assert engine.audited()[-1] == ("run.repin", "person:otto", None)
    drive(wait.run_id)
    engine.approve(wait.run_id)
    drive(wait.run_id)
    assert (run_now(wait.run_id).status, SCRIPT.labels("once")) == ("COMPLETED", ["a"])
    assert SCRIPT.requests[-1].instructions == "Do it differently."
    assert any("pinned this run to version 2" in m.get("text", "") for m in SCRIPT.requests[-1].history)


def with_tool(tool: Any) -> tuple[Any, ...]:
    return tuple(tool if other.key == tool.key else other for other in Told.spec.tools)


def test_an_unsent_call_of_a_replaced_tool_is_cancelled_and_can_be_proposed_again(
    engine: Engine, wait: Wait, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployed(monkeypatch, tools=with_tool(OnceAnew()))
    engine.repin(wait.run_id)
    old = call_named(wait.run_id, "a")
    assert (old.status, old.attempts) == ("CANCELLED", 0)
    SCRIPT.turns[2] = [calls(("once", "a"))]
    drive(wait.run_id)
    fresh = open_wait(wait.run_id)
    assert fresh.tool_call_id != old.id and fresh.tool_call.tool_version == "2"
    assert "not sent" in SCRIPT.requests[-1].history[-2]["value"]["error"]


def test_a_call_that_was_sent_under_the_old_pin_is_settled_first(
    engine: Engine, wait: Wait, monkeypatch: pytest.MonkeyPatch
) -> None:
    SCRIPT.do("a", ToolUnknown("no answer"))
    engine.decide(wait)
    drive(wait.run_id)
    deployed(monkeypatch, tools=with_tool(OnceAnew()))
    before = counts()
    refused = engine.repin(wait.run_id)
    assert isinstance(refused, SentUnderOldPin) and "once/a" in refused.sentence
    assert added(before) == {"accounts_auditevent": 1}
    engine.reconcile(call_named(wait.run_id, "a"), "EXECUTED")
    assert isinstance(engine.repin(wait.run_id), Upgraded)
    drive(wait.run_id)
    assert run_now(wait.run_id).status == "COMPLETED"
    assert attempts_of(call_named(wait.run_id, "a"))[0][:2] == (1, "NO_RESPONSE")


def test_a_run_that_has_its_pins_or_no_agent_is_not_pinned_anew(
    engine: Engine, wait: Wait, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(engine.repin(wait.run_id), NothingToPin)
    kept = dict(agents())
    monkeypatch.delitem(agents(), "told")
    refused = engine.repin(wait.run_id)
    assert isinstance(refused, AgentMissing) and "“told”" in refused.sentence
    assert "told" in kept


@pytest.mark.parametrize("act", ["migrate", "repin"])
def test_an_upgrade_needs_a_permission_a_reason_and_a_run_that_nobody_holds(
    engine: Engine, wait: Wait, act: str
) -> None:
    do = getattr(engine, act)
    before = counts()
    assert isinstance(do(wait.run_id, by="ann"), NotAllowed)
    assert isinstance(do(wait.run_id, reason=" "), Invalid)
    assert added(before) == {"accounts_auditevent": 2}
    busy = engine.start()
    assert lease_acquire(run_id=busy, owner="somebody") is not None
    assert isinstance(do(busy), RunHeldByWorker)
    engine.stop(wait.run_id)
    assert isinstance(do(wait.run_id), RunEnded)


def test_the_contract_of_a_first_revision_is_canonical(engine: Engine, wait: Wait) -> None:
    """What a migration compares: a stored contract is read and written to the same bytes."""
    stored = json.loads(verified_body(first_revision(wait.run_id)))["contract"]
    assert canonical(Contract.model_validate_json(json.dumps(stored)).model_dump(mode="json")) == canonical(stored)
