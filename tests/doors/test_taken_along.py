"""What is taken along or looked up from other doors than the pages: a report's files, and a lineage."""

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.test import Client

from accounts.models import User
from receipts.models import ReportVersion
from tests.doors.asking import problem
from tests.doors.typed import AS, refused
from tests.doors.world import OPERATOR, STRANGER, Doors, manage


@pytest.mark.parametrize("kind", ["md", "html", "pdf"])
def test_a_report_is_taken_along_at_every_door_alike(doors: Doors, tmp_path: Path, kind: str) -> None:
    run = doors.completed()
    version = ReportVersion.objects.get(run_id=run.id, version_no=2)
    path = f"/reports/{version.report_id}/versions/2/export/"
    over_http = doors.api("GET", f"{path}?kind={kind}")
    assert over_http.status_code == 200
    assert over_http["Content-Disposition"].endswith(f'-v2.{kind}"')
    file = tmp_path / f"report.{kind}"
    ran = manage("reports", "export", run.id, "--version", 2, "--kind", kind, "--file", file, *AS, "--json")
    assert (ran.code, ran.json["bytes"]) == (0, len(file.read_bytes()))
    client = Client()
    client.force_login(User.objects.get(username=OPERATOR))
    on_page: Any = client.get(f"/reports/{version.report_id}/2/export.{kind}")
    assert on_page["Content-Type"] == over_http["Content-Type"]
    for content in (over_http.content, file.read_bytes(), on_page.content):
        assert content.startswith(b"%PDF") if kind == "pdf" else version.sha256 in content.decode()


def test_a_file_that_is_not_there_or_not_known_is_refused(doors: Doors, tmp_path: Path) -> None:
    run = doors.completed()
    report = ReportVersion.objects.get(run_id=run.id, version_no=2).report_id
    path = f"/reports/{report}/versions/2/export/"
    problem(doors.api("GET", f"/reports/{report}/versions/9/export/"), 404, "NOT_FOUND")
    problem(doors.api("GET", path, by=STRANGER), 404, "NOT_FOUND")
    problem(doors.api("GET", f"{path}?kind=docx"), 400, "INVALID")
    refused(manage("reports", "export", run.id, "--version", 9, "--file", tmp_path / "x", *AS, "--json"), "NOT_FOUND")
    ran = manage("reports", "export", run.id, "--file", tmp_path / "no" / "x", *AS)
    assert ran.code != 0 and "can't be written" in ran.err


def test_a_lineage_is_told_at_every_door_alike(doors: Doors) -> None:
    run = doors.started()
    doors.api("POST", f"/runs/{run}/stop/", {"reason": "not now"})
    made = doors.api("POST", f"/runs/{run}/continue/", {"reason": "go on"}).json()["id"]
    forked = doors.api("POST", f"/runs/{run}/checkpoints/1/fork/", {"reason": "try it"}).json()["id"]
    told = doors.api("GET", f"/runs/{made}/lineage/").json()
    assert told["lineage"] == str(run) and told["more"] is False
    found = {row["id"]: (row["how"], row["level"]) for row in told["runs"]}
    assert found == {
        str(run): ("started", 1),
        made: ("continues the one before", 1),
        forked: ("forked at revision 1", 2),
    }
    ran = manage("runs", "lineage", UUID(made), *AS, "--json")
    assert (ran.code, ran.json) == (0, told)
    assert "forked at revision 1" in manage("runs", "lineage", made, *AS).out
