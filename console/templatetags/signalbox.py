"""Template tags of the console: signs, moments, ids and untrusted text. /design/ shows each of them."""

import re
from datetime import timedelta
from functools import lru_cache
from typing import Any
from uuid import UUID, uuid4

from django import template
from django.template import Context
from django.templatetags.static import static
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from accounts.states import Permission
from checkpoints.states import stage_of
from console.lists.listing import Listing
from console.pages import amounts, room, signs, text, times, words
from console.pages.arguments import ArgumentRow, argument_rows
from console.pages.glossary import glossary, word_key
from console.pages.inbox.filter import came_from
from console.pages.inbox.items import inbox_counts
from console.pages.markdown import report_html
from console.pages.stored import brief_of
from console.templatetags import moments
from runs.models import Run
from runtime.sentences import path_of

register = template.Library()
register.tags |= moments.register.tags
register.filters |= moments.register.filters
_UNNAMED = re.compile(r"run-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


# ── the top bar ──────────────────────────────────────────────────────────────


@register.simple_tag(takes_context=True)
def nav_items(context: Context) -> list[dict[str, Any]]:
    """The doors of the top bar, the current one marked."""
    return room.doors(context["request"].path, context.get("actor"))


@register.simple_tag(takes_context=True)
def may(context: Context, permission: str) -> bool:
    """Whether the person of the page holds a permission."""
    actor = context.get("actor")
    return bool(actor and actor.may(Permission(permission)))


@register.simple_tag(takes_context=True)
def inbox_total(context: Context) -> str:
    """How many things need a person, for the count in the top bar."""
    actor, known = context.get("actor"), context.get("inbox_total")
    if known is not None:
        return str(known)
    return inbox_counts(actor).said if actor else "0"


@register.simple_tag(takes_context=True)
def inbox_back(context: Context) -> str:
    """The inbox as the reader left it, by what the link carried on which they came."""
    return came_from(context["request"]).url


@register.simple_tag(takes_context=True)
def inbox_carried(context: Context) -> str:
    """The same, for a link to an item or an act on it, so that the way back stays."""
    return came_from(context["request"]).carried


@register.filter
def notice_path(subject: str, id: UUID) -> str:
    """The page that a notice leads to."""
    return path_of(subject, id)


@register.filter
def is_over(row: Any, listing: Listing) -> bool:
    """True for a row of a list with which nothing is due any more."""
    return listing.over(row)


@register.simple_tag
def hold_words(run: Run) -> words.Held:
    """Why a run is held, in words, and what helps."""
    return words.held(run.hold_reason or "", run.hold_detail)


@register.simple_tag
def live_panel(panel_id: str, url: str, topics: str) -> SafeString:
    """The attributes of a panel that asks for itself at `url` when one of the space-separated `topics` is hinted."""
    triggers = ", ".join(f"live:{topic.replace(':', '-')} from:body" for topic in topics.split())
    attributes = (
        'id="{}" data-live="{}" hx-get="{}" hx-trigger="{}" hx-target="this" hx-swap="morph:outerHTML" '
        'hx-sync="this:queue last"'
    )
    return format_html(attributes, panel_id, topics, url, triggers)


@register.simple_tag
def swap_link(url: str, panel_id: str, trigger: str = "click") -> SafeString:
    """The attributes of a link that swaps the panel which asks for itself, and works as a plain link without script.

    It takes the place of what the panel itself is asking; such a panel carries data-here, so that it goes on from there.
    Rows of a list take `trigger="preview"`: list.js sends it for a click and for j and k where there is room.
    """
    attributes = (
        'href="{0}" hx-get="{0}" hx-target="#{1}" hx-swap="morph:outerHTML" hx-replace-url="true" hx-trigger="{2}" '
        'hx-sync="#{1}:replace"'
    )
    return format_html(attributes, url, panel_id, trigger)


@register.simple_tag
def event_link(look: Any, key: str, trigger: str = "") -> SafeString:
    """A link of the run page that looks at another event and keeps the rest of the URL.

    What it swaps, and how, is inherited from the element around it, so that a long list of them weighs little.
    """
    waits = format_html(' hx-trigger="{}"', trigger) if trigger else ""
    return format_html('href="{0}" hx-get="{0}"{1}', look.url_at(key), waits)


# ── signs ────────────────────────────────────────────────────────────────────


# What is drawn of a sign depends on nothing else, and a list draws hundreds: each is made once.
@register.simple_tag
@lru_cache(maxsize=1024, typed=True)
def icon(name: str, label: str = "", extra: str = "") -> SafeString:
    """An icon of static/icons.svg. With a `label` it is announced, without one it is decoration."""
    said = format_html('role="img" aria-label="{}"', label) if label else mark_safe('aria-hidden="true"')
    return format_html(
        '<svg class="{}" {}><use href="{}#i-{}"/></svg>', f"i {extra}".strip(), said, static("icons.svg"), name
    )


@register.simple_tag
@lru_cache(maxsize=1024, typed=True)
def state_chip(machine: str, status: str, *, large: bool = False, note: str = "", word: str = "") -> SafeString:
    """The chip of a state: `{% state_chip "run" run.status %}`. Machines are the keys of signs.MACHINES.

    A click on it explains the state. Inside another link say `{% state_sign %}`: it is drawn alike and explains nothing. `word`
    takes the place of a state whose name says less than is known; the name is then said on hover and in the help.
    """
    shape, means, inside = _chip(machine, status, large, note, word)
    return helped(f"{machine}-{status}", inside, shape, means)


@register.simple_tag
def state_sign(machine: str, status: str, *, large: bool = False, note: str = "") -> SafeString:
    """The same chip where a link can't be: inside another link, a label or a summary."""
    shape, means, inside = _chip(machine, status, large, note)
    return format_html('<span class="{}" title="{}">{}</span>', shape, means, inside)


def _chip(machine: str, status: str, large: bool, note: str, said: str = "") -> tuple[str, str, SafeString]:
    sign = signs.sign_of(machine, status)
    shape = f"chip is-{sign.lamp}{' chip--off' if sign.over else ''}{' chip--large' if large else ''}"
    word = f"{said or status.replace('_', ' ')} {note}".strip()
    means = f"{status.replace('_', ' ')}: {sign.means}" if said else sign.means
    return shape, means, format_html("{}{}", icon(sign.icon), word)


def helped(key: str, inside: object, shape: str = "", means: str = "") -> SafeString:
    """A link to an entry of the glossary. With script its help opens in place; without one the glossary opens there."""
    shown = '<a class="{}" href="{}#{}" data-help="{}" title="{}">{}</a>'
    return format_html(shown, shape, reverse("design"), key, key, means, inside)


@register.simple_tag
def term(word: str, shown: str = "") -> SafeString:
    """A word of docs/glossary.md inside a text, which explains itself: `{% term "fence" %}`."""
    entry = glossary()[word_key(word)]
    return helped(entry.key, shown or word, "term", entry.means)


@register.filter
def codes(text: str) -> SafeString:
    """Codes with commas between them; each that the glossary knows explains itself on a click."""
    return format_html_join(", ", "{}", ((_code(code),) for code in text.split(", ") if code))


def _code(code: str) -> SafeString:
    entry = glossary().get(f"code-{code}")
    shown = format_html('<code class="small">{}</code>', code)
    return helped(entry.key, shown, "term", entry.means) if entry else shown


@register.simple_tag
@lru_cache
def effect(effect_class: str) -> SafeString:
    """The tag of an effect class: no colour, the heavier the ink, the harder to take back."""
    weight = signs.EFFECT[effect_class]
    inside = format_html("{}{}", icon(weight.icon), effect_class)
    return helped(f"effect-{effect_class}", inside, f"effect effect--{weight.step}", weight.means)


@register.simple_tag
def sign_icon(machine: str, status: str) -> SafeString:
    """Only the icon of a state, announced by its word."""
    return icon(signs.sign_of(machine, status).icon, label=status.replace("_", " ").lower())


@register.filter
def lamp(status: str, machine: str) -> str:
    """The class that carries a state's colours: `class="row {{ run.status|lamp:"run" }}"`."""
    return f"is-{signs.sign_of(machine, status).lamp}"


@register.filter
def happened(verdict: str) -> str:
    """A verdict in words."""
    return words.VERDICT[verdict]


@register.filter
def decided_words(verdict: str) -> str:
    """What was decided, in words."""
    return words.SAID[verdict]


@register.filter
def source_words(source: str) -> str:
    """Where evidence comes from, in words."""
    return words.SOURCE[source]


@register.filter
def closing_words(closing: str) -> str:
    """How a flag was closed, in words."""
    return words.CLOSING[closing]


@register.filter
def phase_words(phase: str) -> str:
    """A phase of the loop in words."""
    return words.PHASE[phase]


@register.filter
def status_words(status: str) -> str:
    """A status inside a sentence or a table, where no chip says it."""
    return words.plain(status)


@register.filter
def refusal_words(kind: str) -> str:
    """What was refused, in words."""
    return words.REFUSAL[kind]


@register.filter
def stage_words(phase: str) -> str:
    """Which logical phase of the loop a phase belongs to."""
    return stage_of(phase).lower()


@register.filter
def trigger_words(trigger: str) -> str:
    """Why a revision was saved, in words."""
    return words.TRIGGER[trigger]


@register.filter
def person(label: str) -> SafeString:
    """Who did it, from a stored label: `person:mo` reads `mo`, `worker:3` stays as it is."""
    return text.exact(label.removeprefix("person:"), one_line=True)


@register.filter
def seconds(length: float | None) -> str:
    """A length in seconds as it is read; a dash where nothing was measured."""
    return "–" if length is None else times.span(timedelta(seconds=length))


@register.filter
def share(part: int, whole: int) -> str:
    """A part of a whole in percent; nothing of nothing is not said."""
    return f"{100 * part / whole:.0f} %" if whole else ""


@register.filter
def is_person(label: str) -> bool:
    """True for the label of a person, false for that of a clock, a worker or a policy."""
    return label.startswith("person:")


@register.filter
def thread_name(key: str) -> SafeString:
    """What a thread is called; the tail of its id when nobody named it."""
    return moments.short_id(key) if _UNNAMED.fullmatch(key) else text.exact(key, one_line=True)


@register.filter
def grouped(count: int) -> str:
    """A count with its thousands apart: 10,000."""
    return f"{count:,}"


@register.simple_tag
def needs_role(permission: str, what: str = "This") -> str:
    """Why an act is off for somebody whose roles do not hold its permission."""
    return words.needs_role(Permission(permission), what)


@register.filter
def with_code(said: str) -> SafeString:
    """A sentence of the documents: what stands between backticks is code."""
    parts = said.split("`")
    return format_html_join(
        "", "{}", ((format_html("<code>{}</code>", one) if i % 2 else one,) for i, one in enumerate(parts))
    )


@register.filter
def more_or_less(difference: int) -> str:
    """By how much something grew or shrank, with its sign: `+1,024`, `−7`."""
    return f"{difference:+,}".replace("-", "−")


@register.filter
def size(count: int) -> str:
    """The size of something stored: `1,729 bytes`."""
    return amounts.size(count)


# ── untrusted text ───────────────────────────────────────────────────────────


@register.filter
def exact(value: object, mode: str = "") -> SafeString:
    """Any text, inert, with odd characters named. `exact:"line"` names line feeds too, for titles and table cells."""
    return text.exact("" if value is None else str(value), one_line=mode == "line")


register.filter("short_ids", text.with_short_ids)
# What somebody wrote, as one sentence among others. It goes before `exact`.
register.filter("ended", words.ended)


@register.filter
def plain(value: object) -> str:
    """Any text for places that hold no markup (a page's title, SVG text): odd characters as [U+200B]."""
    return text.plain(str(value))


@register.filter
def arguments(value: Any) -> list[ArgumentRow]:
    """Rows of canonical JSON arguments; include components/arguments.html with the result to show them."""
    return argument_rows(value)


@register.filter
def brief(value: Any) -> SafeString | str:
    """The short facts of a stored object; empty for any other value."""
    return brief_of(value) if isinstance(value, dict) else ""


@register.filter
def markdown_report(body: str) -> SafeString:
    """A report body as safe HTML."""
    return report_html(body)


@register.simple_tag
def form_key() -> str:
    """A key that one form of one page has, so that it acts once (console.pages.room)."""
    return str(uuid4())
