"""Endpoints: changed, paused, tested and signed by those who may; what was told goes after its time, and nothing before."""

import base64
import hmac
import json
from collections.abc import Iterator
from functools import partial
from ipaddress import ip_network
from typing import Any
from uuid import UUID

import pytest
from django.db import DatabaseError
from django.test import override_settings

from accounts.errors import (
    AlreadyTested,
    EndpointGone,
    EndpointMoved,
    EndpointNotPaused,
    EndpointPaused,
    Invalid,
    NotAllowed,
)
from accounts.models import AuditEvent, AuditReason, DataKey, Endpoint, Notice
from accounts.selectors import plain_body
from accounts.states import HEARD, NoticeKind
from runtime.notices import notices_deliver
from runtime.services import (
    EndpointAdded,
    EndpointChange,
    EndpointKept,
    EndpointRequest,
    EndpointTested,
    NoticesPurged,
    endpoint_add,
    endpoint_drop,
    endpoint_edit,
    endpoint_go_on,
    endpoint_hold,
    endpoint_test,
    notices_retain,
)
from tests.engine.engine import Engine, sql, sql_past_triggers
from tests.engine.races import together
from tests.engine.test_notices import asked, listening
from tests.receiver import Receiver, receiver

SECRET = "a secret of some length"


@pytest.fixture
def hook() -> Iterator[Receiver]:
    with receiver() as got, override_settings(NOTICE_NETWORKS=[ip_network("127.0.0.0/8")], NOTICE_SECONDS=5.0):
        yield got


def edit(engine: Engine, endpoint: UUID, by: str = "olga", **change: Any) -> Any:
    return endpoint_edit(actor=engine.person(by), endpoint_id=endpoint, wanted=EndpointChange(**change))


def audited() -> tuple[str, Any]:
    row = AuditEvent.objects.latest("id")
    return row.action, row.detail


# ── changed ──────────────────────────────────────────────────────────────────


def test_what_is_named_is_changed_and_the_rest_stays(engine: Engine, hook: Receiver) -> None:
    endpoint = listening(engine, hook, NoticeKind.OPENED)
    before = Endpoint.objects.get(id=endpoint)
    assert edit(engine, endpoint, name="night desk", hears=frozenset({"DECIDED"})) == EndpointKept(endpoint)
    after = Endpoint.objects.get(id=endpoint)
    assert (after.name, after.hears, after.shown) == ("night desk", ["DECIDED"], before.shown)
    assert bytes(after.address) == bytes(before.address)
    assert audited() == ("endpoint.change", {"door": "page", "changed": ["hears", "name"], "hears": ["DECIDED"]})


def test_of_many_who_change_what_they_all_were_reading_one_does_and_each_other_is_told(
    engine: Engine, hook: Receiver
) -> None:
    endpoint = listening(engine, hook)
    changes = [partial(edit, engine, endpoint, name=f"desk {number}", seen=1) for number in range(6)]
    outcomes = together(*changes)
    (done,) = [number for number, outcome in enumerate(outcomes) if outcome == EndpointKept(endpoint)]
    late = [outcome for outcome in outcomes if isinstance(outcome, EndpointMoved)]
    assert len(late) == 5 and all("by olga" in one.sentence.lower() and "its name." in one.sentence for one in late)
    assert Endpoint.objects.values_list("name", "version").get() == (f"desk {done}", 2)


def test_what_is_told_goes_to_the_new_address(engine: Engine, hook: Receiver) -> None:
    endpoint = listening(engine, hook)
    with receiver("127.0.0.2") as other:
        edit(engine, endpoint, address=other.url)
        assert audited()[1]["changed"] == ["address"]
        asked(engine)
        notices_deliver()
        assert (len(hook.bodies), len(other.bodies)) == (0, 1)
        assert Endpoint.objects.get().shown == other.url.split("/")[2]


