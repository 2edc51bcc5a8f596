"""Where a notice may go: every way to write a private address is refused, and the certificate's name stays the one that was written."""

import socket
from ipaddress import ip_network
from typing import Any

import pytest
from django.test import override_settings

from runtime.gateways.addresses import AddressRefused, checked


def leads_to(patch: pytest.MonkeyPatch, *ips: str) -> None:
    def found(host: str, port: int, **_: Any) -> list[Any]:
        return [(socket.AF_UNSPEC, socket.SOCK_STREAM, 6, "", (ip, port)) for ip in ips]

    patch.setattr(socket, "getaddrinfo", found)


@pytest.mark.parametrize(
    "ip",
    [
        *("127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0"),
        *("224.0.0.1", "255.255.255.255", "192.0.2.1", "::1", "::", "fe80::1", "fd00::1", "ff02::1"),
        *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a00:1", "2002:a00:1::", "2002:7f00:1::"),
    ],
)
def test_no_address_that_is_not_public_is_taken(monkeypatch: pytest.MonkeyPatch, ip: str) -> None:
    leads_to(monkeypatch, ip)
    with pytest.raises(AddressRefused, match="is not a public address"):
        checked("https://hooks.example/x")


@pytest.mark.parametrize(
    "host", ["127.1", "2130706433", "0x7f000001", "0177.0.0.1", "localhost", "[::1]", "[::ffff:7f00:1]"]
)
def test_no_spelling_of_this_machine_is_taken(host: str) -> None:
    with pytest.raises(AddressRefused):
        checked(f"https://{host}/x")


@pytest.mark.parametrize(
    "url",
    [
        *("", "hooks.example", "//hooks.example/x", "ftp://hooks.example/x", "file:///etc/passwd", "gopher://a/"),
        *(
            "https://",
            "https://user:pass@hooks.example/",
            "https://user@hooks.example/",
            "https://hooks.example:99999/",
        ),
        *("https://hooks.example/a b", "https://hooks.example/\r\nHost: b", "https://hooks.example/" + "a" * 2000),
        *("https://hooks.example/\u00fc", "https://h\u00f6\u00f6ks.example/x", "https://hooks.example/?q=\u202e"),
        "https://\uff11\uff12\uff17.0.0.1/",
    ],
)
def test_what_is_no_address_of_a_webhook_is_refused(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    leads_to(monkeypatch, "93.184.216.34")
    with pytest.raises(AddressRefused):
        checked(url)


def test_all_addresses_of_a_name_must_be_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    leads_to(monkeypatch, "93.184.216.34", "2606:2800:220:1::1", "192.168.0.9")
    with pytest.raises(AddressRefused, match=r"leads to 192\.168\.0\.9"):
        checked("https://hooks.example/x")


def test_the_connection_goes_to_the_address_that_was_checked_under_the_name_that_was_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    leads_to(monkeypatch, "93.184.216.34", "93.184.216.35")
    target = checked("https://hooks.example:8443/x/y?z=1#part")
    leads_to(monkeypatch, "10.0.0.1")
    assert (str(target.ip), target.authority, target.path) == ("93.184.216.34", "hooks.example:8443", "/x/y?z=1")


def test_plain_http_goes_only_where_whoever_runs_the_installation_has_said(monkeypatch: pytest.MonkeyPatch) -> None:
    leads_to(monkeypatch, "93.184.216.34")
    with pytest.raises(AddressRefused, match="Only https"):
        checked("http://hooks.example/x")
    leads_to(monkeypatch, "10.1.2.3")
    with override_settings(NOTICE_NETWORKS=[ip_network("10.1.2.0/24")]):
        assert checked("http://hooks.example/x").port == 80
        leads_to(monkeypatch, "10.1.3.3")
        with pytest.raises(AddressRefused):
            checked("https://hooks.example/x")
