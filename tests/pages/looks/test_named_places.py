"""What does not fit in a form is refused by the name of its field, on every page, and nothing is written."""

from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from tests.pages.looks.conftest import Furnished
from tests.pages.looks.forms import Control, Form, Forms
from tests.pages.looks.places import Place
from tests.written_rows import undone

LONG = "abcdefghi" * 10_001
TOLD = {
    "accounts_auditevent",
    "accounts_audithead",
    "django_session",
    "accounts_passwordtry",
    "accounts_sentform",
}  # that somebody was refused is kept; that a form was sent is taken back where it was refused
GOOD = {
    "cap": "999999999",
    "hours": "1",
    "max_uses": "1",
    "signed_with": "",
    "condition": "",
}
OF_ANOTHER = {"then"}  # of a verdict that is not chosen: it is left out
ELSEWHERE = {
    "sign-in",
    "inbox-batch",
}  # a page that says it below each field, and never which of the two was wrong; one whose fields are repeated
FREE = {"text", "textarea", "password", "email", "search", "url"}
BAD: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(FREE, ("a\x00b", LONG)),
    "number": ("many", "-1", "9" * 30),
    "datetime-local": ("soon", "9" * 30),
    "date": ("soon",),
    "select": ("nonsense",),
    "radio": ("nonsense",),
}


def wrong_values(one: Control) -> list[Any]:
    """What does not fit a control, with nothing at all where something is required."""
    if one.hidden or one.kind in {"file", "submit", "button"} or one.name in OF_ANOTHER:
        return []
    return [*BAD.get(one.kind, ()), *([""] if one.required and one.kind in FREE else [])]


def filled(form: Form) -> dict[str, Any]:
    """What a person might send of a form: every text that is required says something, and of each set of radios one is chosen."""
    body = form.sent()
    for one in form.controls:
        if one.kind in FREE and not one.value:
            body[one.name] = [GOOD.get(one.name, "walked")]
        if one.kind == "submit":
            body[one.name] = [one.value]
        if one.kind == "datetime-local":
            body[one.name] = ["2030-01-01T00:00"]
        if one.kind == "radio":
            body.setdefault(one.name, [GOOD.get(one.name, one.value)])
        if one.kind == "file" and one.required:
            body[one.name] = SimpleUploadedFile("walked.csv", b"walked")
    return body


def asked(client: Client, place: Place) -> list[Form]:
    return Forms(client.get(place.path).content.decode(), place.path.partition("?")[0]).forms


A_THIRD, EVERY = "a third of the routes", "every route"


@pytest.mark.parametrize("which", [A_THIRD, pytest.param(EVERY, marks=pytest.mark.matrix)])
def test_what_does_not_fit_is_refused_by_the_name_of_its_field(furnished: Furnished, which: str) -> None:
    wrong, tried = [], 0
    for place, form in acting(furnished)[:: 3 if which == A_THIRD else 1]:
        client = furnished.client(place.who)
        for one in {control.name: control for control in form.controls}.values():
            for bad in wrong_values(one)[: 1 if which == A_THIRD else None]:
                with undone() as written:
                    answer = client.post(form.action, {**filled(form), one.name: bad})
                refused = Forms(answer.content.decode(), form.action).refused
                tried += 1
                called = (
                    (refused or "arguments") if one.name.startswith("leaf-") else one.place
                )  # named as the tool does
                if answer.status_code != 400 or refused != called or not written <= TOLD:
                    wrong.append((place.name, one.name, str(bad)[:12], answer.status_code, refused, written - TOLD))
    assert not wrong, "\n".join(map(str, wrong))
    assert tried > (10 if which == A_THIRD else 150)


def acting(furnished: Furnished) -> list[tuple[Place, Form]]:
    """The forms of a page of each route; those that stand on several pages once."""
    routes = {one.route: one for one in reversed(furnished.places) if one.route not in ELSEWHERE}
    forms = [(place, form) for place in routes.values() for form in asked(furnished.client(place.who), place)]
    seen: dict[tuple[str, ...], tuple[Place, Form]] = {}
    for place, form in forms:
        seen.setdefault((form.action, *sorted(one.name for one in form.controls if not one.hidden)), (place, form))
    return list(seen.values())
