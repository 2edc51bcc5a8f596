"""Webhooks that behave badly, on the way of a delivery and with a real server: refused or bounded, and nothing else waits."""

import socket
import time
from collections.abc import Callable, Iterator
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from django.test import override_settings

from accounts.models import Notice
from runtime.gateways.post import MAX_ANSWER_BYTES
from runtime.notices import notices_deliver
from runtime.services import EndpointAdded, EndpointRequest, endpoint_add
from tests.certificates import certificate
from tests.engine.engine import Engine
from tests.engine.test_notices import asked
from tests.receiver import Receiver, receiver

HERE = [ip_network("127.0.0.1/32")]
RESOLVE = socket.getaddrinfo


@pytest.fixture(autouse=True)
def only_here() -> Iterator[None]:
    """127.0.0.1 is where notices may go beside public addresses; 127.0.0.2 stands for what is inside."""
    with override_settings(NOTICE_NETWORKS=HERE, NOTICE_SECONDS=3.0):
        yield


class Names:
    """What the name hooks.example leads to, one answer after the other, and how often somebody asked."""

    def __init__(self, *answers: tuple[str, ...]) -> None:
        self.answers, self.asked = list(answers), 0

    def __call__(self, host: Any, port: Any, *rest: Any, **more: Any) -> Any:
        if host != "hooks.example":
            return RESOLVE(host, port, *rest, **more)
        ips = self.answers[min(self.asked, len(self.answers) - 1)]
        self.asked += 1
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (ip, port)) for ip in ips]


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Names]:
    def lead(*answers: tuple[str, ...]) -> Names:
        names = Names(*answers)
        monkeypatch.setattr(socket, "getaddrinfo", names)
        return names

    return lead


def listening(engine: Engine, url: str) -> None:
    added = endpoint_add(actor=engine.person("olga"), wanted=EndpointRequest("WEBHOOK", "desk", url, whole_tenant=True))
    assert isinstance(added, EndpointAdded), added


def under_its_name(hook: Receiver, scheme: str = "http") -> str:
    return f"{scheme}://hooks.example:{hook.url.split(':')[2]}"


def outcome() -> tuple[str, str]:
    row = Notice.objects.get()
    return row.status, row.error


# ── names ────────────────────────────────────────────────────────────────────


def test_a_name_that_leads_elsewhere_the_second_time_is_asked_once_a_delivery(
    engine: Engine, named: Callable[..., Names]
) -> None:
    """Rebinding: what was checked is what is connected to. Nobody resolves the name again in between."""
    with receiver() as hook, receiver("127.0.0.2") as inside:
        names = named(("127.0.0.1",))
        listening(engine, under_its_name(hook))
        asked(engine)
        names.answers, names.asked = [("127.0.0.1",), ("127.0.0.2",)], 0
        notices_deliver()
        assert names.asked == 1
        assert (len(hook.bodies), len(inside.bodies)) == (1, 0) and outcome() == ("SENT", "")


def test_a_name_that_leads_inside_by_then_is_refused_and_tried_again_later(
    engine: Engine, named: Callable[..., Names]
) -> None:
    with receiver() as hook, receiver("127.0.0.2") as inside:
        names = named(("127.0.0.1",))
        listening(engine, under_its_name(hook))
        asked(engine)
        names.answers = [("127.0.0.2",)]
        notices_deliver()
        assert hook.bodies == inside.bodies == []
        assert outcome() == ("PENDING", "hooks.example leads to 127.0.0.2, which is not a public address.")


@pytest.mark.parametrize("ips", [("127.0.0.1", "127.0.0.2"), ("127.0.0.2", "127.0.0.1"), ("127.0.0.1", "10.0.0.8")])
def test_of_two_addresses_one_inside_is_enough_to_be_refused_at_delivery(
    engine: Engine, named: Callable[..., Names], ips: tuple[str, ...]
) -> None:
    with receiver() as hook, receiver("127.0.0.2") as inside:
        names = named(("127.0.0.1",))
        listening(engine, under_its_name(hook))
        asked(engine)
        names.answers = [ips]
        notices_deliver()
        assert hook.bodies == inside.bodies == []
        assert outcome()[0] == "PENDING" and "is not a public address" in outcome()[1]