def test_a_change_is_sealed_with_the_key_of_the_day(engine: Engine, hook: Receiver) -> None:
    """An endpoint whose key was replaced is sealed anew as a whole, so that no part needs the older key."""
    endpoint = signed(engine, hook)
    old = DataKey.objects.get(tenant=engine.tenant, retired_at=None)
    sql("UPDATE accounts_datakey SET retired_at = clock_timestamp() WHERE id = %s", old.id)
    sql("INSERT INTO accounts_datakey (id, tenant_id, wrapped, created_at) SELECT gen_random_uuid(), tenant_id, wrapped, "
        "clock_timestamp() FROM accounts_datakey WHERE id = %s", old.id)  # fmt: skip
    edit(engine, endpoint, address=hook.url)
    row = Endpoint.objects.get(id=endpoint)
    assert row.data_key_id != old.id and row.secret is not None
    assert plain_body(key_id=row.data_key_id, body=row.address).decode() == hook.url
    assert plain_body(key_id=row.data_key_id, body=row.secret).decode() == SECRET


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": " "}, "name"),
        ({"name": "x" * 101}, "name"),
        ({"hears": frozenset({"TEST"})}, "hears"),
        ({"hears": frozenset({"NOTHING"})}, "hears"),
        ({"digest": True}, "digest"),
        ({"address": "https://10.0.0.1/"}, "address"),
        ({"signed_with": "short"}, "signed_with"),
        ({"signed_with": "whsec_not base64 at all"}, "signed_with"),
        ({"signed_with": "x" * 201}, "signed_with"),
    ],
)
def test_what_cannot_be_stored_changes_nothing(engine: Engine, hook: Receiver, change: Any, field: str) -> None:
    endpoint = listening(engine, hook)
    before = Endpoint.objects.values().get()
    refused = edit(engine, endpoint, **change)
    assert isinstance(refused, Invalid) and refused.facts["field"] == field
    assert Endpoint.objects.values().get() == before


def test_only_who_may_changes_what_the_tenant_hears(engine: Engine, hook: Receiver) -> None:
    endpoint = listening(engine, hook)
    person = engine.person("ann")
    acts = [
        partial(edit, engine, endpoint, by="ann", name="mine"),
        partial(endpoint_hold, actor=person, endpoint_id=endpoint),
        partial(endpoint_go_on, actor=person, endpoint_id=endpoint),
        partial(endpoint_test, actor=person, endpoint_id=endpoint),
    ]
    for act in acts:
        assert isinstance(act(), NotAllowed)
    assert not Notice.objects.exists() and Endpoint.objects.get().paused_at is None


def test_a_removed_endpoint_stays_as_it_was(engine: Engine, hook: Receiver) -> None:
    endpoint = listening(engine, hook)
    olga = engine.person("olga")
    endpoint_drop(actor=olga, endpoint_id=endpoint)
    assert isinstance(edit(engine, endpoint, name="again"), EndpointGone)
    for act in (endpoint_hold, endpoint_go_on, endpoint_test):
        assert isinstance(act(actor=olga, endpoint_id=endpoint), EndpointGone)


@pytest.mark.parametrize(
    "column", ["kind = 'MAIL'", "membership_id = 1", "created_by = 'x'", "tenant_id = gen_random_uuid()"]
)
def test_whose_an_endpoint_is_never_changes(engine: Engine, hook: Receiver, column: str) -> None:
    endpoint = listening(engine, hook)
    with pytest.raises(DatabaseError, match="Cannot update rows"):
        sql(f"UPDATE accounts_endpoint SET {column} WHERE id = %s", endpoint)


# ── paused ───────────────────────────────────────────────────────────────────


def test_a_paused_endpoint_is_told_nothing_and_nothing_later(engine: Engine, hook: Receiver) -> None:
    olga, endpoint = engine.person("olga"), listening(engine, hook)
    asked(engine)
    assert endpoint_hold(actor=olga, endpoint_id=endpoint) == EndpointKept(endpoint)
    assert isinstance(endpoint_hold(actor=olga, endpoint_id=endpoint), EndpointPaused)
    asked(engine)
    notices_deliver()
    assert hook.bodies == []
    assert list(Notice.objects.values_list("status", "error")) == [("SKIPPED", "The endpoint is paused.")]
    assert endpoint_go_on(actor=olga, endpoint_id=endpoint) == EndpointKept(endpoint)
    assert isinstance(endpoint_go_on(actor=olga, endpoint_id=endpoint), EndpointNotPaused)
    asked(engine)
    notices_deliver()
    assert len(hook.bodies) == 1


