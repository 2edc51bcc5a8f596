"""Template tags for ids, digests and times: a part of the library `signalbox`, which templates load."""

import re
from datetime import UTC, datetime, timedelta

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from console import clock
from console.pages import text, times

register = template.Library()
_STAMP = re.compile(r"\b(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) UTC\b")


@register.filter
def short_id(value: object) -> SafeString:
    """The tail of an id, which is what differs; the whole id on hover."""
    return format_html('<span class="id" title="{}">…<b>{}</b></span>', value, str(value)[-6:])


@register.filter
def full_id(value: object) -> SafeString:
    """A whole id with its tail strong."""
    return format_html('<span class="id">{}<b>{}</b></span>', str(value)[:-6], str(value)[-6:])


@register.filter
def digest(value: str, length: int = 8) -> SafeString:
    """The head of a SHA-256 in hex; all of it on hover."""
    shown = '<span class="digest" title="sha256 {}"><b>{}</b>…</span>'
    return format_html(shown, value, value[:length])


@register.filter
def full_digest(value: str) -> SafeString:
    """A whole SHA-256 in hex with its head strong."""
    return format_html('<span class="digest"><b>{}</b>{}</span>', value[:8], value[8:])


@register.filter
def when(at: datetime | None) -> SafeString | str:
    """A moment as time of day; the browser rewrites it into the viewer's zone. Empty for None."""
    return _time(at, "clock", times.clock(at, clock.now())) if at else ""


@register.filter
def told(sentence: str) -> SafeString:
    """A sentence of a service as a page says it: each moment in the viewer's zone, each id by its tail, the whole of both on
    hover. What no calendar has stays as it is written.
    """
    return mark_safe(_STAMP.sub(_moment, text.with_short_ids(sentence)))  # noqa: S308 - both are made of escaped text


def _moment(found: re.Match[str]) -> str:
    try:
        return when(datetime.strptime(found[1], "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC))
    except ValueError:
        return found[0]


@register.filter
def when_exact(at: datetime) -> SafeString:
    """A moment with milliseconds, for logs."""
    shown = f"{times.clock(at, clock.now())}.{at.microsecond // 1000:03d}"
    return _time(at, "exact", shown)


@register.filter
def exact_moment(at: datetime) -> str:
    """A moment as ISO 8601 in UTC with milliseconds, for attributes."""
    return times.exact_time(at)


@register.filter
def took(start: datetime, end: datetime) -> str:
    """The length between two moments."""
    return times.span(end - start)


@register.filter
def age(at: datetime | None) -> SafeString | str:
    """How long ago, ticking: `16 min 34 s`. Empty for None."""
    return _time(at, "age", times.span(clock.now() - at)) if at else ""


@register.filter
def left(at: datetime | None) -> SafeString | str:
    """How long until, ticking: `16 min 34 s`. A moment that is over reads `passed`. Empty for None."""
    return _until(at, "left", "{}", "passed")


@register.filter
def to_go(at: datetime | None, past: str = "passed") -> SafeString | str:
    """How long until, in a sentence: `16 min 34 s left`, and `past` where the moment is over. Empty for None."""
    return _until(at, "to-go", "{} left", past)


@register.filter
def within(at: datetime | None, past: str = "passed") -> SafeString | str:
    """How long until, in a sentence: `in 16 min 34 s`, and `past` where the moment is over. Empty for None."""
    return _until(at, "within", "in {}", past)


def _until(at: datetime | None, tick: str, said: str, past: str) -> SafeString | str:
    if at is None:
        return ""
    rest = at - clock.now()
    return _time(at, tick, said.format(times.span(rest)) if rest > timedelta(0) else past, f' data-past="{past}"')


def _time(at: datetime, tick: str, shown: str, more: str = "") -> SafeString:
    exact_at = times.exact_time(at)
    drawn = f'<time datetime="{exact_at}" title="{exact_at}" data-time="{tick}"{more}>{shown}</time>'
    return mark_safe(drawn)  # noqa: S308  digits, and words of our own


@register.simple_tag
def server_now() -> str:
    """The clock of the database, so that ages and deadlines tick by it and not by the viewer's."""
    return times.exact_time(clock.now())
