"""The template tags of the console: untrusted text stays inert and whole, and every state has its sign."""

import re
import unicodedata
from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path

import pytest
from django.utils import timezone

from approvals.states import WaitStatus
from checkpoints.states import CommitmentStatus, ObligationStatus
from console.environment import BASE_DIR
from console.pages import signs
from console.pages.arguments import argument_rows
from console.pages.markdown import report_html
from console.pages.run.axis import MAX_TRACKS, TRACK
from console.pages.text import exact, loud_characters, odd_characters
from console.pages.times import clock, span
from console.templatetags import moments, signalbox
from receipts.states import AttemptOutcome, CallStatus, EffectClass, ModelCallStatus, PublicationStatus
from runs.states import GUARD_OF, ControlStatus, HoldReason, RunStatus

XSS = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "' onmouseover='alert(1)",
    "</bdi></div><iframe srcdoc='<script>1</script>'>",
    "{{ 7|add:7 }}{% csrf_token %}",
    "&lt;script&gt;&#x3c;b&#x3e;",
    "javascript:alert(1)",
    "<a href=javascript:alert(1)>x</a>",
    "<style>*{display:none}</style>",
    "<!-- <b> -->",
    "]]><![CDATA[<b>",
    "\x00<b\x00>",
]
TAGS_OF_EXACT = re.compile(
    r'</?bdi( dir="ltr")?>|<span class="inv( inv--plain| inv--line)?"( title="[^"<>]*")?>|<span class="(qm|g)">|<b class="ch">|</b>|</span>'
)


def shown(html: str) -> str:
    """What a reader sees: the text of the markup that `exact` itself writes."""
    return unescape(TAGS_OF_EXACT.sub("", html))


@pytest.mark.parametrize("attack", XSS)
def test_exact_is_inert(attack: str) -> None:
    html = exact(attack)
    assert "<" not in TAGS_OF_EXACT.sub("", html)


@pytest.mark.parametrize("attack", XSS)
def test_plain_text_is_shown_whole(attack: str) -> None:
    if not odd_characters(attack):
        assert shown(exact(attack)) == attack


@pytest.mark.parametrize("attack", XSS)
def test_arguments_are_inert(attack: str) -> None:
    (row,) = argument_rows({attack: attack})
    for html in (row.shown_path, row.value):
        assert "<" not in TAGS_OF_EXACT.sub("", html)


MARKDOWN_ATTACKS = [
    *XSS,
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt:alert(1))",
    "[x](data:text/html;base64,PHNjcmlwdD4=)",
    "[x](vbscript:x)",
    "[x](//evil.example/x)",
    "[x](/sign-out/)",
    "[x](http:///nohost)",
    "[x](https://[broken)",
    "[x](call:../../sign-out)",
    "[x](call:019fd494-e00e-71a2-9dea-85cf8a238ee6/../..)",
    "![x](https://evil.example/pixel.png)",
    "<javascript:alert(1)>",
    '[x](https://e.example "onmouseover=alert(1)")',
    "[a]: javascript:alert(1)\n\n[a]",
    "```html\n<script>1</script>\n```",
    "| <b> |\n|:-:|\n| <script> |",
    "    <script>indented</script>",
    "`<script>`",
]
REPORT_TAGS = re.compile(
    TAGS_OF_EXACT.pattern + r"|</?(h[2-6]|p|em|strong|ul|ol|li|blockquote|code|thead|tbody|tr|th|td|br|hr|table)"
    r'( class="(table|num)")?( aria-label="[^"<>]*")?( /)?>|<pre class="well">|</pre>|</a>|<span class="small quiet">'
    r'|<a class="receipt" href="/calls/[0-9a-f-]{36}/">|<a href="https?://[^"<>]+" rel="noopener noreferrer nofollow">'
)


@pytest.mark.parametrize("attack", MARKDOWN_ATTACKS)
def test_report_has_only_known_tags(attack: str) -> None:
    html = report_html(attack)
    assert "<" not in REPORT_TAGS.sub("", html)


def test_report_links_numbers_to_receipts_and_names_hosts() -> None:
    html = report_html(
        "# T\n\n[65.08 %](call:019fd494-e00e-71a2-9dea-85cf8a238ee6) [bank](https://evil.example/login)\n\n"
        "| a |\n|--:|\n| 1 |"
    )
    assert (
        '<a class="receipt" href="/calls/019fd494-e00e-71a2-9dea-85cf8a238ee6/"><bdi dir="ltr">65.08 %</bdi></a>'
        in html
    )
    assert "bank</bdi></a> <span" in html and "evil.example</bdi>)</span>" in html
    assert "<h2>" in html and '<td class="num">' in html


