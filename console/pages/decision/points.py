"""What stands out about a call that waits: found by comparing it with what is stored, and said in words, the gravest first.

Nothing here judges a call. Each point is a fact that a reader could find by laying two pages side by side.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from console.pages.arguments import ArgumentRow
from console.pages.decision.alike import (
    Values,
    are_numbers,
    counted,
    far_off,
    is_amount,
    is_steady,
    larger,
    moved_point,
    nearest,
    number,
    short_values,
)
from console.pages.decision.earlier import Earlier, approved_in
from console.pages.diff import Line, difference, json_pieces, within
from console.pages.legible import differing, legible
from console.pages.stored import Stored
from console.pages.text import exact
from console.templatetags.moments import when
from console.templatetags.signalbox import person
from receipts.models import ToolCall

NAMED = 6  # odd characters, and changed lines, that are named one by one
AROUND = 8  # words beside what changed in a long text
FEW = 3  # amounts are held against those of other steps where there are so many
QUOTED = 40  # characters: a longer value is named here, and read in the call below
_WORDS = re.compile(r"\s+|\S+")


@dataclass(frozen=True)
class Point:
    """One thing that stands out. `why` says what it means or where it comes from."""

    lamp: str
    icon: str
    text: SafeString
    why: SafeString | str = ""


def points_of(
    call: ToolCall,
    rows: Sequence[ArgumentRow],
    arguments: Stored,
    earlier: Sequence[Earlier],
    read: Mapping[str, str],
) -> list[Point]:
    """What stands out about a call, against the earlier calls of its tool on which people have decided. `rows`: its arguments as
    whoever looks is shown them; `arguments`: what anybody may be shown of them, which is held against the earlier ones; `read`:
    by path, the step that has read the very value which stands there.
    """
    approved = approved_in(earlier)
    same = [one for one in approved if one.call.step_name == call.step_name]
    now = short_values(arguments.value)
    return [
        *(_odd(row) for row in rows if row.odd),
        *_rejected(call, arguments, earlier),
        *_redefined(call, same or approved),
        *_values(now, same, approved, read),
        *_changed(arguments, same),
        *([] if approved else [_first(call)]),
    ]


def _path(path: str) -> SafeString:
    return format_html("<code>{}</code>", exact(path, one_line=True))


def _value(text: str, other: str = "") -> SafeString:
    """A value in quotes, with the characters marked in which it differs from another one."""
    return format_html("“{}”", legible(text, marks=differing(text, other)[0]))


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


# ── characters ───────────────────────────────────────────────────────────────


def _odd(row: ArgumentRow) -> Point:
    named = format_html_join(", ", "{} {}", ((odd.point, odd.name) for odd in row.odd[:NAMED]))
    more = f" and {len(row.odd) - NAMED} more" if len(row.odd) > NAMED else ""
    text = format_html("Odd character{} in {}: {}{}", "" if len(row.odd) == 1 else "s", _path(row.path), named, more)
    return Point(
        "caution", "caution", text, "Two texts that look alike can be two texts. Here each is named where it stands."
    )


# ── what was decided before ──────────────────────────────────────────────────


def _rejected(call: ToolCall, arguments: Stored, earlier: Sequence[Earlier]) -> Iterator[Point]:
    """The newest rejection of such a call: in this run, or of the same step where nothing was approved since."""
    of_step = [one for one in earlier if one.call.step_name == call.step_name or one.call.run_id == call.run_id]
    if not of_step or of_step[0].approved:
        return
    said = of_step[0]
    where = "in this run" if said.call.run_id == call.run_id else "in another run"
    instead = call.author == said.actor and call.instead_of_id == said.call.id
    did = "rejected the model’s call and wrote this one in its place" if instead else f"rejected a call like it {where}"
    text = format_html("{} {}, {}: “{}”", person(said.actor), did, when(said.at), exact(said.reason))
    yield Point("stop", "rejected", text, _differs(arguments, said))


def _differs(arguments: Stored, said: Earlier) -> SafeString:
    found = difference(json_pieces(said.arguments), json_pieces(arguments.value))
    lines = [line for line in found.lines if isinstance(line, Line) and line.kind != "same"]
    if not lines:
        return format_html("{}", "This one has the same arguments.")
    told = format_html_join("; ", "{}: {}", ((_path(_label(line)), _line(line)) for line in _named(lines)))
    return format_html("What differs from it: {}{}.", told, _and_more(len(lines) - len(_named(lines))))


def _redefined(call: ToolCall, approved: Sequence[Earlier]) -> Iterator[Point]:
    if not approved or approved[0].call.tool_hash == call.tool_hash:
        return
    then = approved[0].call
    was, now = (exact(one.tool_version, one_line=True) for one in (then, call))
    versions = format_html("Version {} then, version {} now", was, now)
    if then.tool_version == call.tool_version:
        versions = format_html("Both call themselves version {}", now)
    others = sum(one.call.tool_hash != call.tool_hash for one in approved)
    text = format_html("{} was defined anew since it was approved last", _path(call.tool))
    known = f"All {others} approved calls" if others == len(approved) else f"{others} of {len(approved)} approved calls"
    why = format_html(
        "{}. {} went to another definition: the same arguments may do something else by now.", versions, known
    )
    yield Point("stop", "caution", text, why)


def _first(call: ToolCall) -> Point:
    text = format_html("Nobody has approved a call of {} before", _path(call.tool))
    return Point(
        "neutral", "flag", text, "Looked for in the newest runs of this agent. There is nothing to hold it against."
    )


# ── values ───────────────────────────────────────────────────────────────────


def _values(
    now: Values, same: Sequence[Earlier], approved: Sequence[Earlier], read: Mapping[str, str]
) -> Iterator[Point]:
    """Values that look like approved ones, numbers of another size, and values that were never there."""
    of_step, of_tool = counted([one.values for one in same]), counted([one.values for one in approved])
    nothing: Counter[str] = Counter()
    fresh, plain = [], []
    for path, value in now.items():
        anywhere = of_tool.get(path, nothing)
        seen = of_step.get(path, nothing) if same else anywhere
        if value in seen:
            continue
        near = None if is_amount(value) else nearest(value, anywhere)
        if near is not None:
            text = format_html(
                "{} is {}: {} against {}", _path(path), _value(value, near.value), near.how, _value(near.value, value)
            )
            why = f"That one was approved {_times(near.times)}. This one never was."
            yield Point("stop", "caution", text, why)
            continue
        size = _size(path, value, [one.values[path] for one in reversed(same) if path in one.values])
        if not same and is_amount(value):
            size = _against_all(path, value, [one.values[path] for one in approved if path in one.values])
        if size is not None and size.lamp == "neutral":
            plain.append(size)
        elif size is not None:
            yield size
        elif number(value) is None and (is_steady(seen or anywhere) or are_numbers(seen or anywhere)):
            fresh.append((path, value, anywhere[value]))
    # What nothing speaks against comes last.
    for known in (False, True):
        part = [one for one in fresh if (one[0] in read) == known]
        if part:
            yield _new(part, len(same), len(approved), sorted({read[path] for path, *_ in part if known}))
    yield from plain


def _size(path: str, value: str, before: Sequence[str]) -> Point | None:
    """A number that is another one than before, the newest of those last: with its point moved, or larger than any."""
    now, then = number(value), [number(one) for one in before]
    numbers = [one for one in then if one is not None]
    if now is None or not numbers or len(numbers) != len(then):
        return None
    moved = moved_point(now, numbers[-1])
    if moved:
        text = format_html(
            "{} is {}: {} the last one, {}", _path(path), _value(value, before[-1]), moved, _value(before[-1], value)
        )
        return Point("stop", "caution", text, "The digits are the same; the decimal point is not where it was.")
    more = larger(now, numbers)
    if not more:
        return None
    text = format_html("{} is {}: larger than any that was approved", _path(path), _value(value))
    return Point("caution", "caution", text, f"It is {more}.")


def _against_all(path: str, value: str, before: Sequence[str]) -> Point | None:
    """An amount of a step that is new, against those of all approved calls of the tool."""
    now, numbers = number(value), [one for text in before if (one := number(text)) is not None]
    if now is None or len(numbers) < FEW or len(numbers) != len(before):
        return None
    off = far_off(now, numbers)
    low, middle, high = min(numbers), sorted(numbers)[len(numbers) // 2], max(numbers)
    why = f"The {len(numbers)} approved calls of this tool that were asked for earlier went from {low:,f} to {high:,f}, half of them up to {middle:,f}."
    text = format_html("{} is {}{}", _path(path), _value(value), f": {off}" if off else "")
    return Point("caution" if off else "neutral", "caution" if off else "flag", text, why)


def _new(fresh: Sequence[tuple[str, str, int]], same: int, approved: int, steps: Sequence[str]) -> Point:
    """Values that no earlier call had. `steps`: those that have read these very values; none where nothing says them."""
    named = format_html_join(", ", "{} {}", ((_path(path), _short(value)) for path, value, _ in fresh))
    what = f"the {same} approved calls of this step" if same > 1 else f"the {approved} approved calls of this tool"
    known = [path for path, _, times in fresh if times]
    it = "it" if len(fresh) == 1 else "them"
    why = f"None of {what} that were asked for earlier had {it}."
    if known:
        why = f"{why} Calls of other steps had: {', '.join(known)}."
    if not steps:
        return Point("caution", "flag", format_html("New here: {}", named), why)
    said = format_html_join(", ", "<code>{}</code>", ((exact(step, one_line=True),) for step in steps))
    why = format_html("{} {} what {} said.", why, "It is" if len(fresh) == 1 else "They are", said)
    return Point("neutral", "done", format_html("New here, and as it was read: {}", named), why)


def _short(text: str) -> SafeString | str:
    return _value(text) if len(text) <= QUOTED else f"(a text of {len(text)} characters)"


def model_quote(text: str) -> SafeString:
    """Words of a model inside a sentence of the server: framed, so that nobody takes them for the server's."""
    return format_html('<q class="claim">{}</q>', exact(text, one_line=True))


