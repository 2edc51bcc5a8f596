"""`seed_load`: many runs with their receipts, as the tables take them."""

from collections.abc import Iterator

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection
from django.test import Client, override_settings
from pytest_django import DjangoDbBlocker

from accounts.audit import audit_verify
from accounts.models import User
from approvals.models import Wait
from checkpoints.selectors import verified_body
from console.seed.load import Load
from receipts.models import Attempt, ModelCall, ToolCall
from runs.canonical import idempotency_key, intent_key
from runs.models import Run
from tests.services import Services, cloned_database

ASKED = {"runs": 300, "receipts": 3000, "waits": 40, "events": 400}


@pytest.fixture(scope="module")
def seeded(services: Services, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    with cloned_database(services), django_db_blocker.unblock(), pytest.MonkeyPatch.context() as patch:
        patch.setenv("SIGNALBOX_TOUR_PASSWORD", "seeded-password")
        call_command("seed_load", **ASKED)
        yield


def test_makes_as_many_as_were_asked_for(seeded: None) -> None:
    receipts = ModelCall.objects.count() + ToolCall.objects.count() + Attempt.objects.count()
    assert Run.objects.count() == ASKED["runs"] + 1  # and the example
    assert abs(receipts - ASKED["receipts"]) < 0.05 * ASKED["receipts"]
    assert Wait.objects.filter(status="OPEN").count() == ASKED["waits"]
    assert set(Run.objects.values_list("status", flat=True)) >= {"COMPLETED", "FAILED", "WAITING", "HELD", "RUNNING"}


def test_one_run_is_long(seeded: None) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT run_id, count(*) FROM receipts_toolcall GROUP BY run_id ORDER BY 2 DESC LIMIT 1")
        run_id, calls = cursor.fetchone()
    assert calls == ASKED["events"] // 4
    assert Run.objects.get(id=run_id).status == "RUNNING"


def test_what_is_stored_is_what_was_digested(seeded: None) -> None:
    call = ToolCall.objects.filter(tool="publish_report", status="AWAITING_APPROVAL").select_related("run")[0]
    args = {
        "channel": "wiki",
        "report_version": 2,
        "title": "Larch and Maple",
        "summary": "The two funds share holdings.",
    }
    assert call.idempotency_key == idempotency_key(run_id=call.run_id, step_name=call.step_name, args=args)
    assert call.intent_key == intent_key(step_name=call.step_name, args=args)
    revisions = call.run.checkpoints.order_by("revision")
    assert [verified_body(revision) != b"" for revision in revisions] == [True, True]
    assert audit_verify(call.tenant_id) > 0


def test_the_pages_show_it(seeded: None) -> None:
    client = Client()
    client.force_login(User.objects.get(username="operator"))
    wait, run = Wait.objects.filter(status="OPEN")[0], Run.objects.filter(status="COMPLETED")[0]
    for path in ("/", "/inbox/", "/runs/", f"/waits/{wait.id}/", f"/runs/{run.id}/", f"/runs/{run.id}/checkpoints/2/"):
        answer = client.get(path)
        assert answer.status_code == 200
        assert "was changed" not in answer.content.decode()


def test_is_refused_where_there_are_runs_and_in_production(seeded: None) -> None:
    with pytest.raises(CommandError, match="This database holds runs"):
        call_command("seed_load", **ASKED)
    with override_settings(PRODUCTION=True), pytest.raises(CommandError, match="this is production"):
        call_command("seed_load", **ASKED)


def test_too_little_for_what_is_asked_is_refused_with_what_would_do() -> None:
    assert Load(300, 3000, 40, 400).refusal == ""
    assert Load(50, 3000, 60, 400).refusal.startswith("50 runs are too few")
    assert Load(300, 1000, 40, 400).refusal.endswith("ask for 1600.")
