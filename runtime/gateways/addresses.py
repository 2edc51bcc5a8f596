"""Where a notice may go: an address that somebody wrote, resolved and checked against private networks.

It is checked when it is saved and again right before each delivery, which then goes to exactly the address that was checked:
a name that leads elsewhere a moment later leads nobody there.
"""

import ipaddress
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

from django.conf import settings

Ip = ipaddress.IPv4Address | ipaddress.IPv6Address
MAX_LENGTH = 2000
_PORTS = {"https": 443, "http": 80}
# IPv6 networks that lead to an IPv4 address, and how many bits stand behind that address.
_CARRIERS = ((ipaddress.IPv6Network("64:ff9b::/96"), 0), (ipaddress.IPv6Network("2002::/16"), 80))


class AddressRefused(ValueError):
    """Nothing may be sent there. The message says why, and names nothing of the address but its host."""


@dataclass(frozen=True)
class Target:
    """An address that was checked just now. `ip` is where the connection goes, whatever the name says later."""

    scheme: str
    host: str
    port: int
    path: str
    ip: Ip

    @property
    def authority(self) -> str:
        """The host as the other side is addressed, with the port where it is not the usual one."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"


def checked(url: str) -> Target:
    """The target that an address leads to. Raises AddressRefused.

    All the IP addresses of its name must be allowed, since any of them may be the next that is taken.
    """
    scheme, host, port, path = _parts(url)
    ips = _resolved(host, port)
    for ip in ips:
        if not _allowed(ip):
            raise AddressRefused(f"{host} leads to {ip}, which is not a public address.")
    if scheme == "http" and not all(_named(ip) for ip in ips):
        raise AddressRefused(
            "Only https:// addresses are taken, so that nobody on the way can read or change a notice."
        )
    return Target(scheme, host, port, path, ips[0])


def _parts(url: str) -> tuple[str, str, int, str]:
    if len(url) > MAX_LENGTH or any(ord(char) <= 32 or ord(char) == 127 for char in url):
        raise AddressRefused(f"An address has at most {MAX_LENGTH} characters, and no spaces.")
    if not url.isascii():
        raise AddressRefused("An address is plain ASCII: a host in its xn-- form, and the rest written with %.")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise AddressRefused("This is not an address.") from error
    if parts.scheme not in _PORTS or not parts.hostname:
        raise AddressRefused("An address begins with https:// and a host.")
    if parts.username is not None or parts.password is not None:
        raise AddressRefused("An address holds no user name and no password.")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return parts.scheme, parts.hostname, port or _PORTS[parts.scheme], path


def _resolved(host: str, port: int) -> list[Ip]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise AddressRefused(f"{host} is not known: its name leads to no address.") from error
    return [ipaddress.ip_address(address[0]) for *_, address in found]


def _allowed(ip: Ip) -> bool:
    return _named(ip) or _public(ip)


def _named(ip: Ip) -> bool:
    """Whether whoever runs this installation has named a network of this address."""
    networks: Iterable[ipaddress.IPv4Network | ipaddress.IPv6Network] = settings.NOTICE_NETWORKS
    return any(ip in network for network in networks)


def _public(ip: Ip) -> bool:
    inner = _carried(ip)
    return ip.is_global and not ip.is_multicast and (inner is None or _public(inner))


def _carried(ip: Ip) -> ipaddress.IPv4Address | None:
    """The IPv4 address that an IPv6 address stands for, if it does."""
    if isinstance(ip, ipaddress.IPv4Address):
        return None
    for network, behind in _CARRIERS:
        if ip in network:
            return ipaddress.IPv4Address((int(ip) >> behind) & 0xFFFFFFFF)
    return ip.ipv4_mapped