# ── long texts ───────────────────────────────────────────────────────────────


def _changed(arguments: Stored, same: Sequence[Earlier]) -> Iterator[Point]:
    """What changed in the long texts against the last approved call of the same step, however far down it stands."""
    if not same:
        return
    long = {row.path for row in arguments.rows if row.wide}
    now, then = json_pieces(arguments.value), json_pieces(same[0].arguments)
    found = difference(then, now)
    lines = [line for line in found.lines if isinstance(line, Line) and line.kind != "same" and _label(line) in long]
    if lines:
        yield _changed_point(lines, sum(piece.label in long for piece in now))


def _changed_point(lines: Sequence[Line], of: int) -> Point:
    """`of`: how many lines the long texts have. The numbers are those of the difference below."""
    named = _named(lines)
    text = format_html(
        "{} of {} lines of {} {} not as approved last: {}{}",
        len(lines),
        of,
        _path(_label(lines[0])),
        "is" if len(lines) == 1 else "are",
        format_html_join("; ", "{}", ((_line(line),) for line in named)),
        _and_more(len(lines) - len(named)),
    )
    places = [str(line.after_no or line.before_no) for line in named]
    where = (
        f"It is line {places[0]} of the difference below."
        if len(places) == 1
        else f"They are lines {', '.join(places)} of the difference below."
    )
    if len(lines) > len(named):
        where = (
            f"The first {'is line' if len(places) == 1 else 'are lines'} {', '.join(places)} of the difference below."
        )
    rest = " All other lines are the same byte for byte." if len(lines) < of else ""
    return Point("stop", "caution", text, f"{where}{rest}")