def test_report_shows_hidden_characters() -> None:
    html = report_html("ab\u200bc &#x202e;d `e\u2066f`")
    assert [m for m in ("U+200B", "U+202E", "U+2066") if m not in html] == []


def test_every_invisible_character_is_named() -> None:
    hidden = {"Cc", "Cf", "Zl", "Zp", "Zs", "Co", "Cs"}
    missed = [
        f"U+{point:04X}"
        for point in range(0x110000)
        if unicodedata.category(chr(point)) in hidden and chr(point) != " " and not odd_characters(chr(point))
    ]
    assert missed == []


@pytest.mark.parametrize(
    "char", [*"\u034f\u115f\u1160\u17b4\u180b\u2800\u3164\uffa0\ufe00\U000e0100\ufffc", "\U0001d159"]
)
def test_characters_that_draw_nothing_are_loud(char: str) -> None:
    assert [odd.char for odd in loud_characters(f"a{char}b")] == [char]


@pytest.mark.parametrize(
    "text", ["Größe 65,08 %", "données — “quoted”…", "価格", "цена", "שלום", "👍 ok", "a\u0301b\u0302"]
)
def test_ordinary_text_of_any_language_is_left_alone(text: str) -> None:
    assert odd_characters(text) == []
    assert shown(exact(text)) == text


def test_quiet_and_loud() -> None:
    odd = odd_characters("1\u00a0%\t\u200b")
    assert [(o.label, o.loud) for o in odd] == [("NBSP", False), ("TAB", False), ("U+200B", True)]


def test_a_foreign_letter_inside_a_latin_word_is_loud() -> None:
    (odd,) = loud_characters("transfer to p\u0430ypal")
    assert odd.name == "cyrillic small letter a"
    assert "U+0430" in exact("p\u0430ypal")


def test_a_high_pile_of_marks_is_one_sign_that_names_each() -> None:
    marks = "\u0301\u0302\u0327\u0334" * 8
    shown = exact(f"Z{marks}X{marks[:6]}Y")
    assert shown.count('class="inv"') == 1 + 3, "29 as one, and a few one by one"
    assert 'title="29 combining marks: U+0334, U+0301, ' in shown and ">U+0334 +28 marks</span>X" in shown
    assert len(loud_characters(f"Z{marks}")) == 29, "each of them is marked as seen"


def test_a_pile_of_combining_marks_is_named() -> None:
    assert len(loud_characters("a" + "\u0301" * 10)) == 7


def test_line_feeds_are_kept_or_named() -> None:
    assert "\n" in exact("a\nb")
    assert "LF" in exact("a\nb", one_line=True) and "\n" not in exact("a\nb", one_line=True)


def test_a_long_text_takes_linear_time() -> None:
    assert len(exact("a" * 1_000_000)) > 1_000_000
    assert len(loud_characters("\u0430" * 200_000)) == 0


def test_arguments_keep_order_types_and_bytes() -> None:
    rows = argument_rows(b'{"a":{"b c":[1,2.5,true,null,{},[]]},"n":"9007199254740993001","t":"x\\"\\\\\\ny"}')
    assert [(row.path, row.kind) for row in rows] == [
        ('a["b c"][0]', "integer"),
        ('a["b c"][1]', "number"),
        ('a["b c"][2]', "boolean"),
        ('a["b c"][3]', "null"),
        ('a["b c"][4]', "object, empty"),
        ('a["b c"][5]', "list, empty"),
        ("n", "text of 19 digits"),
        ("t", "text of 5 characters"),
    ]
    assert shown(rows[6].value) == '"9007199254740993001" too big for a number, so a string'
    assert shown(rows[7].value) == '"x\\"\\\\↵\ny"'


def test_odd_characters_of_a_key_count() -> None:
    (row,) = argument_rows({"ti\u200btle": "x"})
    assert [odd.point for odd in row.odd] == ["U+200B"]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(-5, "0 s"), (0.42, "0.4 s"), (9, "9 s"), (994, "16 min 34 s"), (7440, "2 h 04 min"), (273600, "3 d 4 h")],
)
def test_spans_say_their_units(seconds: float, words: str) -> None:
    assert span(timedelta(seconds=seconds)) == words


def test_a_clock_time_says_the_day_only_when_it_is_another() -> None:
    now = datetime(2026, 8, 6, 3, 16, 20, tzinfo=UTC)
    assert clock(now - timedelta(minutes=1), now) == "03:15:20"
    assert clock(now - timedelta(days=1), now) == "5 Aug 03:16:20"
    assert clock(now - timedelta(days=400), now) == "2 Jul 2025 03:16:20"


