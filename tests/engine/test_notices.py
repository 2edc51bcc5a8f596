"""Notices: written with the fact, told once, never waited for, and never sent where they must not go."""

import socket
import time
from collections.abc import Iterator
from ipaddress import ip_network
from typing import Any
from uuid import UUID

import pytest
from django.db import transaction
from django.test import override_settings

from accounts.errors import EndpointGone, Invalid, NotAllowed
from accounts.models import Endpoint, Notice
from accounts.services import Address, endpoint_create, notices_claim
from accounts.states import EndpointKind, NoticeKind
from approvals.models import Wait
from runtime.loop import drive
from runtime.notices import notices_deliver
from runtime.services import EndpointAdded, EndpointRequest, StopState, endpoint_add, endpoint_drop
from runtime.tasks import sweep
from tests.engine.engine import Engine, call_named, open_wait, run_now, sql, sql_past_triggers
from tests.engine.governed import govern, rule
from tests.engine.lost import lose_answer
from tests.engine.stops import abort, on_the_wire
from tests.receiver import Receiver, mail_server, receiver
from tests.scripted import calls

LOOPBACK = [ip_network("127.0.0.1/32")]


@pytest.fixture
def hook() -> Iterator[Receiver]:
    with (
        receiver() as got,
        override_settings(NOTICE_NETWORKS=LOOPBACK, NOTICE_SECONDS=5.0, PUBLIC_URL="https://signalbox.example"),
    ):
        yield got


def listening(engine: Engine, hook: Receiver, *hears: NoticeKind, by: str = "olga", whole_tenant: bool = True) -> UUID:
    wanted = EndpointRequest("WEBHOOK", "desk", hook.url, frozenset(hears), whole_tenant=whole_tenant)
    added = endpoint_add(actor=engine.person(by), wanted=wanted)
    assert isinstance(added, EndpointAdded), added
    return added.endpoint_id


def asked(engine: Engine) -> Wait:
    """A run that waits for a decision."""
    return open_wait(engine.run(calls(("once", "a"))))


def rows() -> list[tuple[str, str]]:
    return list(Notice.objects.order_by("created_at", "id").values_list("kind", "status"))


# ── written with the fact ────────────────────────────────────────────────────


def test_an_opened_wait_is_told_with_a_link_and_without_arguments(engine: Engine, hook: Receiver) -> None:
    listening(engine, hook)
    wait = asked(engine)
    assert rows() == [("OPENED", "PENDING")] and hook.bodies == []
    assert notices_deliver() == 1
    (body,) = hook.bodies
    assert body["link"] == f"https://signalbox.example/waits/{wait.id}/"
    assert body["text"] == f"A call of once waits for a decision. {body['link']}"
    assert set(body) == {"id", "kind", "tenant", "text", "subject", "subject_id", "link", "at"}
    assert hook.headers[0]["Idempotency-Key"] == body["id"]
    assert rows() == [("OPENED", "SENT")]
    assert notices_deliver() == 0


def test_a_fact_that_is_taken_back_tells_nobody(engine: Engine, hook: Receiver) -> None:
    listening(engine, hook)
    wait = asked(engine)
    with transaction.atomic():
        engine.decide(wait)
        transaction.set_rollback(True)
    assert rows() == [("OPENED", "PENDING")]


def test_who_decided_is_not_told_and_the_others_are(engine: Engine, hook: Receiver) -> None:
    mine = listening(engine, hook, NoticeKind.DECIDED, by="olga", whole_tenant=False)
    others = listening(engine, hook, NoticeKind.DECIDED, by="ann", whole_tenant=False)
    wait = asked(engine)
    engine.decide(wait, by="olga")
    assert [row.endpoint_id for row in Notice.objects.all()] == [others] != [mine]
    notices_deliver()
    assert hook.bodies[0]["text"].startswith(f"{engine.person('olga').name} decided about a call of once: approve.")


def test_a_call_of_unknown_outcome_is_told(engine: Engine, hook: Receiver) -> None:
    listening(engine, hook, NoticeKind.UNKNOWN_CALL, NoticeKind.HELD)
    call = lose_answer(engine)
    assert rows() == [("UNKNOWN_CALL", "PENDING")]
    notices_deliver()
    assert hook.bodies[0]["link"] == f"https://signalbox.example/calls/{call.id}/"


