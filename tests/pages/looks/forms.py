"""The forms of a page, as a browser has them."""

from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

FIELDS = {"input", "textarea", "select", "button"}


@dataclass
class Control:
    """One control. `place` is what a refusal calls it; `choices` are the values that it offers, where it offers some."""

    name: str
    kind: str
    place: str
    required: bool
    hidden: bool
    value: str = ""
    checked: bool = False
    choices: list[str] = field(default_factory=list)


@dataclass
class Form:
    """What is sent by POST to `action`."""

    action: str
    controls: list[Control] = field(default_factory=list)

    def sent(self) -> dict[str, Any]:
        """What a browser would send of it as it stands."""
        body: dict[str, Any] = {}
        for one in self.controls:
            if one.kind in {"file", "submit", "button"} or (one.kind in {"checkbox", "radio"} and not one.checked):
                continue
            body.setdefault(one.name, []).append(one.value or (one.choices[0] if one.choices else ""))
        return body


class Forms(HTMLParser):
    """The POST forms of a page, and where its refusal leads: `field` of what was refused, or None."""

    def __init__(self, html: str, path: str) -> None:
        super().__init__(convert_charrefs=True)
        self.path = path
        self.forms: list[Form] = []
        self.refused: str | None = None
        self._open: Form | None = None
        self._text: Control | None = None
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if given.get("id") == "refused":
            self.refused = given.get("data-field", "")
        if tag == "form" and given.get("method", "").lower() == "post":
            self._open = Form(given.get("action") or self.path)
            self.forms.append(self._open)
        elif tag == "option" and self._text is not None:
            self._text.choices.append(given.get("value", ""))
            if "selected" in given:
                self._text.value = given.get("value", "")
        elif tag in FIELDS and given.get("name") and self._open is not None and "disabled" not in given:
            self._add(tag, given)

    def _add(self, tag: str, given: dict[str, str]) -> None:
        kind = given.get("type", "submit" if tag == "button" else "text") if tag in {"input", "button"} else tag
        one = Control(
            given["name"],
            kind,
            given.get("data-place", given["name"]),
            "required" in given,
            kind == "hidden",
            given.get("value", "on" if kind == "checkbox" else ""),
            "checked" in given,
        )
        assert self._open is not None
        self._open.controls.append(one)
        self._text = one if tag in {"textarea", "select"} else None

    def handle_data(self, data: str) -> None:
        if self._text is not None and self._text.kind == "textarea":
            self._text.value += data.removeprefix("\n")

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._open = None
        if tag in {"textarea", "select"}:
            self._text = None
