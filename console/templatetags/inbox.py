"""The rows of the inbox. Each is drawn in one pass: a list has up to two hundred, and in a template a row took half a millisecond."""

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from console.pages.inbox.filter import Filter
from console.pages.inbox.items import Item
from console.pages.text import exact, plain
from console.templatetags.moments import age, left, when
from console.templatetags.signalbox import icon

register = template.Library()

# What a link swaps, and how, is inherited from the element around the rows.
_ROW = (
    '<li class="row is-{lamp}{shape}" id="row-{key}" data-row{current}>{check}{sign}'
    '<div><a class="row__title" title="{plain_title}" href="{url}{carried}" data-row-link hx-get="{here}{key}" hx-trigger="preview">'
    '<span class="clamp">{title}</span></a>'
    '<p class="row__work" title="{plain_run}"><span class="cut">{run}</span>{of_run}</p>'
    '<p class="row__sub" title="{plain_about}"><span class="dim clamp">{about}</span></p></div>'
    '<p class="row__time"><b>{time}</b><span>{beside}</span></p></li>'
)
_CHECK = '<input class="check" type="checkbox" form="picked"{} name="wait" value="{}" aria-label="Pick {}">'
_SINCE = {
    "unknown": "since sent",
    "flags": "since raised",
    "held": "held",
    "approvals": "since asked",
    "questions": "since asked",
}


@register.simple_tag
def inbox_row(item: Item, chosen: Filter, current_key: str) -> SafeString:
    """One item of the list, with its link to the preview; the one that is looked at is marked."""
    is_current, title = item.key == current_key, plain(item.title)
    return format_html(
        _ROW,
        key=item.key,
        lamp=item.lamp,
        shape=" is-current" if is_current else "",
        current=mark_safe(' aria-current="true"') if is_current else "",
        check=_check(item, title),
        sign=icon(item.icon, label=item.word, extra="row__state"),
        plain_title=title,
        title=exact(item.title, one_line=True),
        url=item.url,
        carried=chosen.carried,
        here=chosen.item_prefix,
        plain_run=plain(item.run_title),
        run=exact(item.run_title, one_line=True),
        of_run=format_html(' <span class="row__of">{} of this run</span>', item.of_run) if item.of_run > 1 else "",
        plain_about=plain(item.about),
        about=exact(item.about, one_line=True),
        time=left(item.deadline) if item.deadline else age(item.since),
        beside=when(item.deadline) if item.deadline else "since said" if item.said_by else _SINCE[item.kind],
    )


def _check(item: Item, title: str) -> SafeString:
    """What picks an approval, to be decided with others; nothing in its place for what is not decided together."""
    if item.kind != "approvals":
        return mark_safe("<span></span>")
    return format_html(_CHECK, mark_safe(" data-together") if item.together else "", item.id, title)