def test_a_call_that_outlives_its_run_unknown_is_told_once(engine: Engine, hook: Receiver) -> None:
    listening(engine, hook, NoticeKind.UNKNOWN_CALL)
    run_id, gate, worker = on_the_wire(engine)
    assert isinstance(abort(engine, run_id), StopState)
    gate.open()
    worker.result()
    call = call_named(run_id, "a")
    assert [(row.kind, row.subject_id) for row in Notice.objects.all()] == [("UNKNOWN_CALL", call.id)]
    notices_deliver()
    assert hook.bodies[0]["text"].startswith("Nobody knows whether a call happened. A person has to say what is known")


def test_a_call_that_held_its_run_is_not_told_again_when_the_run_is_stopped(engine: Engine, hook: Receiver) -> None:
    listening(engine, hook, NoticeKind.UNKNOWN_CALL)
    call = lose_answer(engine)
    assert isinstance(engine.stop(call.run_id), StopState)
    assert (run_now(call.run_id).status, rows()) == ("CANCELLED", [("UNKNOWN_CALL", "PENDING")])


def test_nothing_is_written_where_nobody_listens(engine: Engine, hook: Receiver) -> None:
    endpoint = listening(engine, hook, NoticeKind.STUCK)
    asked(engine)
    endpoint_drop(actor=engine.person("olga"), endpoint_id=endpoint)
    asked(engine)
    assert rows() == []


def test_people_are_reminded_and_an_escalation_reaches_whom_it_asks(engine: Engine, hook: Receiver) -> None:
    ask = rule(
        "somebody looks",
        "ask",
        tools=["once"],
        group="funds",
        remind="1m",
        escalate="2m",
        escalate_to="role:reconciler",
    )
    govern(engine, ask)
    listening(engine, hook, NoticeKind.ESCALATED, by="rolf", whole_tenant=False)
    listening(engine, hook, NoticeKind.ESCALATED, by="ann", whole_tenant=False)
    listening(engine, hook, NoticeKind.REMINDER)
    wait = asked(engine)
    for column in ("remind_at", "escalate_at"):
        sql_past_triggers(f"UPDATE approvals_wait SET {column} = clock_timestamp() WHERE id = %s", wait.id)
    sweep()
    sweep()
    notices_deliver()
    told = {(row.endpoint.created_by, row.kind, row.status) for row in Notice.objects.select_related("endpoint")}
    olga, rolf, ann = (engine.person(name).label for name in ("olga", "rolf", "ann"))
    assert told == {(olga, "REMINDER", "SENT"), (rolf, "ESCALATED", "SENT"), (ann, "ESCALATED", "SKIPPED")}


# ── told once, tried again, and given up ─────────────────────────────────────


def test_what_is_decided_meanwhile_is_not_told(engine: Engine, hook: Receiver) -> None:
    listening(engine, hook, NoticeKind.OPENED)
    engine.decide(asked(engine))
    notices_deliver()
    assert rows() == [("OPENED", "SKIPPED")] and hook.bodies == []


def test_a_removed_endpoint_is_told_nothing(engine: Engine, hook: Receiver) -> None:
    endpoint = listening(engine, hook)
    asked(engine)
    endpoint_drop(actor=engine.person("olga"), endpoint_id=endpoint)
    notices_deliver()
    assert rows() == [("OPENED", "SKIPPED")] and hook.bodies == []
    assert isinstance(endpoint_drop(actor=engine.person("olga"), endpoint_id=endpoint), EndpointGone)


def test_a_person_hears_only_of_what_their_roles_are_for(engine: Engine, hook: Receiver) -> None:
    listening(engine, hook, NoticeKind.OPENED, by="otto", whole_tenant=False)  # starts runs, and decides nothing
    asked(engine)
    notices_deliver()
    assert rows() == [("OPENED", "SKIPPED")] and hook.bodies == []


def test_two_deliverers_tell_it_once(engine: Engine, hook: Receiver) -> None:
    listening(engine, hook)
    asked(engine)
    claim = notices_claim(seconds=60, most=1)
    assert claim is not None and notices_claim(seconds=60, most=1) is None
    assert notices_deliver() == 0 and hook.bodies == []


def test_a_deliverer_that_dies_is_followed_by_another(engine: Engine, hook: Receiver) -> None:
    listening(engine, hook)
    asked(engine)
    assert notices_claim(seconds=-1, most=1) is not None
    assert notices_deliver() == 1
    assert [body["kind"] for body in hook.bodies] == ["OPENED"]
    assert Notice.objects.get().attempts == 2


