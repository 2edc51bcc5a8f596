"""A database that stands still: each request is answered in time that it does not answer, and all goes on once it is back."""

import json
import os
import signal
from argparse import ArgumentParser
from collections.abc import Iterator
from typing import NoReturn

import httpx
import psycopg
import pytest
from django.db import OperationalError, transaction
from django.http import HttpResponse
from django.test import RequestFactory
from pytest_django import DjangoDbBlocker

from accounts.api import problem_response
from console.management.noun import Asked, Noun
from console.outage import AnswerOutages
from tests.engine.engine import sql
from tests.services import Services, cloned_database
from tests.stack import Stack
from tests.waiting import wait_until

pytestmark = pytest.mark.process
ANSWER_SECONDS = 1.0
BOUND = 6.0  # on a busy machine, for what takes ANSWER_SECONDS; without a bound it would be for ever


@pytest.fixture(scope="module")
def hasty(
    request: pytest.FixtureRequest,
    services: Services,
    django_db_blocker: DjangoDbBlocker,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Stack]:
    """A web server that waits a second for each answer, with and without a pool of sessions."""
    with cloned_database(services) as url, django_db_blocker.unblock():
        stack = Stack(services, url, tmp_path_factory.mktemp("silent"))
        stack.environment |= {"SIGNALBOX_DB_POOL": request.param, "SIGNALBOX_ANSWER_SECONDS": str(ANSWER_SECONDS)}
        try:
            stack.start_web()
            yield stack
        finally:
            stack.close()


@pytest.mark.parametrize("hasty", ["true"], indirect=True, ids=["pool"])
def test_a_server_that_stands_still_is_said_not_to_answer_and_serves_again_once_it_goes_on(hasty: Stack) -> None:
    with httpx.Client(base_url=hasty.url, timeout=BOUND) as client:
        assert client.get("healthz").status_code == 200
        sessions = [pid for (pid,) in sql(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() "
            "AND backend_type = 'client backend'"
        )]  # fmt: skip
        assert sessions
        for pid in sessions:
            os.kill(pid, signal.SIGSTOP)
        try:
            assert client.get("healthz").status_code == 503
        finally:
            for pid in sessions:
                os.kill(pid, signal.SIGCONT)
        wait_until(lambda: client.get("healthz").status_code == 200, "it is served again")


@pytest.mark.parametrize("hasty", ["true", "false"], indirect=True, ids=["pool", "no_pool"])
def test_who_waits_for_a_table_that_somebody_keeps_hears_of_it_in_time(hasty: Stack) -> None:
    keeper = psycopg.connect(hasty.database_url)
    keeper.execute("LOCK accounts_apitoken")
    with httpx.Client(base_url=hasty.url, timeout=BOUND, headers={"Authorization": "Bearer none"}) as client:
        answer = client.get("api/v1/runs/")
        assert (answer.status_code, answer.json()["code"]) == (503, "DATABASE_SILENT")
        keeper.close()
        assert client.get("api/v1/runs/").status_code == 401


@pytest.mark.parametrize(
    ("state", "code", "head"),
    [
        ("53100", "DATABASE_FULL", "The database has no room left"),
        ("53300", "DATABASE_CROWDED", "The database takes no more sessions"),
        ("55P03", "DATABASE_BUSY", "Somebody else keeps what this needs"),
        ("57P01", "DATABASE_SILENT", "The database does not answer"),
    ],
)
def test_why_the_database_gives_no_answer_is_said_as_it_is_at_every_door(
    db: None, rf: RequestFactory, capsys: pytest.CaptureFixture[str], state: str, code: str, head: str
) -> None:
    """A full disk is not a silent database. The server itself raises here what it raises then."""

    def asks(_: Asked) -> NoReturn:
        with transaction.atomic():
            sql(f"DO $$ BEGIN RAISE EXCEPTION 'as told' USING ERRCODE = '{state}'; END $$")
        raise AssertionError("the server raised nothing")

    with pytest.raises(SystemExit):
        Noun().handle(act=asks, takes=ArgumentParser(), as_json=True)
    told = capsys.readouterr()
    assert json.loads(told.out)["error"]["code"] == code
    assert told.err.startswith(f"Nothing is known to be done. {head}")
    with pytest.raises(OperationalError) as raised:
        asks(Asked({}))
    answer = problem_response(raised.value, {})
    assert answer is not None and (answer.status_code, answer.data["code"]) == (503, code)
    assert answer.data["detail"].startswith(f"{head}.")
    page = AnswerOutages(lambda _: HttpResponse()).process_exception(rf.get("/"), raised.value)
    assert page is not None and page.status_code == 503 and f">{head}</h1>" in page.content.decode()
    assert '<a class="btn btn--solid" href="">Load it again</a>' in page.content.decode()
