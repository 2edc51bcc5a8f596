"""Long numbers and accounts in drawn groups, the single characters that differ marked, and not a character more than is stored."""

import re
from html import unescape

import pytest

from console.pages.diff import difference, json_pieces, within
from console.pages.legible import differing, legible

GROUP = re.compile(r'<span class="g">(.*?)</span>')
MARK = re.compile(r'<b class="ch">(.*?)</b>')


def read(html: str) -> str:
    """What is copied from a page."""
    return unescape(re.sub(r"<[^>]+>", "", html))


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        ("DE02120300000000202051", ["DE02", "1203", "0000", "0000", "2020", "51"]),
        ("9007199254740997", ["9", "007", "199", "254", "740", "997"]),
        ("2980.00", ["2", "980.00"]),
        ("18405.00", ["18", "405.00"]),
        ("10000", ["10", "000"]),
        ("-123456", ["123", "456"]),
        ("298.00", []),
        ("2026", []),
        ("2026-12-18", []),
        ("MF-2207", []),
        ("1.2.3", []),
        ("a1b2c3d4e5f6", []),
    ],
)
def test_groups_are_drawn_and_what_is_copied_is_what_is_stored(text: str, groups: list[str]) -> None:
    html = legible(text)
    assert GROUP.findall(html) == groups
    assert read(html) == text


@pytest.mark.parametrize(
    ("one", "other", "marks", "theirs"),
    [
        ("220051", "202051", {1, 2}, {1, 2}),
        ("9007199254749099", "9007199254740997", {12, 13, 15}, {12, 13, 15}),
        ("3100.00", "310.00", {3}, set()),
        ("abc", "abc", set(), set()),
        ("abc", "", set(), set()),
        ("owner", "reads", set(), set()),
        ("x" * 201, "x" * 200, set(), set()),
    ],
)
def test_the_characters_that_differ_are_found_where_texts_are_alike(
    one: str, other: str, marks: set[int], theirs: set[int]
) -> None:
    here, there = differing(one, other)
    assert len(here) == len(marks) and len(there) == len(theirs)
    if len(one) == len(other):
        assert (set(here), set(there)) == (marks, theirs)


def test_marks_stand_inside_groups_and_change_no_character() -> None:
    account = "DE02120300000000220051"
    html = legible(account, marks=differing(account, "DE02120300000000202051")[0])
    assert MARK.findall(html) == ["20"] and MARK.search(GROUP.sub("", html)) is None
    assert read(html) == account


def test_an_odd_character_stays_named_inside_marks_and_groups() -> None:
    html = legible('"DE2137\u200b0502990000684712"', quoted=(True, True), marks=[7])
    assert "U+200B" in html and MARK.search(html) is not None
    assert html.count('class="qm"') == 2


def test_hostile_text_stays_inert() -> None:
    html = legible("<script>12345678</script>&amp;", marks=range(4))
    assert "<script>" not in html and read(html) == "<script>12345678</script>&amp;"


def test_quotes_are_no_part_of_a_line_of_a_long_text() -> None:
    then = {"body": "one\nsee https://a.example/form-b", "to": "x"}
    now = {"body": "one\nsee https://a.example.form-b.info/", "to": "y"}
    changed = [line for line in difference(json_pieces(then), json_pieces(now)).lines if line.kind == "chg"]
    assert read(str(changed[0].after)) == "see https://a.example.form-b.info/"
    assert read(str(changed[1].after)) == '"y"' and str(changed[1].after).count('class="qm"') == 2


def test_only_within_a_word_are_characters_marked() -> None:
    assert within("220051", "202051")
    assert not within("to no other account", "to another account")
