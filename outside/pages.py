"""The few pages for people: the counts with the switches, and the wiki's pages. Plain HTML, no script."""

import re
from collections.abc import Sequence
from html import escape
from typing import Any

from outside.store import MODES, TARGETS, Post

STYLE = """
:root { color-scheme: light dark; font: 1rem/1.5 system-ui, sans-serif; }
body { max-width: 60rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: 1rem 0 .5rem; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 2rem 0 .25rem; }
h3, h4, h5 { font-size: 1rem; margin: 1.5rem 0 .25rem; }
table { border-collapse: collapse; margin: .5rem 0 1rem; max-width: 100%; }
th, td { border: 1px solid #8888; padding: .25rem .6rem; text-align: left; vertical-align: top; }
td { overflow-wrap: anywhere; }
code { font-size: .8125rem; }
.posts { width: 100%; table-layout: fixed; }
.posts th:nth-child(1) { width: 35%; }
.posts th:nth-child(2) { width: 20%; }
form { display: flex; flex-wrap: wrap; gap: .75rem; align-items: end; margin: .5rem 0 1rem; }
label { display: block; }
input, select, button { font: inherit; padding: .2rem .5rem; max-width: 100%; box-sizing: border-box; }
blockquote { border-left: 3px solid #8888; margin-left: 0; padding-left: 1rem; }
"""
MODE_WORDS = {
    "ok": "answers as it should",
    "drop": "executes, then drops the connection without an answer",
    "gateway": "executes, and something in between answers 503",
    "hang": "executes, then lets the other side wait",
    "refuse": "refuses without executing",
    "busy": "says that it can't now, without executing",
    "twice": "executes twice",
}
TARGET_WORDS = {"wiki": "The wiki", "reference": "The reference sheet", "evidence": "The evidence collection"}

SHORT = 240  # characters of what was posted that the table shows


def document(title: str, content: str) -> str:
    """A whole page. `content` is HTML."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<title>{escape(title)}</title><link rel="icon" href="data:,"><link rel="stylesheet" href="/style.css"></head>'
        f"<body><main><h1>{escape(title)}</h1>\n{content}\n</main></body></html>\n"
    )


def home(counts: dict[str, Any], state: dict[str, Any], posts: Sequence[Post]) -> str:
    """What was executed for which key and what for, what was read, the wiki's pages, and the switches last of all."""
    parts = [
        "<p>A wiki, a reference sheet and a collection of evidence, outside of Signalbox. They count what really happened here.</p>"
    ]
    parts.append(_executed_table(posts))
    parts.append(_count_table("Reads of the reference sheet, per key", counts["reference"]))
    parts.append(_count_table("Searches of the evidence collection, per key", counts["evidence"]))
    pages = dict.fromkeys(post.page for post in posts)
    links = "".join(f'<li><a href="/wiki/pages/{escape(page)}">{escape(page)}</a></li>' for page in pages)
    parts.append(f"<h2>Wiki pages</h2><ul>{links}</ul>" if links else "<h2>Wiki pages</h2><p>None yet.</p>")
    parts += [_switch_form(target, state[target]) for target in TARGETS]
    parts.append(_option_form(state))
    return document("The outside world", "\n".join(parts))


def wiki_page(posts: Sequence[Post]) -> str:
    """One page of the wiki: its newest post, and how often it was posted."""
    post = posts[-1]
    times = "once" if len(posts) == 1 else f"{len(posts)} times"
    head = f'<p>Posted {times}; the newest is post-{post.id} of {escape(post.at)}. <a href="/">All pages</a></p>'
    return document(post.title, f"{head}\n<article>{markdown(post.body)}</article>")


def _switch_form(target: str, switch: dict[str, Any]) -> str:
    options = "".join(
        f'<option value="{mode}"{" selected" if mode == switch["mode"] else ""}>{mode}: {MODE_WORDS[mode]}</option>'
        for mode in MODES
    )
    left = f", for {switch['times']} more" if switch["times"] else ""
    return (
        f"<h2>{TARGET_WORDS[target]}: {MODE_WORDS[switch['mode']]}{left}</h2>"
        f'<form method="post" action="/control"><input type="hidden" name="for" value="{target}">'
        f'<label>The next requests <select name="mode">{options}</select></label>'
        '<label>How many (empty: all) <input name="times" type="number" min="1" max="1000"></label>'
        f'<label>Seconds to wait <input name="hang_seconds" type="number" min="0" max="3600" step="any" '
        f'value="{switch["hang_seconds"]:g}"></label><button>Set</button></form>'
    )


