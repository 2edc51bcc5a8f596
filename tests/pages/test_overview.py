"""The overview: counts, the line, what is stuck and why, and the parts."""

from collections.abc import Iterator
from datetime import timedelta
from time import monotonic

import pytest
from django.db import connection
from django.test import override_settings
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from console.pages.overview import disk, stuck
from runs.consumers import hub
from runs.models import Allowance, SweepMark
from runs.services import sweep_failures_record
from runtime.liveness.lock import CLASS
from tests.pages import story
from tests.pages.conftest import Member
from tests.pages.rows import Story

QUERIES = 9


@pytest.fixture(autouse=True)
def staffed(db: None) -> Iterator[None]:
    """A worker that lives and holds a lock of its class, and a clock that has just come round."""
    with override_settings(LIVENESS_DATABASE_URL="dbname=any"):
        yield from _staffed()


def _staffed() -> Iterator[None]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(%s, 1)", [CLASS])
    sweep_failures_record({})
    yield
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_unlock_all()")


def test_a_quiet_night_looks_quiet(mo: Member) -> None:
    html = mo.get("/")
    assert "Nothing needs a person." in html
    assert "each run that is not waiting for a person moves." in html


def test_what_needs_a_person_and_what_is_stuck(mo: Member) -> None:
    now = timezone.now()
    story.waiting(mo.tenant, now - timedelta(minutes=5))
    story.unknown(mo.tenant, now - timedelta(hours=2))
    story.held(mo.tenant, now - timedelta(hours=1), "RESUME_REFUSED", "Claims", "PIN_UNAVAILABLE: publish_report 1")
    Story(mo.tenant, now - timedelta(minutes=3), "Not taken").save(0, "READY_TO_DECIDE", 0, "INIT")
    html = mo.get("/")
    assert "3 things need a person. 1 more does not move for other reasons." in html
    assert "Queued, and no worker has taken it" in html
    assert "The agent is not the one that it started with: publish_report 1." in html
    assert (
        'aria-label="Runs by status: 1 queued, 0 running, 1 waiting, 2 held, 0 stopping, 0 ended in 24 hours"' in html
    )


def test_a_silent_worker_is_named(mo: Member) -> None:
    told, _ = story.sending(mo.tenant, timezone.now() - timedelta(minutes=9))
    told.lease("host-9/1", 4, timezone.now() - timedelta(minutes=1))
    assert "The lease of host-9/1 ran out" in mo.get("/")


def test_ended_runs_by_the_hour(mo: Member) -> None:
    for _ in range(3):
        story.completed(mo.tenant, timezone.now() - timedelta(minutes=30))
    html = mo.get("/")
    assert "COMPLETED 3" in html


def test_the_panel_alone(mo: Member) -> None:
    html = mo.get("/", panel="overview-live")
    assert "<html" not in html
    assert "live:runs from:body, live:inbox from:body" in html


def test_the_parts_are_measured(mo: Member) -> None:
    html = mo.get("/parts/")
    assert "answers in" in html
    assert "Broker" in html


def test_before_a_page_asks_for_a_live_line_its_absence_is_no_fault(
    mo: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "_hubs", {})
    assert "opens with the first page that asks this server for it" in mo.get("/parts/")


def test_one_row_says_that_no_worker_answers_in_the_place_of_each_queued_run(mo: Member) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_unlock(%s, 1)", [CLASS])
    for minutes in (3, 4):
        Story(mo.tenant, timezone.now() - timedelta(minutes=minutes), "Not taken").save(0, "READY_TO_DECIDE", 0, "INIT")
    html = mo.get("/")
    assert "No worker answers; 2 runs are queued. Nothing is lost meanwhile" in html
    assert "Queued, and no worker has taken it" not in html
    assert "none answers; start one, nothing is lost meanwhile" in mo.get("/parts/")


def test_an_open_overview_is_told_once_something_falls_silent_which_sends_no_hint(mo: Member) -> None:
    """Beside its parts, which it asks for by the clock: these say when what is stuck is not what the page shows any more."""
    shown = {"shown": mo.get("/").split('name="shown" value="')[1].split('"')[0]}
    assert "HX-Trigger" not in mo.client.get("/parts/", shown).headers
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_unlock(%s, 1)", [CLASS])
    assert mo.client.get("/parts/", shown).headers["HX-Trigger"] == "live:runs"


def test_a_disk_that_is_full_is_named_among_what_is_stuck(mo: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "A database on the same disk stores nothing" not in mo.get("/")
    monkeypatch.setattr(disk, "OUT", 1.0)  # any disk is full then
    assert "A database on the same disk stores nothing once that is gone" in mo.get("/")


def test_a_clock_that_does_not_come_round_is_named(mo: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stuck, "BEGUN", monotonic() - 3600)
    assert "last ended 0" in mo.get("/parts/")
    SweepMark.objects.update(at=timezone.now() - timedelta(minutes=7))
    html = mo.get("/")
    assert "Nobody sweeps: no wait runs out" in html and "Look at the broker below; then start the clock" in html
    assert "1 process is connected, and none has swept lately" in mo.get("/parts/")
    SweepMark.objects.all().delete()
    assert "Nobody has swept since this installation was made" in mo.get("/")


def test_a_server_that_has_just_begun_calls_no_clock_late(mo: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stuck, "BEGUN", monotonic() - 3)
    SweepMark.objects.update(at=timezone.now() - timedelta(hours=9))
    assert "Nobody has swept" not in mo.get("/")
    assert "has not come round yet since this server began 3 s ago" in mo.get("/parts/")
    SweepMark.objects.all().delete()
    assert "Nobody has swept" not in mo.get("/")


def test_what_ended_runs_have_spent_is_in_dollars(mo: Member) -> None:
    told = story.completed(mo.tenant, timezone.now() - timedelta(minutes=30))
    Allowance.objects.filter(run=told.run).update(spent=[3, 4, 7680, 1_250_000, None])
    html = mo.get("/")
    assert "$1.25" in html
    assert "7,680" in html


def test_other_tenants_do_not_show(mo: Member, stranger: Member) -> None:
    story.unknown(mo.tenant, timezone.now() - timedelta(hours=2), "Secret pair")
    html = stranger.get("/")
    assert "Secret pair" not in html
    assert "Nothing needs a person." in html


def test_queries_are_bounded(mo: Member, django_assert_max_num_queries: DjangoAssertNumQueries) -> None:
    for minutes in (5, 6, 7):
        story.waiting(mo.tenant, timezone.now() - timedelta(minutes=minutes))
        story.unknown(mo.tenant, timezone.now() - timedelta(minutes=minutes))
    with django_assert_max_num_queries(QUERIES):
        mo.get("/")
