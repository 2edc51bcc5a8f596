"""Retention on the API, the command line and the pages: what goes, that it went, and when."""

import re
from pathlib import Path
from uuid import UUID

import psycopg
import pytest
from django.db import connection
from pytest_django import Settings

from approvals.models import Wait
from checkpoints import states
from checkpoints.models import Checkpoint
from runs import faults
from runs.live import listen_parameters
from tests.doors.test_access import browser
from tests.doors.world import OPERATOR, Doors, manage
from tests.waiting import wait_until

KEEPER = "only-governance"


@pytest.fixture
def old(doors: Doors, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> UUID:
    """A waiting run of which only the newest body is needed."""
    settings.RETAIN_LATEST, settings.RETAIN_DAILY = 1, False
    monkeypatch.setattr(states, "FULL_EVERY", 2)
    wait: Wait = doors.waiting()
    return wait.run_id


def purged(run_id: UUID) -> list[int]:
    rows = Checkpoint.objects.filter(run_id=run_id, purged_at__isnull=False)
    return list(rows.order_by("-revision").values_list("revision", flat=True))


def test_the_api_says_what_would_go_and_lets_it_go(doors: Doors, old: UUID) -> None:
    seen = doors.api("GET", f"/runs/{old}/retention/").json()
    revisions = [body["revision"] for body in seen["going"]]
    assert len(revisions) > 2 and seen["size"] == sum(body["size"] for body in seen["going"]) > 0
    assert purged(old) == []
    gone = doors.api("POST", f"/runs/{old}/retain/", {"reason": "old"}, by=KEEPER)
    assert gone.status_code == 200 and gone.json() == seen
    assert purged(old) == revisions
    shown = doors.api("GET", f"/runs/{old}/checkpoints/{revisions[0]}/").json()
    assert shown["body"] is None and shown["purged_at"] and len(shown["digest"]) == 64
    assert "the body was purged on" in shown["unreadable"]
    head = Checkpoint.objects.filter(run_id=old).latest("revision").revision
    for method, path, body in (
        ("GET", f"/runs/{old}/checkpoints/{revisions[0]}/diff/{head}/", None),
        ("GET", f"/runs/{old}/checkpoints/{revisions[0]}/fork/preview/", None),
        ("POST", f"/runs/{old}/checkpoints/{revisions[0]}/fork/", {"reason": "try"}),
    ):
        refused = doors.api(method, path, body)
        assert (refused.status_code, refused.json()["code"]) == (409, "PURGED"), path
    assert doors.api("GET", f"/runs/{old}/replay/").status_code == 200


def test_the_command_lists_and_lets_go(doors: Doors, old: UUID) -> None:
    ran = manage("retain", "--dry-run", "--as", OPERATOR, "--json")
    listed = {row["run"]: row for row in ran.json}
    assert ran.code == 0 and listed[str(old)]["going"] and purged(old) == []
    text = manage("retain", "--dry-run", "--run", old, "--as", OPERATOR).out
    assert str(old) in text and f"1-{max(body['revision'] for body in listed[str(old)]['going'])}" in text
    refused = manage("retain", "--reason", "old", "--as", OPERATOR, "--json")
    assert (refused.code, refused.json["error"]["code"]) == (1, "NOT_ALLOWED")
    gone = manage("retain", "--run", old, "--reason", "old", "--as", KEEPER, "--json")
    assert gone.code == 0 and purged(old) == [body["revision"] for body in listed[str(old)]["going"]]
    again = manage("retain", "--run", old, "--reason", "old", "--as", KEEPER)
    assert (again.code, again.out.strip()) == (0, "Nothing goes.")
    rows = manage("checkpoints", "list", old, "--as", OPERATOR).out
    assert rows.count("purged 20") == len(purged(old))
    shown = manage("checkpoints", "show", old, "1", "--as", OPERATOR)
    assert shown.code == 0 and "not shown: revision 1: the body was purged on" in shown.out


def test_pages_show_a_purged_revision_as_purged(doors: Doors, old: UUID) -> None:
    manage("retain", "--run", old, "--reason", "old", "--as", KEEPER)
    client, revision = browser(OPERATOR), purged(old)[0]
    page = client.get(f"/runs/{old}/checkpoints/{revision}/")
    html = page.content.decode()
    digest = Checkpoint.objects.get(run_id=old, revision=revision).digest
    assert page.status_code == 200 and "BODY PURGED" in html and "was purged" in html
    assert digest in re.sub(r"<[^>]+>|\s", "", html)
    assert "DOES NOT VERIFY" not in html and "A CHECK FAILED" not in html and "chip is-stop" not in html
    assert "/fork/" not in html
    shown = client.get(f"/runs/{old}/checkpoints/").content.decode()
    assert shown.count(">purged</bdi>") == len(purged(old))
    assert client.get(f"/runs/{old}/checkpoints/{revision}/fork/").status_code in (200, 409)
    assert client.get(f"/runs/{old}/").status_code == 200


def test_who_stood_still_inside_a_transaction_is_told_that_nothing_is_known_to_be_stored(
    doors: Doors, old: UUID, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database ends such a session; that is no fault of ours, and asking again is right."""
    with connection.cursor() as cursor:
        cursor.execute("SET idle_in_transaction_session_timeout = '300ms'")
        cursor.execute("SELECT pg_backend_pid()")
        pid = cursor.fetchone()[0]

    def stand_still(order: Path) -> None:
        if order.name == "inside_retain_tx":
            with psycopg.connect(**listen_parameters(), autocommit=True) as beside:
                alive = "SELECT count(*) FROM pg_stat_activity WHERE pid = %s"
                wait_until(lambda: beside.execute(alive, [pid]).fetchone() == (0,), "the session is ended")

    settings.FAULT_DIR = "in-process"
    monkeypatch.setattr(faults, "_take", stand_still)
    told = doors.api("POST", f"/runs/{old}/retain/", {"reason": "old"}, by=KEEPER)
    assert (told.status_code, told.json()["code"]) == (503, "DATABASE_SILENT")
    connection.close()
    assert purged(old) == []
    settings.FAULT_DIR = ""
    assert doors.api("POST", f"/runs/{old}/retain/", {"reason": "old"}, by=KEEPER).status_code == 200