def test_an_endpoint_that_is_down_is_tried_again_later_and_given_up_in_the_end(engine: Engine, hook: Receiver) -> None:
    listening(engine, hook)
    asked(engine)
    hook.answer = 503
    with override_settings(NOTICE_ATTEMPTS=3):
        for number in range(1, 4):
            assert notices_deliver() == 1
            assert notices_deliver() == 0  # not before it is due
            row = Notice.objects.get()
            assert (row.attempts, row.error) == (number, "It answered 503.")
            sql("UPDATE accounts_notice SET due_at = clock_timestamp() WHERE status = 'PENDING'")
    assert rows() == [("OPENED", "FAILED")]


def test_what_is_refused_for_good_is_not_tried_again(engine: Engine, hook: Receiver) -> None:
    listening(engine, hook)
    asked(engine)
    hook.answer = 410
    notices_deliver()
    assert rows() == [("OPENED", "FAILED")]


# ── where it may go ──────────────────────────────────────────────────────────


def test_a_redirect_is_not_followed(engine: Engine, hook: Receiver) -> None:
    with receiver("127.0.0.2") as inside:
        hook.answer, hook.location = 302, inside.url
        listening(engine, hook)
        asked(engine)
        notices_deliver()
        assert inside.bodies == []
    assert rows() == [("OPENED", "FAILED")]
    assert "leads elsewhere" in Notice.objects.get().error


def test_an_endpoint_that_never_ends_its_answer_is_left_in_time(engine: Engine, hook: Receiver) -> None:
    listening(engine, hook)
    asked(engine)
    hook.slow = True
    began = time.monotonic()
    with override_settings(NOTICE_SECONDS=0.3):
        notices_deliver()
    assert time.monotonic() - began < 10
    assert rows() == [("OPENED", "PENDING")]
    assert Notice.objects.get().error == "It did not answer in full within 0.3 s."


def test_no_decision_waits_for_an_endpoint(engine: Engine, hook: Receiver) -> None:
    """The decision path opens no connection at all: it writes a row."""
    hook.slow = True
    listening(engine, hook)
    wait = asked(engine)
    engine.decide(wait)
    drive(wait.run_id)
    assert run_now(wait.run_id).status == "COMPLETED"
    assert hook.bodies == []
    assert rows() == [("OPENED", "PENDING"), ("DECIDED", "PENDING")]


def names(patch: pytest.MonkeyPatch, *ips: str) -> None:
    """Let every name lead to these addresses."""
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (ip, 443)) for ip in ips]
    patch.setattr(socket, "getaddrinfo", lambda *_, **__: found)