# ── tested ───────────────────────────────────────────────────────────────────


def test_a_test_goes_the_way_of_every_notice_and_says_what_came_of_it(engine: Engine, hook: Receiver) -> None:
    olga, endpoint = engine.person("olga"), listening(engine, hook, NoticeKind.STUCK)
    endpoint_hold(actor=olga, endpoint_id=endpoint)
    tested = endpoint_test(actor=olga, endpoint_id=endpoint)
    assert isinstance(tested, EndpointTested)
    assert isinstance(endpoint_test(actor=olga, endpoint_id=endpoint), AlreadyTested)
    notices_deliver()
    (body,) = hook.bodies
    assert (body["kind"], body["id"]) == ("TEST", str(tested.notice_id))
    assert body["text"].startswith(f"This is a test that {olga.name} asked for. Nothing happened.")
    assert body["link"].endswith(f"/settings/notifications/{endpoint}/")
    assert Notice.objects.get().status == "SENT"


def test_a_test_that_is_not_taken_is_not_tried_again(engine: Engine, hook: Receiver) -> None:
    olga, endpoint = engine.person("olga"), listening(engine, hook)
    hook.answer = 503
    for number in range(1, 3):
        assert isinstance(endpoint_test(actor=olga, endpoint_id=endpoint), EndpointTested)
        notices_deliver()
        assert set(Notice.objects.values_list("status", "error")) == {("FAILED", "It answered 503.")}
        assert len(hook.bodies) == number


def test_of_many_tests_at_once_one_is_sent(engine: Engine, hook: Receiver) -> None:
    endpoint = listening(engine, hook)
    outcomes = together(*[partial(endpoint_test, actor=engine.person("olga"), endpoint_id=endpoint)] * 8)
    assert sorted(type(one).__name__ for one in outcomes) == ["AlreadyTested"] * 7 + ["EndpointTested"]


def test_nobody_can_ask_to_hear_of_tests(engine: Engine, hook: Receiver) -> None:
    wanted = EndpointRequest("WEBHOOK", "desk", hook.url, frozenset({"TEST"}))
    assert isinstance(endpoint_add(actor=engine.person("olga"), wanted=wanted), Invalid)
    listening(engine, hook)
    assert set(Endpoint.objects.get().hears) == set(HEARD)
    with pytest.raises(DatabaseError, match="endpoint_hears_known"):
        sql("UPDATE accounts_endpoint SET hears = '{TEST}'")


# ── signed ───────────────────────────────────────────────────────────────────


def signed(engine: Engine, hook: Receiver, secret: str = SECRET) -> UUID:
    wanted = EndpointRequest("WEBHOOK", "desk", hook.url, whole_tenant=True, signed_with=secret)
    added = endpoint_add(actor=engine.person("olga"), wanted=wanted)
    assert isinstance(added, EndpointAdded), added
    return added.endpoint_id


@pytest.mark.parametrize(
    ("secret", "key"), [(SECRET, SECRET.encode()), ("whsec_" + base64.b64encode(b"k" * 32).decode(), b"k" * 32)]
)
def test_a_webhook_can_tell_that_a_notice_comes_from_here(
    engine: Engine, hook: Receiver, secret: str, key: bytes
) -> None:
    """As Standard Webhooks has it: HMAC-SHA256 over id, second and the very bytes of the body."""
    endpoint = signed(engine, hook, secret)
    asked(engine)
    notices_deliver()
    headers = {name.lower(): value for name, value in hook.headers[0].items()}
    said = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + json.dumps(hook.bodies[0]).encode()
    made = base64.b64encode(hmac.digest(key, said, "sha256")).decode()
    assert headers["webhook-signature"] == f"v1,{made}" and headers["webhook-id"] == hook.bodies[0]["id"]
    edit(engine, endpoint, signed_with="")
    asked(engine)
    notices_deliver()
    assert "webhook-signature" not in {name.lower() for name in hook.headers[1]}