def test_every_state_has_a_sign_and_every_sign_has_its_icon() -> None:
    for machine, states in {
        "run": RunStatus,
        "call": CallStatus,
        "model": ModelCallStatus,
        "wait": WaitStatus,
        "control": ControlStatus,
        "obligation": ObligationStatus,
        "commitment": CommitmentStatus,
        "publication": PublicationStatus,
        "attempt": AttemptOutcome,
    }.items():
        assert set(signs.MACHINES[machine]) == {state.value for state in states}
    assert set(signs.EFFECT) == {effect.value for effect in EffectClass}
    assert set(signs.HOLD) == {reason.value for reason in HoldReason}
    held_by_refusal = set(GUARD_OF) - set(signs.HOLD) - {"SUPERSEDED", "STALE_FACTS", "CONFIG_DRIFT"}
    assert set(signs.GUARD) == held_by_refusal
    icons = {sign.icon for table in signs.MACHINES.values() for sign in table.values()}
    icons |= {weight.icon for weight in signs.EFFECT.values()}
    drawn = set(re.findall(r'symbol id="i-([a-z]+)"', (BASE_DIR / "static/icons.svg").read_text()))
    assert icons <= drawn


def test_templates_use_only_drawn_icons() -> None:
    drawn = set(re.findall(r'symbol id="i-([a-z]+)"', (BASE_DIR / "static/icons.svg").read_text()))
    used = {
        name
        for template in Path(BASE_DIR / "templates").rglob("*.html")
        for name in re.findall(r'{% icon "([a-z]+)"', template.read_text())
    }
    assert used <= drawn


def test_chips_and_ids() -> None:
    chip = signalbox.state_chip("call", "AWAITING_APPROVAL")
    assert 'class="chip is-caution"' in chip and "AWAITING APPROVAL" in chip and "#i-caution" in chip
    assert moments.short_id("019fd494-3360-734e-9aed-efffddf04c3c").endswith("…<b>f04c3c</b></span>")
    assert signalbox.person("person:<b>") == '<bdi dir="ltr">&lt;b&gt;</bdi>'


def test_times_carry_the_exact_moment() -> None:
    at = datetime(2026, 8, 6, 3, 16, 5, 112000, tzinfo=UTC)
    assert 'datetime="2026-08-06T03:16:05.112Z"' in moments.when(at)
    assert 'data-time="left"' in moments.left(at)
    assert moments.when(None) == ""


def test_a_count_keeps_its_thousands_apart() -> None:
    assert [signalbox.grouped(count) for count in (0, 999, 10_000)] == ["0", "999", "10,000"]


def test_a_moment_that_is_over_is_said_to_have_passed() -> None:
    past, soon = timezone.now() - timedelta(seconds=1), timezone.now() + timedelta(minutes=5, seconds=0.9)
    assert [said.rpartition('">')[2] for said in (moments.left(past), moments.to_go(past), moments.within(past))] == [
        "passed</time>"
    ] * 3
    assert moments.to_go(past, "time is up").endswith('data-past="time is up">time is up</time>')
    assert moments.left(soon).endswith(">5 min 00 s</time>")
    assert moments.to_go(soon).endswith(">5 min 00 s left</time>")
    assert moments.within(soon).endswith(">in 5 min 00 s</time>")


def test_a_report_is_one_level_below_the_page_whatever_its_own_first_level() -> None:
    assert "<h2>" in report_html("## A\n\n### B") and "<h3>" in report_html("## A\n\n### B")
    assert "<h2>" in report_html("# A") and "<h2>" in report_html("#### A")


def test_a_cell_without_words_heads_nothing() -> None:
    assert "<th></th>" not in report_html("| | B |\n|---|---|\n| a | 1 |")


def test_a_thread_that_nobody_named_shows_the_tail_of_its_id() -> None:
    assert "…<b>9238d4</b>" in signalbox.thread_name("run-e3b14eef-b077-44d6-9e4f-d4b5b39238d4")
    assert signalbox.thread_name("weekly <b>") == '<bdi dir="ltr">weekly &lt;b&gt;</bdi>'


def test_every_height_of_a_lane_is_drawn() -> None:
    drawn = set(re.findall(r"\.h(\d+) ", (BASE_DIR / "static/css/pages.css").read_text()))
    assert {str(8 + TRACK * tracks) for tracks in range(1, MAX_TRACKS + 1)} <= drawn


def test_a_size_is_said_to_the_byte_and_by_one_filter_everywhere() -> None:
    assert [signalbox.size(count) for count in (0, 1, 1729, 3113000)] == [
        "0 bytes",
        "1 byte",
        "1,729 bytes",
        "3,113,000 bytes",
    ]
    by_hand = re.compile(r"byte\{\{|\}\} ?(bytes?|B|kB)\b")
    assert [path.name for path in (BASE_DIR / "templates").rglob("*.html") if by_hand.search(path.read_text())] == []