def _label(line: Line) -> str:
    piece = line.now or line.was
    return piece.label if piece else ""


def _named(lines: Sequence[Line]) -> Sequence[Line]:
    """The first of what differs; a line that is blank on both sides says nothing, unless there is no other."""
    saying = [line for line in lines if any(piece and piece.text.strip() for piece in (line.was, line.now))]
    return (saying or lines)[:NAMED]


def _and_more(rest: int) -> str:
    return f" and {rest} more" if rest else ""


def _line(line: Line) -> SafeString:
    """What changed in one line, with a few words around it."""
    words, others = _WORDS.findall(line.was.text if line.was else ""), _WORDS.findall(line.now.text if line.now else "")
    start = _common(words, others)
    end = _common(words[start:][::-1], others[start:][::-1])
    head, tail = others[:start], others[len(others) - end :] if end else []
    gone, come = "".join(words[start : len(words) - end]), "".join(others[start : len(others) - end])
    marked = [format_html("<del>{}</del>", legible(gone, marks=within(gone, come)))] if gone else []
    marked += [format_html("<ins>{}</ins>", legible(come, marks=within(come, gone)))] if come else []
    return format_html(
        "{}{}{}",
        _beside(("… " if len(head) > AROUND else "") + "".join(head[-AROUND:])),
        format_html_join(" → ", "{}", ((part,) for part in marked)),
        _beside("".join(tail[:AROUND]) + (" …" if len(tail) > AROUND else "")),
    )


def _beside(text: str) -> SafeString | str:
    return exact(text, one_line=True) if text else ""


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    differing = (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    return next(differing, min(len(one), len(other)))