def test_only_a_webhook_is_signed(engine: Engine, hook: Receiver) -> None:
    wanted = EndpointRequest("CHAT", "ops", "slack://x", signed_with=SECRET)
    refused = endpoint_add(actor=engine.person("olga"), wanted=wanted)
    assert isinstance(refused, Invalid) and refused.facts["field"] == "signed_with"
    signed(engine, hook)
    with pytest.raises(DatabaseError, match="secret_of_a_webhook"):
        sql_past_triggers("UPDATE accounts_endpoint SET kind = 'CHAT'")


def test_neither_address_nor_secret_is_stored_in_the_clear(engine: Engine, hook: Receiver) -> None:
    endpoint = signed(engine, hook)
    edit(engine, endpoint, address=hook.url, signed_with="another secret of some length")
    edit(engine, endpoint, address="https://10.0.0.1/s3cr3t-path", signed_with="short")
    endpoint_test(actor=engine.person("olga"), endpoint_id=endpoint)
    hook.answer = 500
    notices_deliver()
    for table in ("accounts_endpoint", "accounts_notice", "accounts_auditevent"):
        stored = str(sql(f"SELECT t::text FROM {table} t"))
        for secret in ("s3cr3t", SECRET, "another secret"):
            assert secret not in stored and secret.encode().hex() not in stored


# ── let go after its time ────────────────────────────────────────────────────


def age(days: int) -> None:
    """Let everything that was told or removed be so many days old."""
    for table, column in (("notice", "closed_at"), ("endpoint", "removed_at")):
        sql_past_triggers(f"UPDATE accounts_{table} SET {column} = {column} - interval '{days} days'")


def test_what_was_told_goes_after_its_time_and_removed_endpoints_with_it(engine: Engine, hook: Receiver) -> None:
    kept, gone = listening(engine, hook), listening(engine, hook)
    asked(engine)
    notices_deliver()
    endpoint_drop(actor=engine.person("olga"), endpoint_id=gone)
    gail = engine.person("gail")
    assert notices_retain(actor=gail, reason="old") == NoticesPurged(0, 0)
    age(91)
    asked(engine)
    assert notices_retain(actor=gail, reason="old") == NoticesPurged(2, 1)
    assert list(Endpoint.objects.values_list("id", flat=True)) == [kept]
    assert list(Notice.objects.values_list("status", flat=True)) == ["PENDING"]
    assert audited()[0] == "notices.purge" and (audited()[1]["notices"], audited()[1]["endpoints"]) == (2, 1)
    assert set(AuditReason.objects.values_list("event__action", "reason")) == {("notices.purge", "old")}


def test_only_who_may_retain_lets_go_and_says_why(engine: Engine, hook: Receiver) -> None:
    assert isinstance(notices_retain(actor=engine.person("olga"), reason="old"), NotAllowed)
    assert isinstance(notices_retain(actor=engine.person("gail"), reason=" "), Invalid)
    assert audited()[0] == "notices.purge.refused" and audited()[1]["code"] == "INVALID"


def test_the_database_lets_nothing_go_before_its_time(engine: Engine, hook: Receiver) -> None:
    listening(engine, hook)
    asked(engine)
    for table in ("notice", "endpoint"):
        with pytest.raises(DatabaseError, match="Cannot delete rows"):
            sql(f"DELETE FROM accounts_{table}")
    notices_deliver()
    with pytest.raises(DatabaseError, match="Cannot delete rows"):
        sql("DELETE FROM accounts_notice")


def test_a_test_is_possible_again_after_older_ones_are_gone(engine: Engine, hook: Receiver) -> None:
    olga, endpoint = engine.person("olga"), listening(engine, hook)
    for _ in range(3):
        assert isinstance(endpoint_test(actor=olga, endpoint_id=endpoint), EndpointTested)
        notices_deliver()
    oldest = Notice.objects.order_by("created_at").first()
    assert oldest is not None
    sql_past_triggers("UPDATE accounts_notice SET closed_at = closed_at - interval '91 days' WHERE id = %s", oldest.id)
    notices_retain(actor=engine.person("gail"), reason="old")
    assert isinstance(endpoint_test(actor=olga, endpoint_id=endpoint), EndpointTested)