def _option_form(state: dict[str, Any]) -> str:
    boxes = "".join(
        f'<label><input type="checkbox" name="{name}" value="true"{" checked" if state[name] else ""}> {words}</label>'
        for name, words in (
            ("deduplicate", "The wiki executes a key once only"),
            ("lookup", "The wiki can be asked for a key"),
        )
    )
    hidden = '<input type="hidden" name="options" value="true">'
    return f'<form method="post" action="/control">{hidden}{boxes}<button>Set</button></form>'


def _executed_table(posts: Sequence[Post]) -> str:
    """Every execution on the wiki: its key, when it was, and what it posted, the newest first."""
    rows = "".join(
        f'<tr><td><code>{escape(post.key)}</code></td><td>post-{post.id}, {escape(post.at)}</td><td><a href="/wiki/pages/{escape(post.page)}">'
        f"{escape(post.title)}</a><br>{escape(_short(post.body))}</td></tr>"
        for post in reversed(posts)
    )
    head = "<thead><tr><th>Key</th><th>Executed</th><th>What for</th></tr></thead>"
    table = f'<table class="posts">{head}<tbody>{rows}</tbody></table>' if rows else ""
    return f"<h2>Executed on the wiki, each with its key</h2><p>{len(posts)} in all.</p>{table}"


def _short(text: str) -> str:
    return text if len(text) <= SHORT else f"{text[:SHORT]}…"


def _count_table(title: str, counted: dict[str, Any]) -> str:
    rows = "".join(
        f"<tr><td>{f'<code>{escape(key)}</code>' if key else 'no key'}</td><td>{n}</td></tr>"
        for key, n in counted["keys"].items()
    )
    table = f"<table><thead><tr><th>Key</th><th>Times</th></tr></thead><tbody>{rows}</tbody></table>" if rows else ""
    return f"<h2>{title}</h2><p>{counted['total']} in all.</p>{table}"


# ── the Markdown that posts use ──────────────────────────────────────────────


def markdown(text: str) -> str:
    """Headings, tables, lists, quotes, rules and bold, everything else as text."""
    blocks = re.split(r"\n{2,}", text.strip())
    return "\n".join(_block(block.splitlines()) for block in blocks if block.strip())


def _block(lines: list[str]) -> str:
    first = lines[0]
    if heading := re.match(r"(#{1,4}) (.*)", first):
        level = len(heading[1]) + 1
        return f"<h{level}>{_inline(heading[2])}</h{level}>"
    if first.strip() == "---":
        return "<hr>"
    if first.startswith("|"):
        return _table(lines)
    if first.startswith("- "):
        return f"<ul>{''.join(f'<li>{_inline(line[2:])}</li>' for line in lines)}</ul>"
    if first.startswith("> "):
        return f"<blockquote>{_inline(' '.join(line[2:] for line in lines))}</blockquote>"
    return f"<p>{_inline(' '.join(lines))}</p>"


def _table(lines: list[str]) -> str:
    rows = [re.split(r"(?<!\\)\|", line.strip().strip("|")) for line in lines if not re.fullmatch(r"[|\s:-]+", line)]
    head = "".join(_row("th", row) for row in rows[:1])
    body = "".join(_row("td", row) for row in rows[1:])
    return f"<table><thead>{head}</thead><tbody>{body}</tbody></table>"


def _row(tag: str, cells: list[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{_inline(cell.strip())}</{tag}>' for cell in cells)}</tr>"


def _inline(text: str) -> str:
    bold = re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", escape(text))
    return re.sub(r"\\([\\`*_{}\[\]()#+!|~=])|\\(&(?:lt|gt|amp);)", lambda match: match[1] or match[2], bold)
