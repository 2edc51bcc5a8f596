"""What people ask the console for while they work the cases: one line for each request, and what a case took by them."""

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from tests.cases.agents import FOLDER

PREVIEW = "inbox-item"  # the one panel that a person asks for by hand; the others ask by themselves


@dataclass(frozen=True)
class Asked:
    """One request of a person. `about` is its address with what a form named, in which the ids of a case are looked for."""

    at: float
    who: str
    method: str
    about: str
    panel: str

    @property
    def by_hand(self) -> bool:
        """Whether somebody clicked or pressed for it."""
        return self.panel in ("", PREVIEW)

    def names(self, ids: Sequence[UUID]) -> bool:
        """Whether it is about one of these."""
        return any(str(id) in self.about for id in ids)


def noted(get_response: Callable[[HttpRequest], HttpResponseBase]) -> Callable[[HttpRequest], HttpResponseBase]:
    """Middleware that appends a line for each request of somebody who is signed in."""

    def middleware(request: HttpRequest) -> HttpResponseBase:
        response = get_response(request)
        if request.user.is_authenticated and response.status_code < 500:
            named = " ".join(request.POST.getlist("wait")) if request.method == "POST" else ""
            about, panel = f"{request.get_full_path()} {named}", request.headers.get("HX-Target", "")
            line = [time.time(), request.user.get_username(), request.method, about, panel]
            with note_file().open("a") as file:
                file.write(json.dumps(line) + "\n")
        return response

    return middleware


def note_file() -> Path:
    """Where the lines are."""
    return Path(os.environ[FOLDER]) / "requests.jsonl"


def asked_by(who: str) -> Iterator[Asked]:
    """What a person asked for by hand, in order."""
    if not note_file().exists():
        return
    for line in note_file().read_text().splitlines():
        asked = Asked(*json.loads(line))
        if asked.who == who and asked.by_hand:
            yield asked


@dataclass(frozen=True)
class Took:
    """How many requests a case took, and when its first page came; None while nobody has opened one."""

    requests: int = 0
    opened: float | None = None


def took(requests: Sequence[Asked], cases: dict[int, Sequence[UUID]]) -> dict[int, Took]:
    """By case, what it took. A request that names no case counts for the one that is named next, as the way there."""
    found = dict.fromkeys(cases, Took())
    before = 0
    for asked in requests:
        of = [number for number, ids in cases.items() if asked.names(ids)]
        for number in of:
            found[number] = Took(found[number].requests + before + 1, found[number].opened or asked.at)
        before = 0 if of else before + 1
    return found