@pytest.mark.parametrize("answer", [301, 302, 303, 307, 308])
def test_no_redirect_is_followed_inside_or_anywhere(engine: Engine, answer: int) -> None:
    with receiver() as hook, receiver("127.0.0.2") as inside:
        hook.answer, hook.location = answer, inside.url
        listening(engine, hook.url)
        asked(engine)
        notices_deliver()
        assert (len(hook.bodies), inside.bodies) == (1, [])
        assert outcome() == ("FAILED", f"It answered {answer}, and leads elsewhere. Nobody follows.")


# ── answers ──────────────────────────────────────────────────────────────────


def test_an_answer_without_an_end_is_read_as_far_as_anybody_needs_it(engine: Engine) -> None:
    with receiver() as hook:
        hook.flood = True
        listening(engine, hook.url)
        asked(engine)
        notices_deliver()
        assert outcome() == ("SENT", "")
    assert hook.flooded < 200 * MAX_ANSWER_BYTES  # what the buffers of two sockets hold


def test_an_answer_that_drips_is_left_when_its_time_is_over(engine: Engine) -> None:
    with receiver() as hook, override_settings(NOTICE_SECONDS=0.4):
        hook.slow = True
        listening(engine, hook.url)
        asked(engine)
        began = time.monotonic()
        notices_deliver()
        assert time.monotonic() - began < 10
        assert outcome() == ("PENDING", "It did not answer in full within 0.4 s.")


def test_nobody_who_answers_is_left_when_the_time_is_over(engine: Engine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, override_settings(NOTICE_SECONDS=0.4):
        listening(engine, f"http://127.0.0.1:{silent.getsockname()[1]}/hook")
        asked(engine)
        notices_deliver()
        assert outcome() == ("PENDING", "It did not answer in full within 0.4 s.")


def test_one_endpoint_that_does_not_answer_keeps_no_other_from_being_told(engine: Engine) -> None:
    with receiver() as slow, receiver() as quick, override_settings(NOTICE_SECONDS=0.4):
        slow.slow = True
        listening(engine, slow.url)
        listening(engine, quick.url)
        asked(engine)
        assert notices_deliver() == 2
        assert sorted(Notice.objects.values_list("status", flat=True)) == ["PENDING", "SENT"]


# ── TLS ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("host", "trusted", "days"), [
    ("hooks.example", False, 2), ("other.example", True, 2), ("hooks.example", True, 0),
])  # fmt: skip
def test_a_certificate_that_nobody_vouches_for_or_of_another_name_or_day_is_not_taken(
    engine: Engine, named: Callable[..., Names], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, host: str, trusted: bool,
    days: int,
) -> None:  # fmt: skip
    made = certificate(tmp_path, host, days=days)
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(made.file))
    with receiver(tls=made.context) as hook:
        named(("127.0.0.1",))
        listening(engine, under_its_name(hook, "https"))
        asked(engine)
        notices_deliver()
        assert hook.bodies == []
    status, error = outcome()
    assert status == "PENDING" and error.startswith("The connection failed (")


def test_a_certificate_of_that_name_and_day_that_somebody_vouches_for_is_taken(
    engine: Engine, named: Callable[..., Names], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made = certificate(tmp_path, "hooks.example", days=2)
    monkeypatch.setenv("SSL_CERT_FILE", str(made.file))
    with receiver(tls=made.context) as hook:
        named(("127.0.0.1",))
        listening(engine, under_its_name(hook, "https"))
        asked(engine)
        notices_deliver()
        assert len(hook.bodies) == 1
    assert outcome() == ("SENT", "")


def test_where_tls_is_not_spoken_nothing_is_sent(engine: Engine, named: Callable[..., Names]) -> None:
    with receiver() as hook:
        named(("127.0.0.1",))
        listening(engine, under_its_name(hook, "https"))
        asked(engine)
        notices_deliver()
        assert hook.bodies == [] and outcome()[0] == "PENDING"


# ── and nobody waits ─────────────────────────────────────────────────────────


@pytest.mark.parametrize("verdict", ["APPROVE", "REJECT"])
def test_deciding_opens_no_connection_and_resolves_no_name(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, verdict: str
) -> None:
    with receiver() as hook:
        listening(engine, hook.url)
        wait = asked(engine)

        def nobody(*_: Any, **__: Any) -> Any:
            raise AssertionError("deciding reaches for the network")

        monkeypatch.setattr(socket, "getaddrinfo", nobody)
        monkeypatch.setattr(socket, "create_connection", nobody)
        engine.decide(wait, verdict)
        assert hook.bodies == []
    assert sorted(Notice.objects.values_list("kind", flat=True)) == ["DECIDED", "OPENED"]
