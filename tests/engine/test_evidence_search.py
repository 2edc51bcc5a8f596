"""The evidence search in one process, against a real outside world: claims, evidence, verification, stop."""

from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest
from pytest_django import Settings

from checkpoints.selectors import load_head
from receipts.models import Publication, ReportVersion, ToolCall
from receipts.selectors import report_body, result_bytes
from runtime.agents.evidence_search import SAMPLE
from runtime.loop import drive
from runtime.services import InputRefused, StartRequest, Upload, run_start, typed_text
from runtime.tools.evidence.claims import read
from tests.engine.engine import Engine, attempts_of, run_now
from tests.unit.outside_world import OutsideWorld, outside_world

CLAIMS = read(SAMPLE.read_bytes())
VERDICTS = ["SUPPORTED", "AT_ODDS", "SUPPORTED", "AT_ODDS", "NOT_FOUND"]


@pytest.fixture
def outside(engine: Engine, settings: Settings, tmp_path: Path) -> Iterator[OutsideWorld]:
    with outside_world(tmp_path) as world:
        settings.OUTSIDE_URL = world.url
        yield world


def started(engine: Engine, text: str = "") -> UUID:
    given = typed_text(text) if text else Upload("claims.txt", SAMPLE.read_bytes())
    return engine.start("evidence_search", by="otto", inputs={"claims": given})


def test_every_claim_is_searched_once_and_the_report_names_the_verified_ones(
    engine: Engine, outside: OutsideWorld
) -> None:
    run_id = started(engine)
    drive(run_id)
    assert run_now(run_id).status == "COMPLETED"
    assert [call.step_name for call in ToolCall.objects.filter(run_id=run_id).order_by("ordinal")] == [
        "read_claims/claims",
        *[f"search_evidence/{claim.id}" for claim in CLAIMS],
        "verify_claims/claims",
        "send_answer_part/v1",
    ]
    assert outside.counts()["evidence"]["total"] == len(CLAIMS)
    assert set(outside.counts()["evidence"]["keys"].values()) == {1}
    version = ReportVersion.objects.get(run_id=run_id)
    assert Publication.objects.get(report_version=version).status == "PUBLISHED"
    body = report_body(version)
    verified = [claim.id for claim, verdict in zip(CLAIMS, VERDICTS, strict=True) if verdict == "SUPPORTED"]
    line = next(line for line in body.splitlines() if line.startswith("Verified claims: "))
    assert [claim.id for claim in CLAIMS if claim.id in line] == verified
    for claim, verdict in zip(CLAIMS, VERDICTS, strict=True):
        assert f"[{claim.id}](call:" in body
        said = {"SUPPORTED": "is supported", "AT_ODDS": "is at odds", "NOT_FOUND": "is not found"}[verdict]
        assert any(claim.id in line and said in line for line in body.splitlines())


def test_no_claim_and_no_passage_stands_in_a_checkpoint(engine: Engine, outside: OutsideWorld) -> None:
    """A checkpoint holds claim ids, which were checked against the claims of the run, and nothing of their text (B-010)."""
    run_id = started(engine)
    drive(run_id)
    snapshot = load_head(run_now(run_id)).snapshot.model_dump_json()
    for claim in CLAIMS:
        assert claim.id in snapshot
        assert claim.text not in snapshot
    passage = result_bytes(ToolCall.objects.get(step_name=f"search_evidence/{CLAIMS[0].id}").result)
    assert b"Northwind Grid operated 412 substations" in passage


def test_a_refused_search_is_told_in_the_report(engine: Engine, outside: OutsideWorld) -> None:
    outside.control(mode="refuse", **{"for": "evidence"})
    run_id = started(engine, "Northwind Grid operated 412 substations.")
    drive(run_id)
    assert run_now(run_id).status == "COMPLETED"
    assert "gave no usable answer" in report_body(ReportVersion.objects.get(run_id=run_id))


def test_a_search_without_an_answer_is_asked_again_without_a_person(engine: Engine, outside: OutsideWorld) -> None:
    outside.control(mode="drop", times=1, **{"for": "evidence"})
    run_id = started(engine, "Northwind Grid operated 412 substations.")
    drive(run_id)
    assert run_now(run_id).status == "COMPLETED"
    search = ToolCall.objects.get(run_id=run_id, tool="search_evidence")
    assert attempts_of(search) == [(1, "NO_RESPONSE", "policy:builtin-1"), (2, "OK", "policy:read-only")]
    assert outside.counts()["evidence"]["keys"] == {search.idempotency_key: 2}


def test_claims_that_cannot_be_read_start_no_run(engine: Engine) -> None:
    wanted = StartRequest("evidence_search", {"claims": typed_text("A claim of a person.\nshort")})
    refused = run_start(actor=engine.person("otto"), wanted=wanted)
    assert isinstance(refused, InputRefused)
    assert "Claims: Line 2 has 5 characters" in refused.sentence
    assert not ToolCall.objects.exists()
