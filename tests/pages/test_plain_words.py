"""What a page says in the place of a code, a number or a control that is of no use there."""

from datetime import timedelta
from ipaddress import ip_network
from time import monotonic

import pytest
from django.test import override_settings
from django.utils import timezone

from checkpoints.models import Head
from console.pages.overview import stuck
from receipts.models import Report, ToolCall
from runtime.services import EndpointAdded, EndpointRequest, endpoint_add
from tests.pages import story
from tests.pages.conftest import Member
from tests.pages.driven import person, told, words
from tests.pages.rows import Story


def test_an_endpoint_hears_what_was_ticked_in_the_words_it_was_ticked_by(ann: Member) -> None:
    with override_settings(NOTICE_NETWORKS=[ip_network("127.0.0.0/8")]):
        for name, hears in {"all": None, "few": frozenset({"HELD", "OPENED"})}.items():
            wanted = EndpointRequest("WEBHOOK", name, "http://127.0.0.1:9/", whole_tenant=True)
            wanted = wanted if hears is None else EndpointRequest(**{**vars(wanted), "hears": hears})
            assert isinstance(endpoint_add(actor=person("ann.moreau"), wanted=wanted), EndpointAdded)
    said = words(ann.get("/settings/notifications/"))
    assert "a call waits for a decision, a run is held Change, test…" in said
    assert "everybody everything Change, test…" in said


def test_why_a_second_effect_is_off_says_whether_there_was_a_first(ann: Member) -> None:
    call = ToolCall.objects.filter(run_id=told("published").id, effect_class="READ_ONLY")[0]
    assert "It left no mark outside" in words(ann.get(f"/calls/{call.id}/repeat/"))


def test_a_run_that_completed_is_not_continued_and_says_what_can_be_done(ann: Member) -> None:
    said = words(ann.get(f"/runs/{told('published').id}/continue/"))
    assert "it left nothing to continue. To go on from an earlier revision, fork it." in said


def test_one_shared_ticker_is_one(ann: Member) -> None:
    run = told("published")
    revision = Head.objects.get(run_id=run.id).revision
    report = Report.objects.get(versions__run_id=run.id, versions__version_no=1)
    assert "over 1 shared ticker." in words(ann.get(f"/reports/{report.id}/"))
    assert "−9 on" in words(ann.get(f"/runs/{run.id}/checkpoints/{revision}/")), "a minus, and no hyphen"


def test_who_decided_a_wait_is_listed_with_what_they_did(ann: Member) -> None:
    told("published")
    assert "ann.moreau approved" in words(ann.get("/waits/"))


def test_a_held_run_is_stopped_where_any_other_is(mo: Member) -> None:
    run = story.held(mo.tenant, timezone.now() - timedelta(hours=1), "RESUME_REFUSED", "Claims").run
    preview = mo.get(f"/inbox/?item=run-{run.id}", panel="inbox-item")
    assert 'class="crumbs__act"><a href="/runs/' in preview and preview.count("/stop/") == 1


def test_an_overview_without_waits_counts_what_does_not_move_by_itself(
    mo: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stuck, "BEGUN", monotonic())  # so that nobody misses a sweep yet
    Story(mo.tenant, timezone.now() - timedelta(minutes=3), "Not taken").save(0, "READY_TO_DECIDE", 0, "INIT")
    assert "Nothing needs a person. 1 thing does not move." in words(mo.get("/"))


def test_hours_without_anything_draw_no_chart(mo: Member) -> None:
    html = mo.get("/")
    assert html.count("Nothing in these hours.") == 4 and "by the hour; the table below" not in html
    story.completed(mo.tenant, timezone.now() - timedelta(minutes=30))
    assert "Runs ended by the hour; the table below" in mo.get("/")


def test_a_list_that_another_page_leads_to_leads_back_to_it(ann: Member) -> None:
    ways = {
        "calls": "Runs Calls",
        "waits": "Inbox Waits",
        "bulks": "Runs Acts on many runs",
        "settings/notifications/told": "Notifications Notices",
    }
    for path, crumbs in ways.items():
        head = ann.get(f"/{path}/").split('class="crumbs">')[1].split("</ol>")[0]
        assert words(head) == crumbs


def test_what_differs_much_from_the_last_one_like_it_is_folded_beside_an_unknown_call(ann: Member) -> None:
    for hours, lines in ((3, 2), (2, 30)):
        run, _ = story.opening(ann.tenant, timezone.now() - timedelta(hours=hours), "Overlap")
        body = {"body": "\n".join(f"line {number}" for number in range(lines))}
        call = run.call(49, "publish_report/x", "NON_IDEMPOTENT", "UNCERTAIN", [(50, 60, 2, "NO_RESPONSE")], body)
    html = ann.get(f"/calls/{call.id}/")
    before = html[html.index('id="before"') :].split("</section>")[0]
    assert "<details><summary>" in before and "28 added" in before


def test_the_glossary_draws_code_as_code(mo: Member) -> None:
    html = mo.get("/design/")
    assert "<code>month-end</code>" in html and "`" not in words(html[html.index('id="word-') :].split("</dl>")[0])


def test_who_may_not_act_reads_which_role_they_need_and_types_nothing_in_vain(viewer: Member, mo: Member) -> None:
    run = story.waiting(mo.tenant, timezone.now() - timedelta(minutes=5))[0].run
    for path in (f"/runs/{run.id}/stop/", "/bulks/new/?act=STOP&query=status%3DWAITING", f"/runs/{run.id}/goal/"):
        html = viewer.get(path)
        assert "needs the role operator, which you do not have in this tenant." in words(html)
        assert 'name="reason"' not in html
    assert "Give one…" not in viewer.get("/grants/")
