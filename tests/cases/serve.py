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

from console.environment import BASE_DIR
from tests.cases.agents import NOW
from tests.cases.catalogue import CASES
from tests.cases.house import OPERATOR, House, in_folder, under
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
FAILED = "failed.json"  # in the folder: by number, why what happens in a case could not be brought about

logger = logging.getLogger(__name__)


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
    try:
        until_stopped(house, folder)
    finally:  # the database goes with the servers, and with it what was decided
        result = table(judge(CASES, house.made), failed_in(folder))
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
    return table(judge(CASES, made), failed_in(folder))


def failed_in(folder: Path) -> dict[int, str]:
    """By case, why what happens in it could not be brought about."""
    file = folder / FAILED
    return {int(number): why for number, why in json.loads(file.read_text()).items()} if file.exists() else {}


def until_stopped(house: House, folder: Path) -> None:
    """Wait for a signal, and do meanwhile what happens in some cases while somebody looks."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    waiting: dict[int, Sequence[UUID]] = dict(house.made)
    while not signal.sigtimedwait({signal.SIGINT, signal.SIGTERM}, MOMENT):
        waiting = happen(house, waiting, folder)


def happen(house: House, waiting: Mapping[int, Sequence[UUID]], folder: Path) -> dict[int, Sequence[UUID]]:
    """Bring about what happens once somebody has opened the page of a wait; the cases in which it has not happened yet. What
    could not be brought about is kept for the judge's table, and not tried again.
    """
    left = {number: runs for number, runs in waiting.items() if CASES[number].while_looked_at is not None}
    pages = [asked for asked in asked_by(OPERATOR) if asked.about.startswith("/waits/")] if left else []
    for number, runs in list(left.items()):
        if any(asked.names([house.wait(runs[0]).id]) for asked in pages):
            bring_about(house, number, runs, folder)
            del left[number]
    return left


def bring_about(house: House, number: int, runs: Sequence[UUID], folder: Path) -> None:
    """Do what happens in a case, with the agents of the cases installed. The stand outlives an error: it is told at the end."""
    acts = CASES[number].while_looked_at
    assert acts is not None
    try:
        with under(house.outside, NOW):
            acts(house, runs)
    except Exception as error:
        logger.exception("What happens in case %s could not be brought about.", number)
        (folder / FAILED).write_text(json.dumps(failed_in(folder) | {number: str(error)}))
