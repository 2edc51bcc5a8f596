"""Start the console with the cases in it, on servers of its own, and keep it until Ctrl-C."""

import json
import logging
import secrets
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from uuid import UUID

from django.test.utils import override_settings

from console.environment import BASE_DIR
from tests.cases.catalogue import CASES
from tests.cases.house import OPERATOR, House, in_folder
from tests.cases.judging import judge, table
from tests.cases.prepare import prepare
from tests.cases.requests import asked_by
from tests.cases.sheet import sheet
from tests.pages.driven import Outside
from tests.services import TEMPLATE, running_services, using_database
from tests.stack import Stack

DATABASE = "cases"
FOLDER = BASE_DIR / "var" / "cases"
MOMENT = 0.1  # s between two looks at what is asked for


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def serve(folder: Path = FOLDER) -> None:
    """Prepare, start everything, write the sheet, and judge at the end. Until SIGINT or SIGTERM."""
    shutil.rmtree(folder, ignore_errors=True)
    in_folder(folder)
    logging.getLogger("runtime").setLevel(logging.WARNING)
    with running_services() as services:
        services.cluster.create_database(DATABASE, template=TEMPLATE)
        stack = Stack(services, services.cluster.url(DATABASE), folder)
        with closing(stack), using_database(DATABASE):
            _serve(stack, folder)


def _serve(stack: Stack, folder: Path) -> None:
    usual = {"SIGNALBOX_LEASE_TTL_SECONDS": "15", "SIGNALBOX_HEARTBEAT_SECONDS": "5", "SIGNALBOX_SWEEP_SECONDS": "2"}
    stack.environment |= {"DJANGO_SETTINGS_MODULE": "tests.cases.settings", **usual}
    stack.start_outside()
    password = secrets.token_urlsafe(9)
    say("Preparing. It takes about a minute.")
    house = prepare(Outside(stack.outside_url), password=password)
    stack.start_worker(concurrency=2)
    stack.start_beat()
    stack.start_web()
    keep(folder, stack, house.made)
    told = sheet(
        CASES, house.made, stack.url, f"- The console: {stack.url}\n- Name: {OPERATOR}\n- Password: {password}"
    )
    (folder / "sheet.md").write_text(told)
    ready = {"url": stack.url, "username": OPERATOR, "password": password, "sheet": str(folder / "sheet.md")}
    (folder / "ready.json").write_text(json.dumps(ready))
    say(f"\nThe console:  {stack.url}\nSign in as:   {OPERATOR}\nPassword:     {password}")
    say(
        f"The sheet:    {folder / 'sheet.md'}\nTo judge meanwhile: make cases-judged\nCtrl-C judges and stops everything."
    )
    with override_settings(OUTSIDE_URL=stack.outside_url):
        until_stopped(house)
    result = table(judge(CASES, house.made))
    (folder / "judged.txt").write_text(result + "\n")
    say(result)


def keep(folder: Path, stack: Stack, made: Mapping[int, Sequence[UUID]]) -> None:
    """What another process needs to judge."""
    kept = {"database": stack.database_url, "made": {number: [str(id) for id in ids] for number, ids in made.items()}}
    (folder / "made.json").write_text(json.dumps(kept))


def judged(folder: Path = FOLDER) -> str:
    """The table of a house that is being served."""
    in_folder(folder)
    kept = json.loads((folder / "made.json").read_text())
    made = {int(number): [UUID(id) for id in ids] for number, ids in kept["made"].items()}
    return table(judge(CASES, made))


def until_stopped(house: House) -> None:
    """Wait for a signal, and do meanwhile what happens in some cases while somebody looks."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    waiting: dict[int, Sequence[UUID]] = dict(house.made)
    while not signal.sigtimedwait({signal.SIGINT, signal.SIGTERM}, MOMENT):
        waiting = happen(house, waiting)


def happen(house: House, waiting: Mapping[int, Sequence[UUID]]) -> dict[int, Sequence[UUID]]:
    """Bring about what happens once somebody has opened the page of a wait; the cases in which it has not happened yet."""
    left = {number: runs for number, runs in waiting.items() if CASES[number].while_looked_at is not None}
    pages = [asked for asked in asked_by(OPERATOR) if asked.about.startswith("/waits/")] if left else []
    for number, runs in list(left.items()):
        acts = CASES[number].while_looked_at
        if acts is not None and any(asked.names([house.wait(runs[0]).id]) for asked in pages):
            acts(house, runs)
            del left[number]
    return left
