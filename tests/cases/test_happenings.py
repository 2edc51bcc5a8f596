"""What happens under the operator's hand: brought about once the page is opened, and a failure of it ends nothing."""

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest
from django.test import override_settings
from django.urls import reverse

from approvals.models import Wait
from receipts.models import ToolCall
from runtime.registry import agents
from tests.cases import serve
from tests.cases.catalogue import CASES
from tests.cases.house import OPERATOR, House
from tests.cases.judging import judge, table
from tests.cases.requests import note_file

pytestmark = pytest.mark.process
ELM = next(number for number, case in CASES.items() if case.title == "Elm Joinery, EJ-12")
CASES_WANTED = {ELM}


def opened(wait: Wait) -> None:
    """Note that the operator has opened the page of a wait, as the middleware of the stand does."""
    with note_file().open("a") as file:
        file.write(json.dumps([time.time(), OPERATOR, "GET", reverse("wait", args=[wait.id]), ""]) + "\n")


def test_what_fails_to_happen_is_told_by_the_judge_and_ends_nothing(
    prepared: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(house: House, runs: Sequence[UUID]) -> None:
        assert not runs, "the colleague was not at work"

    opened(prepared.wait(prepared.made[ELM][0]))
    monkeypatch.setitem(CASES, ELM, replace(CASES[ELM], while_looked_at=fails))
    assert serve.happen(prepared, prepared.made, tmp_path) == {}
    told = table(judge(CASES, prepared.made), serve.failed_in(tmp_path))
    assert f"Case {ELM} did not happen as it was prepared: the colleague was not at work" in told
    assert "1 undone" in told


def test_the_call_is_written_anew_under_the_eyes_of_who_opens_it(prepared: House, tmp_path: Path) -> None:
    """In a process that has none of the agents of the cases installed, as the stand has not."""
    run_id = prepared.made[ELM][0]
    note_file().unlink(missing_ok=True)
    with override_settings(AGENTS=[]):
        agents.cache_clear()
        assert set(serve.happen(prepared, prepared.made, tmp_path)) == {ELM}
        opened(prepared.wait(run_id))
        assert serve.happen(prepared, prepared.made, tmp_path) == {}
    agents.cache_clear()
    assert serve.failed_in(tmp_path) == {}
    assert ToolCall.objects.filter(run_id=run_id, author="person:b.osei").count() == 1
