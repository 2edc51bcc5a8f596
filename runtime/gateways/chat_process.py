"""What runs apart from a worker: one notice to one chat service through the `apprise` library, let out by one proxy only.

Reads {"act": "look" | "tell", "url", "title", "body", "proxy"} from standard input and writes {"service", "host", "port"} or
{"taken"}. It is run by its path, with nothing of Signalbox loaded.
"""

import json
import logging
import sys
from typing import Any
from urllib.parse import urlsplit

# What a process could reach others by, beside the connection to the proxy.
_NEVER = frozenset(
    {
        *("socket.bind", "socket.sendto", "socket.sendmsg"),
        *("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.forkpty"),
    }
)


class OnlyThrough:
    """An audit hook: whatever library it is, and however it connects, it gets to the proxy or nowhere."""

    def __init__(self, proxy: str) -> None:
        parts = urlsplit(proxy)
        self._place = (parts.hostname, parts.port)

    def __call__(self, event: str, args: tuple[Any, ...]) -> None:
        """Raise PermissionError for everything that would reach another place."""
        if event in _NEVER:
            raise PermissionError(event)
        if event == "socket.connect" and tuple(args[1][:2]) != self._place:
            raise PermissionError(event)
        if event == "socket.getaddrinfo" and args[0] != self._place[0]:
            raise PermissionError(event)


def main() -> None:
    """Look at an address, or tell."""
    logging.disable(logging.CRITICAL)
    asked = json.load(sys.stdin)
    import apprise  # noqa: PLC0415  it probes what is installed when it is loaded, before anything secret is around

    sys.addaudithook(OnlyThrough(asked["proxy"]))
    service = apprise.Apprise.instantiate(asked["url"], suppress_exceptions=True)
    if service is None:
        json.dump({"service": None}, sys.stdout)
        return
    service.redirects, service.verify_certificate = False, True
    if asked["act"] == "look":
        json.dump({"service": str(service.service_name), "host": service.host, "port": service.port}, sys.stdout)
        return
    several = apprise.Apprise()
    several.add(service)
    taken = several.notify(body=asked["body"], title=asked["title"], body_format=apprise.NotifyFormat.TEXT)
    json.dump({"taken": bool(taken)}, sys.stdout)


if __name__ == "__main__":
    main()
