"""Two versions of a report as one text: what came and went is marked where it is read, and nothing active gets there."""

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from console.pages.markdown import report_html
from console.pages.report.rendered import LONGEST, RenderedDifference, rendered_difference
from tests.unit.test_report_exports import BODIES, CALL

OTHER = CALL.replace("00a1", "00b2")
PLAIN = st.lists(st.text(alphabet="ab 1|*-\n", max_size=30), max_size=5).map("\n\n".join)


def differing(before: str, after: str) -> RenderedDifference:
    found = rendered_difference(before, after)
    assert found is not None
    return found


def html(before: str, after: str) -> str:
    parts = [part.html for stretch in differing(before, after).stretches for part in stretch.parts]
    return "\n".join(parts).replace('<bdi dir="ltr">', "").replace("</bdi>", "")


def marks(text: str) -> list[tuple[str, str]]:
    """What is marked, as the words alone."""
    found = re.findall(r'<(del|ins)><span class="vh">(?:Removed|Added): </span>(.*?)</\1>', text, re.DOTALL)
    return [(tag, re.sub("<[^>]+>", "", inside).strip()) for tag, inside in found]


def counts(before: str, after: str) -> tuple[int, int, int, int]:
    found = differing(before, after)
    return found.changed, found.added, found.removed, found.same


def test_a_changed_word_is_marked_inside_its_paragraph() -> None:
    text = html("The overlap is high and stays so.", "The overlap is low and stays so.")
    assert marks(text) == [("del", "high"), ("ins", "low")]
    assert text.count("<p>") == 1 and "and stays so." in text


def test_a_number_stays_linked_on_both_sides_and_another_receipt_is_a_change() -> None:
    text = html(f"Together [45 %](call:{CALL}) of both.", f"Together [45 %](call:{OTHER}) of both.")
    assert marks(text) == [("del", "45 %"), ("ins", "45 %")]
    assert f'href="/calls/{CALL}/"' in text and f'href="/calls/{OTHER}/"' in text


def test_no_sign_stands_before_a_number() -> None:
    assert not re.search(r"[−+±]", html("It is 4.", "It is 5."))
    assert "−" not in html("| a | b |\n|--|--|\n| x | 4 |", "| a | b |\n|--|--|\n| x | 5 |\n| y | 6 |")


def test_a_row_that_came_is_marked_cell_by_cell_and_the_others_stay() -> None:
    head = "| Name | Share |\n|---|--:|\n| Alder | 4 |\n"
    text = html(head, f"{head}| Birch | 6 |\n")
    assert marks(text) == [("ins", "Birch"), ("ins", "6")]
    assert text.count("<table") == 1 and text.count("<tr>") == 3


def test_a_cell_that_changed_is_marked_in_its_row() -> None:
    text = html("| a | b |\n|--|--|\n| Alder | 4 |\n| Elm | 9 |", "| a | b |\n|--|--|\n| Alder | 5 |\n| Elm | 9 |")
    assert marks(text) == [("del", "4"), ("ins", "5")]


def test_tables_with_other_columns_went_and_came_whole() -> None:
    assert counts("| a | b |\n|--|--|\n| 1 | 2 |", "| a |\n|--|\n| 1 |") == (0, 1, 1, 0)


def test_items_of_a_list_come_and_go_in_it() -> None:
    text = html("- one thing\n- two things", "- one thing\n- three more of them\n- two things")
    assert marks(text) == [("ins", "three more of them")]
    assert text.count("<ul>") == 1 and text.count("<li>") == 3


def test_a_paragraph_that_came_before_one_that_changed_pairs_with_nothing() -> None:
    before, after = "All the same words but one here.", "Quite another thought.\n\nAll the same words but two here."
    assert counts(before, after) == (1, 1, 0, 0)
    assert marks(html(before, after))[1:] == [("del", "one"), ("ins", "two")]


def test_a_sentence_added_at_the_end_marks_no_word_before_it() -> None:
    assert marks(html("It ends here.", "It ends here. It does not.")) == [("ins", "It does not.")]


def test_lines_of_code_keep_their_spaces() -> None:
    text = html("```\na = 1\nb = 2\n```", "```\na = 1\n  b = 2\n```")
    assert marks(text) and text.count("<pre") == 1


def test_what_reads_the_same_does_not_differ() -> None:
    assert differing("*a*  \n\n\nb", "_a_\n\nb").none
    assert counts("# A\n\nb", "# A\n\nb") == (0, 0, 0, 2)


def test_stretches_that_are_the_same_are_folded_with_a_part_of_them_on_each_side() -> None:
    same = "\n\n".join(f"Paragraph {number}." for number in range(9))
    found = differing(f"{same}\n\nOld end of it.", f"{same}\n\nNew end of it.")
    assert [(len(one.parts), one.folded) for one in found.stretches] == [(1, False), (7, True), (1, False), (1, False)]


def test_odd_characters_are_named_in_what_changed() -> None:
    assert "U+202E" in html("a safe name", "a safe \u202ename")


def test_a_report_too_long_is_not_compared_so() -> None:
    assert rendered_difference("a" * (LONGEST + 1), "b") is None


def without(tag: str, text: str) -> str:
    """The words that are left when one kind of mark is taken out."""
    text = re.sub(rf"<{tag}>.*?</{tag}>", "", text, flags=re.DOTALL)
    text = re.sub(r'<span class="(?:vh|sg)".*?</span>', "", text)
    return "".join(re.sub("<[^>]+>", "", text).split())


@settings(max_examples=60, deadline=None)
@given(PLAIN, PLAIN)
def test_without_what_went_it_is_the_newer_and_without_what_came_the_older(before: str, after: str) -> None:
    assert without("del", html(before, after)) == without("x", report_html(after))
    assert without("ins", html(before, after)) == without("x", report_html(before))


@settings(max_examples=40, deadline=None)
@given(BODIES, BODIES)
def test_nothing_active_gets_into_a_difference(before: str, after: str) -> None:
    text = html(before, after)
    assert not re.search(r"<(script|img|svg|iframe|style|object)", text, re.IGNORECASE)
    links = re.findall(r'href="([^"]*)"', text)
    assert all(link.startswith(("http://", "https://", "/calls/")) for link in links), links
    allowed = r'(class|title|dir|href|rel|aria-hidden|aria-label|start)="[^"]*"'
    for tag in re.findall(r"<[a-z]\w*((?:\s[^<>]*)?)>", text):
        assert not re.sub(allowed, "", tag).strip(" /"), tag
