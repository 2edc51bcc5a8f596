"""Chat services by apprise: out over https through our proxy, to public addresses, no further, and back in time."""

import json
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from django.test import override_settings

from runtime.gateways import chat
from runtime.gateways.addresses import AddressRefused
from runtime.gateways.chat import SERVICES, checked_service, tell_service
from runtime.gateways.egress import egress
from runtime.gateways.post import NotTaken
from tests.certificates import certificate
from tests.receiver import Receiver, receiver

SAMPLES = {
    "slack": ("slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/#ops", "hooks.slack.com:443"),
    "discord": ("discord://4174216298/JHMHI8qBe7bk2ZwO5U711o3dV_js", "discord.com:443"),
    "tgram": ("tgram://123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw/12315544/", "api.telegram.org:443"),
    "gchat": ("gchat://AAAA/key/token", "chat.googleapis.com:443"),
    "pagerduty": ("pagerduty://integration@abcd1234abcd1234/src/comp", "events.pagerduty.com:443"),
    "workflows": (
        f"workflows://prod-1.westus.logic.example:443/{'abcdef01' * 4}/signature-abc",
        "prod-1.westus.logic.example:443",
    ),
    "mmosts": ("mmosts://hooks.example/abcdefgh0123456789abcdefgh", "hooks.example:443"),
}


def leads_to(patch: pytest.MonkeyPatch, *ips: str) -> None:
    def found(host: str, port: int, *_: Any, **__: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (ip, port)) for ip in ips]

    patch.setattr(socket, "getaddrinfo", found)


def test_every_service_has_a_sample() -> None:
    assert set(SAMPLES) == set(SERVICES)


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_is_asked_for_at_the_proxy_only_and_not_reached_where_its_name_leads_inside(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    url, place = SAMPLES[name]
    leads_to(monkeypatch, "93.184.216.34")
    assert url.split("/")[2] not in checked_service(url).shown or SERVICES[name]
    with egress(30.0) as way:
        leads_to(monkeypatch, "10.0.0.8")
        said = {"act": "tell", "url": url, "title": "t", "body": "b", "proxy": way.url}
        assert chat._run(said, 60.0) == {"taken": False}
        assert set(way.asked) == {place}
        assert way.refused == f"{place.split(':')[0]} leads to 10.0.0.8, which is not a public address."


@pytest.mark.parametrize(
    "url",
    [
        "",
        "json://127.0.0.1/",
        "mailto://a:b@example.org",
        "mmost://hooks.example/x",
        "syslog://",
        "slack://x",
        "file:///etc",
    ],
)
def test_what_is_not_shown_to_obey_is_refused(url: str) -> None:
    with pytest.raises(AddressRefused):
        checked_service(url)


def test_a_service_of_ones_own_inside_is_refused_when_it_is_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    leads_to(monkeypatch, "192.168.0.7")
    with pytest.raises(AddressRefused, match=r"leads to 192\.168\.0\.7"):
        checked_service(SAMPLES["mmosts"][0])


@pytest.mark.parametrize("url", ["json://127.0.0.1:{port}/", "rsyslog://127.0.0.1:{port}/"])
def test_the_process_reaches_nothing_beside_its_proxy(url: str) -> None:
    """Whatever the library does: plugins that would connect by themselves get nowhere."""
    with receiver() as inside, egress(30.0) as way:
        port = inside.url.split(":")[2].split("/")[0]
        said = {"act": "tell", "url": url.format(port=port), "title": "t", "body": "b", "proxy": way.url}
        assert chat._run(said, 60.0) == {"taken": False}
        assert inside.bodies == []


# ── a real service over TLS ──────────────────────────────────────────────────


@dataclass
class Trusted:
    hook: Receiver
    url: str


@pytest.fixture
def mattermost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Trusted]:
    """A service at hooks.example, whose certificate the process trusts."""
    made = certificate(tmp_path, "hooks.example", days=2)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(made.file))
    with receiver(tls=made.context) as hook, override_settings(NOTICE_NETWORKS=[ip_network("127.0.0.1/32")]):
        leads_to(monkeypatch, "127.0.0.1")
        port = hook.url.split(":")[2].split("/")[0]
        yield Trusted(hook, f"mmosts://hooks.example:{port}/abcdefgh0123456789abcdefgh")


def test_a_service_is_told(mattermost: Trusted) -> None:
    tell_service(mattermost.url, "A call waits", "https://signalbox.example/waits/1/", seconds=30.0)
    (body,) = mattermost.hook.bodies
    assert "https://signalbox.example/waits/1/" in json.dumps(body)


def test_a_redirect_of_a_service_is_not_followed(mattermost: Trusted) -> None:
    with receiver("127.0.0.2") as inside:
        mattermost.hook.answer, mattermost.hook.location = 307, inside.url
        with pytest.raises(NotTaken):
            tell_service(mattermost.url, "t", "b", seconds=30.0)
        assert inside.bodies == [] and len(mattermost.hook.bodies) == 1


def test_an_address_can_not_switch_the_certificate_off(mattermost: Trusted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REQUESTS_CA_BUNDLE")
    with pytest.raises(NotTaken):
        tell_service(f"{mattermost.url}?verify=no&redirect=yes", "t", "b", seconds=30.0)
    assert mattermost.hook.bodies == []


def test_a_process_that_does_not_end_is_ended(mattermost: Trusted, monkeypatch: pytest.MonkeyPatch) -> None:
    mattermost.hook.slow = True
    monkeypatch.setattr(chat, "_START_SECONDS", 8.0)
    with pytest.raises(NotTaken):
        tell_service(f"{mattermost.url}?rto=600&cto=600", "t", "b", seconds=0.5)


def test_nobody_without_the_token_uses_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    leads_to(monkeypatch, "127.0.0.1")
    with egress(10.0) as way, socket.socket() as client:
        client.connect(("127.0.0.1", way.server_address[1]))
        client.sendall(b"CONNECT hooks.example:443 HTTP/1.1\r\nProxy-Authorization: Basic bm8=\r\n\r\n")
        assert client.recv(100).startswith(b"HTTP/1.1 403")
