"""The checkpoint pages: the handoff note first, a digest that was checked, a difference; no restore in place."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection
from pytest_django import DjangoAssertNumQueries

from checkpoints.models import Checkpoint, Head
from receipts.models import ToolCall
from runtime.services import goal_revise
from tests.pages.conftest import Member
from tests.pages.driven import ALDER, HOSTILE, Driven, assert_inert, person, told, waiting, words

QUERIES = 20


def url(run: Driven, revision: int, query: str = "") -> str:
    return f"/runs/{run.id}/checkpoints/{revision}/{query}"


def head(run: Driven) -> int:
    return Head.objects.get(run_id=run.id).revision


def ready(**how: str) -> Driven:
    return waiting(person("ann.moreau"), **how) if how else told("waiting")


@contextmanager
def unguarded(table: str) -> Iterator[None]:
    """Somebody with the rights of the database's owner, who turns its guards off."""
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
        yield
        cursor.execute(f"ALTER TABLE {table} ENABLE TRIGGER USER")


def test_the_handoff_note_says_what_is_done_open_and_next(ann: Member) -> None:
    run = ready()
    html = ann.get(url(run, head(run)))
    said = words(html)
    assert said.index("Handoff note") < said.index("Changed since")
    for step in ("read_disclosure/a", "read_disclosure/b", "compute_overlap/a-b", "send_answer_part/v1"):
        assert step in said
    reading = ToolCall.objects.get(run_id=run.id, step_name="read_disclosure/a")
    assert f'href="/calls/{reading.id}/"' in html
    assert "Publish the report with the missing material on the wiki." in said
    assert "Wait for a decision; then send the call, or tell the model no." in said
    assert f'href="/waits/{run.wait.id}/"' in html


def test_the_digest_was_checked_and_the_page_says_how(ann: Member) -> None:
    run = ready()
    said = words(ann.get(url(run, head(run))))
    assert "DIGEST VERIFIED" in said and "HEAD" in said
    assert "The digest was computed again from the stored bytes: the same." in said
    assert f"The link to revision {head(run) - 1} holds." in said
    assert "5 of 5 results found with the same digest." in said


def test_an_older_revision_is_read_and_never_restored(ann: Member) -> None:
    run = ready()
    html = ann.get(url(run, 2))
    assert f"Not the head: the run is at revision {head(run)}." in words(html)
    assert 'method="post"' not in html.replace('<form method="post" action="/sign-out/">', "")


def test_the_difference_shows_what_changed_and_folds_what_did_not(ann: Member) -> None:
    run = ready()
    html = ann.get(url(run, head(run)))
    said = words(html)
    assert f"Changed since {head(run) - 1}" in said
    assert "<ins>" in html and "AWAITING_APPROVAL" in html
    assert re.search(r"barrier, compacted_through, contract, [\w, ]+: \d+ lines, the same byte for byte", said)


def test_any_two_revisions_are_compared_the_older_one_on_the_left(ann: Member) -> None:
    run = ready()
    forward = words(ann.get(url(run, 2, "?against=9")))
    backward = words(ann.get(url(run, 9, "?against=2")))
    assert "Changed by 9" in forward and "Changed since 2" in backward
    assert "Revision 2 Line Sign Revision 9" in forward and "Revision 2 Line Sign Revision 9" in backward
    assert "There is no revision 999 of this run." in words(ann.get(url(run, 2, "?against=999")))
    assert "A revision is the same as itself." in words(ann.get(url(run, 2, "?against=2")))
    assert "The first revision has no parent." in words(ann.get(url(run, 1)))
    assert ann.client.get(url(run, 2, "?against=9%2F../x")).status_code == 200


def test_a_revision_that_does_not_verify_shows_nothing_of_its_content(ann: Member) -> None:
    run = ready()
    with connection.cursor() as cursor:
        cursor.execute("UPDATE checkpoints_checkpoint SET body = body || '\\x00' WHERE revision = 5")
    said = words(ann.get(url(run, 5)))
    assert "DOES NOT VERIFY" in said and "DIGEST VERIFIED" not in said
    assert "This revision can't be read. Nothing of its content is shown." in said
    assert "Handoff note" not in said
    assert "They can't be compared. DIGEST_MISMATCH: revision 5" in words(ann.get(url(run, 6)))


