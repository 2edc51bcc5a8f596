"""Chat services through the `apprise` library, in a process of its own that can reach nothing but our proxy.

What is shown for a kind here is shown by tests: it goes out over https, through the proxy, to a public address, follows no
redirect, and ends in time.
"""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runtime.gateways.addresses import MAX_LENGTH, AddressRefused, checked
from runtime.gateways.egress import egress
from runtime.gateways.post import NotTaken

# Scheme of the address, and whether its host is one that a person names.
SERVICES = {
    "slack": False,
    "discord": False,
    "tgram": False,
    "gchat": False,
    "pagerduty": False,
    "workflows": True,  # Microsoft Teams
    "mmosts": True,  # Mattermost over https
}
_PROCESS = Path(__file__).with_name("chat_process.py")
_START_SECONDS = 30.0  # to load the library, on a busy machine
_KEPT = ("PATH", "LANG", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE")
_NOWHERE = "http://127.0.0.1:1"


@dataclass(frozen=True)
class Service:
    """A chat service that an address names, as it may be shown: without what would let somebody write to it."""

    shown: str


def checked_service(url: str) -> Service:
    """The service that an address of the library leads to. Raises AddressRefused."""
    scheme = url.partition("://")[0].lower()
    if scheme not in SERVICES or len(url) > MAX_LENGTH:
        raise AddressRefused(
            f"An address of a chat service begins with one of {', '.join(f'{s}://' for s in SERVICES)}."
        )
    try:
        found = _run({"act": "look", "url": url, "proxy": _NOWHERE}, _START_SECONDS)
    except NotTaken as error:
        raise AddressRefused(f"The address could not be read. {error}") from error
    if found["service"] is None:
        raise AddressRefused(f"This is not an address of {scheme}://; see the documentation of apprise.")
    if not SERVICES[scheme]:
        return Service(found["service"])
    target = checked(f"https://{found['host']}:{found['port'] or 443}/")
    return Service(f"{found['service']} at {target.authority}")


def tell_service(url: str, title: str, body: str, *, seconds: float) -> None:
    """Tell a chat service. Raises NotTaken, and AddressRefused where the way led to a place that is not allowed."""
    checked_service(url)
    with egress(seconds + _START_SECONDS) as way:
        said = {"act": "tell", "url": url, "title": title, "body": body, "proxy": way.url}
        found = _run(said, seconds + _START_SECONDS)
        if way.refused:
            raise AddressRefused(way.refused)
    if not found["taken"]:
        raise NotTaken("The service did not take it.", again=True)


def _run(asked: dict[str, str], seconds: float) -> dict[str, Any]:
    """What the process says. It ends in time, whatever it is doing. Raises NotTaken."""
    environment = {name: os.environ[name] for name in _KEPT if name in os.environ}
    proxied = {"HTTPS_PROXY": asked["proxy"], "HTTP_PROXY": asked["proxy"], "NO_PROXY": ""}
    try:
        done = subprocess.run(
            [sys.executable, "-I", str(_PROCESS)],
            input=json.dumps(asked),
            env={**environment, **proxied},
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise NotTaken("It did not end in time.", again=True) from error
    if done.returncode != 0:
        raise NotTaken("The library failed.", again=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found
