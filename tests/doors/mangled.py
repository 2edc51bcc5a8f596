"""What a walk sends to every route that nobody meant: mangled queries and bodies, and which names a view reads at all."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

import pytest
from django.http import QueryDict

# Values for one parameter, as they travel. What a number, a date, an id, a choice, a cursor and a text choke on.
TEXTS = (
    "",
    " ",
    "x",
    "-1",
    "0",
    "999",
    "2.5",
    "1e999",
    "NaN",
    "-Infinity",
    "9" * 30,
    "9" * 5000,
    "1_0",
    f"2026-01-01T00:00:00.000000Z~{'9' * 30}~x",
    "0001-01-01T00:00:00.000000Z~0~",
    "9999-12-31T23:59:59.999999Z~0~\x00",
    "٣",
    "²",
    "１２",
    "2026-13-45",
    "2026-02-30T25:61:00Z",
    "0001-01-01T00:00:00+14:00",
    "9999-12-31T23:59:59-12:00",
    "9999-12-31",
    "99999 d",
    "00000000-0000-0000-0000-000000000000",
    "not-an-id",
    "call-",
    "wait-00000000-0000-0000-0000-000000000000",
    "rev:99999999999999999999",
    "rev:²",
    "turn:0:1",
    "a/b",
    "../../etc/passwd",
    "//elsewhere.example/",
    "javascript:alert(1)",
    "'; DROP TABLE runs_run; --",
    "<script>alert(1)</script>",
    "{{ 7|add:7 }}{% csrf_token %}",
    "{0.__class__}{x}%s%(x)s%",
    "[]",
    '{"a": NaN}',
    "[" * 3000,
    "\x00",
    "a\x00b",
    "\r\nSet-Cookie: x=1",
    "\u202e\u200b\ufffe",
    "x" * 20_000,
)
# Bytes that are no UTF-8, and percent signs that escape nothing.
RAW = ("%FF%FE", "%ED%A0%80", "%", "%zz", "%u0041", "+")
SENT = (*(quote(text, safe="") for text in TEXTS), *RAW)
# The few that find the most: sent in every place at once.
HARSH = ("%00", "9" * 5000, "9" * 30, quote("²"), quote("9999-12-31T23:59:59-12:00"), "%FF%FE")


@contextmanager
def names_read(patch: pytest.MonkeyPatch) -> Iterator[set[str]]:
    """The names that whatever runs inside asks of a query string or a form."""
    read: set[str] = set()

    def watched(method: str) -> Any:
        real = getattr(QueryDict, method)

        def watching(self: QueryDict, key: Any, *rest: Any, **named: Any) -> Any:
            read.add(str(key))
            return real(self, key, *rest, **named)

        return watching

    with patch.context() as inside:
        for method in ("get", "getlist", "__getitem__", "__contains__"):
            inside.setattr(QueryDict, method, watched(method))
        yield read
