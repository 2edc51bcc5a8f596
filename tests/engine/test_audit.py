"""The audit chain: every act is in it, in one line, and a change of any of it is found."""

from hashlib import sha256
from typing import Any
from uuid import UUID

import pytest
from django.db import DatabaseError, transaction

from accounts.audit import audit_append, audit_verify
from accounts.models import AuditEvent, AuditHead, AuditReason
from accounts.states import Actor
from tests.engine.engine import Engine, people, sql, sql_past_triggers
from tests.engine.races import Aside, terminate, together, uncommitted

OBJECT = UUID(int=7)


def act(actor: Actor, action: str = "test.act", **detail: Any) -> None:
    with transaction.atomic():
        audit_append(actor=actor, action=action, object_type="test", object_id=OBJECT, detail=detail)


@pytest.fixture
def actor(engine: Engine) -> Actor:
    """Somebody with five acts in the chain."""
    actor = engine.person("olga")
    for number in range(1, 6):
        act(actor, number=number, reason="weil ich es sage – ✓")
    return actor


def test_a_chain_is_numbered_and_each_event_names_the_one_before(actor: Actor) -> None:
    events = list(AuditEvent.objects.filter(tenant_id=actor.tenant_id).order_by("seq"))
    assert [event.seq for event in events] == [1, 2, 3, 4, 5]
    assert [event.prev_hash for event in events] == ["0" * 64, *(event.hash for event in events[:-1])]
    assert audit_verify(actor.tenant_id) == 5


def test_each_tenant_has_a_chain_of_its_own(actor: Actor) -> None:
    other = Engine(people("south")).person("olga")
    made = audit_verify(other.tenant_id)
    act(other)
    assert (audit_verify(actor.tenant_id), audit_verify(other.tenant_id)) == (5, made + 1)


@pytest.mark.parametrize(
    "change",
    [
        "canonical = set_byte(canonical, 20, get_byte(canonical, 20) # 1)",
        "canonical = 'not JSON'",
        "hash = repeat('a', 64)",
        "prev_hash = repeat('a', 64)",
        "seq = 30",
        "actor = 'person:somebody else'",
        "action = 'test.other'",
        "object_type = 'run'",
        "object_id = 'another'",
        "at = at + interval '1 hour'",
        'detail = detail || \'{"reason": "another"}\'',
        "detail = detail - 'number'",
    ],
)
def test_a_changed_event_is_found_and_named(actor: Actor, change: str) -> None:
    sql_past_triggers(f"UPDATE accounts_auditevent SET {change} WHERE seq = 3")
    with pytest.raises(ValueError, match=r"audit event (3|4|30) does not"):
        audit_verify(actor.tenant_id)


WHY = "The model needs a longer look – ✓\nsee the ticket"


@pytest.fixture
def explained(actor: Actor) -> AuditEvent:
    """The sixth act, of which nothing but the chain says why."""
    with transaction.atomic():
        audit_append(actor=actor, action="test.act", object_type="test", object_id=OBJECT, detail={}, reason=WHY)
    return AuditEvent.objects.get(tenant_id=actor.tenant_id, seq=6)


def test_a_reason_stands_beside_its_event_in_full_and_in_it_by_its_digest(explained: AuditEvent) -> None:
    assert explained.why.reason == WHY
    assert explained.detail["reason_digest"] == sha256(WHY.encode()).hexdigest()
    assert WHY.encode() not in bytes(explained.canonical)
    assert audit_verify(explained.tenant_id) == 6


def test_an_act_without_a_reason_has_none_beside_it(actor: Actor) -> None:
    assert not AuditReason.objects.filter(event__tenant_id=actor.tenant_id).exists()


def test_a_changed_reason_is_found(explained: AuditEvent) -> None:
    sql_past_triggers("UPDATE accounts_auditreason SET reason = 'another' WHERE event_id = %s", explained.id)
    with pytest.raises(ValueError, match="audit event 6 does not"):
        audit_verify(explained.tenant_id)


@pytest.mark.parametrize("change", ["UPDATE accounts_auditreason SET reason = 'x'", "DELETE FROM accounts_auditreason"])
def test_nobody_writes_a_reason_anew(explained: AuditEvent, change: str) -> None:
    with pytest.raises(DatabaseError, match="Cannot update or delete"):
        sql(change)
    assert AuditReason.objects.get(event=explained).reason == WHY


@pytest.mark.parametrize(("gone", "said"), [("1", "event 2"), ("3", "event 4"), ("5", "ends at 4"), ("4, 5", "at 3")])
def test_a_missing_event_is_found(actor: Actor, gone: str, said: str) -> None:
    sql_past_triggers(f"DELETE FROM accounts_auditevent WHERE seq IN ({gone})")
    with pytest.raises(ValueError, match=said):
        audit_verify(actor.tenant_id)


def test_a_head_that_names_another_end_is_found(actor: Actor) -> None:
    AuditHead.objects.filter(tenant_id=actor.tenant_id).update(hash="a" * 64)
    with pytest.raises(ValueError, match="the chain ends at 5"):
        audit_verify(actor.tenant_id)


def test_acts_at_the_same_instant_stand_one_behind_the_other(actor: Actor) -> None:
    def five_acts() -> None:
        for _ in range(5):
            act(actor)

    together(*[five_acts] * 8)
    assert audit_verify(actor.tenant_id) == 5 + 8 * 5


def test_without_the_lock_on_its_end_a_chain_would_fork(actor: Actor) -> None:
    """Two that read the same end write the same number; the database takes one of them."""
    end = AuditHead.objects.get(tenant_id=actor.tenant_id)
    copy = (
        "INSERT INTO accounts_auditevent (tenant_id, seq, actor, action, object_type, object_id, detail, canonical, "
        "at, prev_hash, hash) SELECT tenant_id, %s, actor, action, object_type, object_id, detail, canonical, at, "
        "hash, hash FROM accounts_auditevent WHERE tenant_id = %s AND seq = %s"
    )
    with uncommitted():
        sql(copy, end.seq + 1, end.tenant_id, end.seq)
        second = Aside(lambda: sql(copy, end.seq + 1, end.tenant_id, end.seq))
        second.wait_blocked()
    assert "audit_seq_once" in str(second.error())


def test_an_act_waits_for_the_one_before_and_continues_from_it(actor: Actor) -> None:
    with uncommitted():
        act(actor)
        second = Aside(lambda: act(actor))
        second.wait_blocked()
    second.result()
    assert audit_verify(actor.tenant_id) == 7


def test_an_act_that_is_rolled_back_leaves_no_gap(actor: Actor) -> None:
    with transaction.atomic():
        act(actor)
        transaction.set_rollback(True)
    act(actor)
    assert audit_verify(actor.tenant_id) == 6


def test_an_act_that_is_cut_off_leaves_no_gap(actor: Actor) -> None:
    with uncommitted():
        AuditHead.objects.select_for_update(no_key=True).get(tenant_id=actor.tenant_id)
        cut = Aside(lambda: act(actor))
        cut.wait_blocked()
        terminate(cut.pid)
        assert isinstance(cut.error(), DatabaseError)
    act(actor)
    assert audit_verify(actor.tenant_id) == 6
