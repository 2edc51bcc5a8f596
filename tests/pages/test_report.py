"""The report pages: versions and where they are, numbers that lead to receipts, differences, the bytes to take along."""

import hashlib
from html import unescape

import pytest
from pytest_django import DjangoAssertNumQueries

from receipts.models import Report, ReportVersion, ToolCall
from tests.pages.conftest import Member
from tests.pages.driven import ALDER, HOSTILE, Driven, Outside, assert_inert, person, published, told, words

QUERIES = 16


def url(run: Driven, query: str = "") -> str:
    return f"/reports/{report(run).id}/{query}"


def report(run: Driven) -> Report:
    return Report.objects.get(versions__run_id=run.id, versions__version_no=1)


def test_versions_say_where_they_are(ann: Member) -> None:
    run = told("published")
    said = words(ann.get(url(run)))
    assert "PUBLISHED console" in said and "PUBLISHED wiki" in said
    assert "ALDR / BRCH overlap, 2026-06-30 V2" in said


def test_the_newest_published_version_is_shown_unless_another_one_is_asked_for(ann: Member) -> None:
    run = told("waiting")
    assert "REQUESTED wiki" in words(html := ann.get(url(run)))
    assert "<title>ALDR / BRCH overlap, 2026-06-30, v1" in html
    html = ann.get(url(run, "?version=2"))
    assert "This version is not published anywhere yet." in words(html)
    assert ann.client.get(url(run, "?version=9")).status_code == 404


def test_each_number_leads_to_its_receipt(ann: Member) -> None:
    run = told("published")
    html = ann.get(url(run))
    overlap = ToolCall.objects.get(run_id=run.id, tool="compute_overlap")
    assert f'<a class="receipt" href="/calls/{overlap.id}/"><bdi dir="ltr">45' in html
    assert "compute_overlap/a-b" in words(html)
    assert ann.client.get(f"/calls/{overlap.id}/").status_code == 200


def test_an_unknown_publication_leads_to_its_call_and_a_persons_word_stays_one(ann: Member, outside: Outside) -> None:
    run = told("lost")
    html = ann.get(url(run, "?version=2"))
    assert "UNCERTAIN wiki" in words(html) and "nobody knows; say what is known" in words(html)
    assert f'href="/calls/{run.publishing.id}/"' in html
    sent = {"verdict": "EXECUTED", "evidence": "Seen there.", "external_ref": "post-1", "attempts": 1}
    ann.post(f"/calls/{run.publishing.id}/", **sent)
    assert "PUBLISHED wiki said by a person" in words(ann.get(url(run, "?version=2")))
    assert "PUBLISHED wiki said by a person" in words(ann.get("/reports/"))


def test_a_rejected_publication_failed_there_and_is_readable_here(ann: Member) -> None:
    run = told("waiting")
    run.decide("REJECT")
    run.go_on()
    assert "FAILED wiki" in words(ann.get(url(run)))
    assert "Weight overlap" in words(ann.get(url(run, "?version=2")))


def test_two_versions_are_compared_as_they_are_read(ann: Member) -> None:
    run = told("published")
    html = ann.get(url(run, "?version=2&against=1"))
    said = words(html)
    assert "v1 against v2" in said and "parts changed" in said
    assert (
        "<ins>" in html
        and 'class="receipt"' in html
        and "call:" not in html.split('id="diff"')[1].split("</article>")[0]
    )
    assert "v1 against v2" not in words(ann.get(url(run, "?version=2&against=2")))


def test_their_sources_are_compared_line_by_line(ann: Member) -> None:
    run = told("published")
    html = ann.get(url(run, "?version=2&against=1&as=source"))
    assert "the same byte for byte" in words(html) and "As they are read" in words(html)
    assert "<ins>" in html and "<del>" in html


def test_the_file_holds_exactly_the_stored_bytes(ann: Member) -> None:
    run = told("published")
    version = ReportVersion.objects.get(run_id=run.id, version_no=2)
    answer = ann.client.get(url(run, "2.md"))
    assert hashlib.sha256(answer.content).hexdigest() == version.sha256
    assert answer["Content-Type"] == "text/markdown; charset=utf-8"
    assert answer["Content-Disposition"] == 'attachment; filename="aldr-brch-overlap-2026-06-30-v2.md"'
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert ann.client.get(url(run, "7.md")).status_code == 404


@pytest.mark.parametrize(
    ("kind", "media"),
    [("md", "text/markdown; charset=utf-8"), ("html", "text/html; charset=utf-8"), ("pdf", "application/pdf")],
)
def test_a_version_is_taken_along_with_where_it_comes_from(
    ann: Member, outsider: Member, kind: str, media: str
) -> None:
    run = told("published")
    version = ReportVersion.objects.get(run_id=run.id, version_no=2)
    answer = ann.client.get(url(run, f"2/export.{kind}"))
    assert (answer.status_code, answer["Content-Type"]) == (200, media)
    assert answer["Content-Disposition"] == f'attachment; filename="aldr-brch-overlap-2026-06-30-v2.{kind}"'
    assert answer["X-Content-Type-Options"] == "nosniff"
    if kind != "pdf":
        said = unescape(answer.content.decode()).replace("\\", "")
        for fact in (
            version.sha256,
            f"run {run.id}",
            "publish_report",
            "by ann.moreau",
            "published",
            "compute_overlap",
        ):
            assert fact in said, fact
    assert outsider.client.get(url(run, f"2/export.{kind}")).status_code == 404
    assert ann.client.get(url(run, f"9/export.{kind}")).status_code == 404


def test_what_agents_and_files_wrote_is_inert(ann: Member) -> None:
    hostile = ALDER.replace("ALDR", "<script>alert(1)</script>").replace("NORTHWIND GRID CO", HOSTILE)
    run = published(person("ann.moreau"), a=hostile, title=HOSTILE)
    assert_inert(ann.get(url(run, "?version=2&against=1")))
    assert_inert(ann.get(url(run, "?version=2&against=1&as=source")))
    assert_inert(ann.get(url(run)))
    html = ann.get("/reports/")
    assert_inert(html)
    assert "&lt;script&gt;alert(1)" in html


def test_the_list_comes_in_pages_of_a_bounded_number_of_queries(
    ann: Member, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    run = told("published")
    thread = report(run).thread
    for number in range(60):
        Report.objects.create(tenant=ann.tenant, thread=thread, slug=f"empty-{number}")
    with django_assert_max_num_queries(QUERIES):
        html = ann.get("/reports/")
    assert html.count("data-row-link") == 50 and "Older" in html
    named = ann.get(f"/reports/?q=overlap&status=PUBLISHED&channel=wiki&run={run.id}")
    assert named.count("data-row-link") == 1 and f'href="/reports/{report(run).id}/"' in named
    assert ann.get("/reports/?q=nothing-is-called-so").count("data-row-link") == 0
    assert "This list has no filter “before”." in words(ann.get("/reports/?before=nonsense"))
    with django_assert_max_num_queries(QUERIES):
        ann.get(url(run))


def test_nobody_else_sees_them(outsider: Member, ann: Member) -> None:
    run = told("published")
    assert outsider.client.get(url(run)).status_code == 404
    assert outsider.client.get(url(run, "1.md")).status_code == 404
    assert "There is no report yet." in words(outsider.get("/reports/"))