def test_a_name_that_leads_inside_after_it_was_saved_is_refused_at_delivery(
    engine: Engine, hook: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    listening(engine, hook)
    asked(engine)
    with override_settings(NOTICE_NETWORKS=[]):
        notices_deliver()
    assert rows() == [("OPENED", "PENDING")] and hook.bodies == []
    assert "is not a public address" in Notice.objects.get().error


@pytest.mark.parametrize("ips", [("10.0.0.8",), ("93.184.216.34", "10.0.0.8"), ("10.0.0.8", "93.184.216.34")])
def test_a_name_of_which_any_address_is_private_is_refused_when_it_is_saved(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, ips: tuple[str, ...]
) -> None:
    names(monkeypatch, *ips)
    wanted = EndpointRequest("WEBHOOK", "desk", "https://hooks.example/x", whole_tenant=True)
    refused = endpoint_add(actor=engine.person("olga"), wanted=wanted)
    assert isinstance(refused, Invalid)
    assert (
        refused.sentence == "Nothing was done. address: hooks.example leads to 10.0.0.8, which is not a public address."
    )
    assert not Endpoint.objects.exists()


def test_a_notice_that_can_not_even_be_written_comes_to_an_end_and_keeps_no_other_from_being_told(
    engine: Engine, hook: Receiver, mailed: list[str]
) -> None:
    """An address with a line break in it, as no act stores one: a mail to it can't be made."""
    address = Address(EndpointKind.MAIL, "a@b.example\nBcc: c@d.example", "a…@b.example")
    hears = frozenset({NoticeKind.OPENED})
    endpoint_create(
        actor=engine.person("olga"), membership=None, name="broken", address=address, hears=hears, digest=False
    )
    listening(engine, hook, NoticeKind.OPENED)
    asked(engine)
    assert notices_deliver() == 2
    assert (len(hook.bodies), mailed) == (1, [])
    assert sorted(rows()) == [("OPENED", "PENDING"), ("OPENED", "SENT")]
    with override_settings(NOTICE_ATTEMPTS=1):
        sql("UPDATE accounts_notice SET due_at = clock_timestamp() WHERE status = 'PENDING'")
        notices_deliver()
    broken = Notice.objects.get(endpoint__name="broken")
    assert (broken.status, broken.error) == ("FAILED", "It could not be told (ValueError).")


# ── who, and what stays secret ───────────────────────────────────────────────


def test_only_who_may_notify_sets_up_the_tenant(engine: Engine, hook: Receiver) -> None:
    wanted = EndpointRequest("WEBHOOK", "desk", hook.url, whole_tenant=True)
    assert isinstance(endpoint_add(actor=engine.person("ann"), wanted=wanted), NotAllowed)
    endpoint = listening(engine, hook)
    assert isinstance(endpoint_drop(actor=engine.person("ann"), endpoint_id=endpoint), NotAllowed)


def test_the_address_is_stored_nowhere_in_the_clear(engine: Engine, hook: Receiver) -> None:
    listening(engine, hook)
    asked(engine)
    hook.answer = 500
    notices_deliver()
    for table in ("accounts_endpoint", "accounts_notice", "accounts_auditevent"):
        stored = str(sql(f"SELECT t::text FROM {table} t"))
        assert "s3cr3t" not in stored and "hook" not in stored
    assert Endpoint.objects.get().shown == hook.url.split("/")[2]


# ── mail, and the digest ─────────────────────────────────────────────────────


@pytest.fixture
def mailed() -> Iterator[list[str]]:
    with (
        mail_server() as (port, mails),
        override_settings(
            EMAIL_BACKEND="django.core.mail.backends.smtp.EmailBackend",
            EMAIL_HOST="127.0.0.1",
            EMAIL_PORT=port,
            EMAIL_USE_TLS=False,
            EMAIL_TIMEOUT=5,
            PUBLIC_URL="https://signalbox.example",
        ),
    ):
        yield mails


def mailbox(engine: Engine, address: str = "olga@example.org", **more: Any) -> Any:
    wanted = EndpointRequest("MAIL", "me", address, frozenset({NoticeKind.OPENED}), **more)
    return endpoint_add(actor=engine.person("olga"), wanted=wanted)


def test_a_mail_says_it_in_its_subject_and_holds_the_link(engine: Engine, mailed: list[str]) -> None:
    mailbox(engine)
    wait = asked(engine)
    notices_deliver()
    (mail,) = mailed
    assert "A call of once waits for a decision." in mail.split("\n\n")[0].replace("\r", "").replace("\n ", " ")
    assert f"https://signalbox.example/waits/{wait.id}/" in mail and "To: olga@example.org" in mail
    assert rows() == [("OPENED", "SENT")]


def test_what_is_of_low_risk_is_gathered_into_one_mail(engine: Engine, mailed: list[str]) -> None:
    """Waits of low risk wait for the digest; the others are told at once."""
    mailbox(engine, digest=True)
    govern(engine, rule("little", "ask", tools=["once"], risk="low"))
    waits = [asked(engine) for _ in range(3)]
    govern(engine, rule("more", "ask", tools=["once"], risk="normal"))
    other = asked(engine)
    gathered = Notice.objects.filter(gathered=True).values_list("subject_id", "due_at")
    assert {id for id, _ in gathered} == {wait.id for wait in waits} and len({due for _, due in gathered}) == 1
    assert notices_deliver() == 1
    assert len(mailed) == 1 and str(other.id) in mailed[0]
    sql("UPDATE accounts_notice SET due_at = clock_timestamp() WHERE status = 'PENDING'")
    assert notices_deliver() == 1
    assert len(mailed) == 2 and "3 things of low risk" in mailed[1]
    assert all(str(wait.id) in mailed[1] for wait in waits)


def test_a_mail_server_that_is_away_is_tried_again(engine: Engine, mailed: list[str]) -> None:
    mailbox(engine)
    asked(engine)
    with override_settings(EMAIL_PORT=9):
        notices_deliver()
    assert rows() == [("OPENED", "PENDING")]
    assert Notice.objects.get().error == "The mail server did not take it (ConnectionRefusedError)."


@pytest.mark.parametrize("address", ["", "nobody", "a@b", "a@b.example\nBcc: c@d.example", "a b@c.example"])
def test_what_is_no_mail_address_is_refused(engine: Engine, mailed: list[str], address: str) -> None:
    assert isinstance(mailbox(engine, address), Invalid)


def test_without_a_mail_server_there_is_no_mail(engine: Engine) -> None:
    refused = mailbox(engine)
    assert isinstance(refused, Invalid) and "SIGNALBOX_MAIL_HOST" in refused.sentence
