"""What was read again since the last ask, because it had become too old: what it said then and what it says now."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from checkpoints.models import Lapse
from console.pages.decision.alike import Values, number, short_values
from console.pages.decision.lapsing import Held
from console.pages.decision.points import Point
from console.pages.text import exact
from console.templatetags.moments import when


@dataclass(frozen=True)
class Reading:
    """One fact that a run let go of, and what was read in its place, if anything was. Either may not be at hand."""

    lapse: Lapse
    old: Held | None
    new: Held | None

    @cached_property
    def changed(self) -> list[tuple[str, str, str]]:
        """By path, what it said and what it says, numbers first. A value that is no longer there, or new, is an empty text."""
        was, now = _values(self.old), _values(self.new)
        if not was or not now:
            return []
        paths = [path for path in {**was, **now} if was.get(path) != now.get(path)]
        found = [(path, was.get(path, ""), now.get(path, "")) for path in paths]
        return sorted(found, key=lambda one: number(one[2]) is None)

    @property
    def same(self) -> SafeString:
        """What it says as before, on one line."""
        return format_html_join(
            " · ", "{} {}", ((_text(path), _text(value)) for path, value in _values(self.new).items())
        )


def _values(held: Held | None) -> Values:
    return short_values(held.fact.stored.value) if held is not None and held.fact.stored is not None else {}


def _text(text: str) -> SafeString:
    return exact(text, one_line=True)


def readings_of(let_go: Sequence[Lapse], held: Sequence[Held]) -> list[Reading]:
    """What the run let go of before it asked, the newest last, and what it read in its place."""
    by_call = {one.fact.ref.call: one for one in held}
    found = []
    for lapse in let_go:
        old = by_call.get(lapse.tool_call_id)
        again = (one for one in held if not one.gone and one.fact.ref.ok and _takes_its_place(one, lapse, old))
        found.append(Reading(lapse, old, next(again, None)))
    return found


def _takes_its_place(one: Held, lapse: Lapse, old: Held | None) -> bool:
    """Whether a fact is the same step read again, or a result of the same tool that has a value in common with the old one."""
    if one.fact.ref.step_name.partition("~")[0] == lapse.step_name:
        return True
    if old is None or one.fact.call is None or old.fact.call is None or one.fact.call.tool != old.fact.call.tool:
        return False
    return bool(set(_values(one).items()) & set(_values(old).items()))


def reread_points(readings: Sequence[Reading]) -> list[Point]:
    """What changed in the facts since the last ask, the gravest first."""
    found = [_point(one) for one in readings]
    return sorted(found, key=lambda point: ("stop", "caution", "neutral").index(point.lamp))


def _point(one: Reading) -> Point:
    step = format_html("<code>{}</code>", _text(one.lapse.step_name))
    if one.new is None:
        text = format_html("{} was too old for the last approval, and nothing was read in its place", step)
        return Point("caution", "clock", text, "The call that waits now does not rest on it any more.")
    read = _read(one.new)
    if one.changed:
        told = format_html_join("; ", "{}: {} → {}", _shown(one))
        text = format_html("What was read has changed since the last ask: {}", told)
        return Point("stop", "retry", text, format_html("{} {}", read, _counts(one.new)))
    if not _values(one.old):
        text = format_html("{} was read again since the last ask. It says now: {}", step, one.same)
        return Point(
            "caution", "retry", text, format_html("{} What it said then is not at hand. {}", read, _counts(one.new))
        )
    text = format_html("{} was read again since the last ask, and says the same: {}", step, one.same)
    return Point("neutral", "retry", text, read)


def _shown(one: Reading) -> list[tuple[SafeString, SafeString, SafeString]]:
    return [
        (
            format_html("<code>{}</code>", _text(path)),
            format_html("<del>{}</del>", _text(was) if was else "nothing"),
            format_html("<ins>{}</ins>", _text(now) if now else "nothing"),
        )
        for path, was, now in one.changed
    ]


def _read(new: Held) -> SafeString:
    result = new.fact.call.result if new.fact.call else None
    return format_html(
        "Read again {} by <code>{}</code>.", when(result.at) if result else "", _text(new.fact.ref.step_name)
    )


def _counts(new: Held) -> str:
    """What an approval does now: the opposite of what it did the last time, unless this reading is too old as well."""
    return "" if new.lapsed else "A call that is approved now is sent on what it says now."