def test_a_result_that_was_changed_in_the_store_is_named(ann: Member) -> None:
    run = ready()
    call = ToolCall.objects.get(run_id=run.id, tool="compute_overlap")
    with unguarded("receipts_result"), connection.cursor() as cursor:
        cursor.execute("UPDATE receipts_result SET value = value || '\\x00' WHERE tool_call_id = %s", [call.id])
    said = words(ann.get(url(run, head(run))))
    assert "A CHECK FAILED" in said
    assert "4 of 5 results found with the same digest." in said
    assert "compute_overlap/a-b: its result does not match" in said


def test_the_contract_is_the_one_of_its_time(ann: Member) -> None:
    run = ready()
    before = head(run)
    goal_revise(actor=run.actor, run_id=run.id, goal="Another goal.", reason="It changed.")
    assert "Compare the holdings" in words(ann.get(url(run, before)))
    assert "The goal is at version 2 by now" in words(ann.get(url(run, before)))
    assert "Another goal." in words(ann.get(url(run, before + 1)))


def test_the_list_holds_every_revision_and_marks_the_head(ann: Member) -> None:
    run = told("published")
    html = ann.get(f"/runs/{run.id}/checkpoints/")
    saved = Checkpoint.objects.filter(run_id=run.id).count()
    assert html.count("data-row-link") == saved
    assert html.count("HEAD</a>") == 1
    first = ann.get(f"/runs/{run.id}/checkpoints/?trigger=INIT")
    assert first.count("data-row-link") == 1 and "HEAD</a>" not in first
    assert "There is no “BROKEN” here." in words(ann.get(f"/runs/{run.id}/checkpoints/?phase=BROKEN"))


def test_what_people_and_files_wrote_is_inert(ann: Member) -> None:
    run = ready(a=ALDER.replace("ALDR", "<b>ALDR"), goal=HOSTILE, title=HOSTILE)
    assert_inert(ann.get(url(run, head(run), "?against=1")))
    assert_inert(ann.get(f"/runs/{run.id}/checkpoints/"))


def test_pages_cost_a_bounded_number_of_queries(
    ann: Member, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    run = ready()
    with django_assert_max_num_queries(QUERIES):
        ann.get(url(run, head(run)))
    with django_assert_max_num_queries(QUERIES // 2):
        ann.get(f"/runs/{run.id}/checkpoints/")
    panel = ann.get(url(run, head(run)), panel="checkpoint-live")
    assert panel.lstrip().startswith('<div id="checkpoint-live"') and "<html" not in panel


def test_nobody_else_sees_them(outsider: Member, ann: Member) -> None:
    run = ready()
    assert outsider.client.get(url(run, 1)).status_code == 404
    assert outsider.client.get(f"/runs/{run.id}/checkpoints/").status_code == 404
    assert ann.client.get(url(run, 999)).status_code == 404
    assert ann.client.get(url(run, 10**30)).status_code == 404


def test_any_two_revisions_are_compared_side_by_side_or_inline(ann: Member) -> None:
    run = ready()
    here = head(run)
    html = ann.get(url(run, here, "?against=2&to=4&view=inline"))
    said = words(html)
    assert "2 and 4" in said and "Revision 2" in said and "Revision 4" in said
    assert "diff--inline" in html and "the same byte for byte" in said
    assert "diff--inline" not in ann.get(url(run, here, "?against=2&to=4"))
    assert "There is no revision 999 of this run." in words(ann.get(url(run, here, "?against=2&to=999")))
    assert "A revision is the same as itself." in words(ann.get(url(run, here, "?against=3&to=3")))
    for bad in ("?against=x&to=y", "?to=-1", "?against=99999999999&to=1", "?view=%00"):
        assert ann.client.get(url(run, here, bad)).status_code == 200


def test_the_page_says_what_changed_the_size(ann: Member) -> None:
    run = ready()
    here = head(run)
    said = words(ann.get(url(run, here)))
    sizes = dict(Checkpoint.objects.filter(run_id=run.id).values_list("revision", "body_bytes"))
    grown = sizes[here] - sizes[here - 1]
    assert f"{grown:+,} on {here - 1}".replace("-", "−") in said
    assert "What changed its size" in said
