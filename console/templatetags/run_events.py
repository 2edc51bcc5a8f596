"""The events of a run page, each drawn in one pass (ADR 0090): a bar of the axis, and its row in the table below."""

from typing import Any

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from django.utils.text import slugify

from console.pages.run.events import Event
from console.pages.run.look import Look
from console.pages.run.shapes import Bar
from console.pages.text import exact, plain
from console.templatetags.moments import when_exact
from console.templatetags.signalbox import event_link, icon

register = template.Library()

_RECT = '<rect class="{}" x="{}%" y="{}" width="{}%" height="{}" rx="{}"{}'
_ROW = (
    '<tr id="e-{}" data-row{}><td data-l="Time">{}</td><td data-l="Kind">{}</td>'
    '<td data-l="What" class="is-{}">{}<a class="plain" data-row-link {}>{}</a></td>'
    '<td data-l="Revision">{}</td><td data-l="Fence">{}</td></tr>'
)
_CLOSED, _OPEN = mark_safe("/>"), mark_safe(">")
_CURRENT = mark_safe(' class="is-now" aria-current="true"')


@register.simple_tag
def axis_bar(bar: Bar, look: Look) -> SafeString:
    """A bar with its title; one that has an event is a link to it, wide enough for a finger. The one that is looked at is framed."""
    title, x, width = plain(bar.title), bar.x, bar.width
    if bar.key:
        drawn = format_html(
            '<a tabindex="-1" {}><title>{}</title>{}{}</a>',
            event_link(look, bar.key),
            title,
            format_html(_RECT, bar.shape, x, bar.y, width, bar.height, 1, _CLOSED),
            format_html('<rect class="hit" x="{}%" y="{}" width="{}%" height="24"/>', x, bar.y - 7, width),
        )
    else:
        drawn = format_html(
            "{}<title>{}</title></rect>", format_html(_RECT, bar.shape, x, bar.y, width, bar.height, 1, _OPEN), title
        )
    frame = format_html(_RECT, "pick", x, bar.y - 3, width, bar.height + 6, 2, _CLOSED) if bar.picked else ""
    return format_html("{}{}\n", drawn, frame)


@register.simple_tag
def event_row(event: Event, look: Look, current_key: str) -> SafeString:
    """A row of the table; the event that is looked at is marked."""
    return format_html(
        _ROW,
        slugify(event.key),
        _CURRENT if event.key == current_key else "",
        when_exact(event.at),
        event.kind,
        event.lamp,
        "" if event.lamp == "neutral" else format_html("{} ", icon(event.icon, extra="i--lamp")),
        event_link(look, event.key, "preview"),
        exact(event.what, one_line=True),
        _or_nothing(event.revision),
        _or_nothing(event.fence),
    )


def _or_nothing(number: Any) -> Any:
    return "" if number is None else number
