"""Whether a person looks at what is asked for: pages and the API store a look only then."""

from collections.abc import Mapping
from typing import Protocol


class Asked(Protocol):
    """A request, of a page or of the API."""

    method: str | None

    @property
    def headers(self) -> Mapping[str, str]: ...


def looks(request: Asked) -> bool:
    """False where nobody does: neither a HEAD nor what a browser fetches ahead is a look."""
    ahead = " ".join(request.headers.get(name, "") for name in ("Sec-Purpose", "Purpose", "X-Purpose", "X-Moz"))
    return request.method == "GET" and not any(word in ahead.lower() for word in ("prefetch", "preview", "prerender"))
