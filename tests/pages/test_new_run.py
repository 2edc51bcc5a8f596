"""Starting a run in the browser: a refusal stores nothing and keeps what was typed; a repeated post starts one run."""

from html import unescape
from typing import Any, cast
from uuid import uuid4

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.http import HttpResponse

from checkpoints.models import Commitment
from console.pages import new_run
from runs.models import Run, RunInput
from runs.selectors import run_inputs
from runtime.agents.evidence_search import EvidenceSearch
from tests.pages.conftest import Member

GOOD = {
    name: f"date,fund,company,ticker,shares,market value($),weight(%)\n2021-09-08,{fund},TESLA INC,TSLA,10,100,60.00\n".encode()
    for name, fund in (("a", "ARKK"), ("b", "ARKW"))
}


def start(mo: Member, files: dict[str, bytes], panel: str = "", **typed: Any) -> HttpResponse:
    fields: dict[str, Any] = {"agent": "fund_comparison", "goal": "", "title": "", "key": str(uuid4()), **typed}
    for name, data in files.items():
        fields[f"file-{name}"] = SimpleUploadedFile(f"{name}.csv", data)
    headers = {"HX-Request": "true", "HX-Target": panel} if panel else {}
    return cast("HttpResponse", mo.client.post("/runs/new/", fields, headers=headers))


def test_start_leads_to_the_run(mo: Member) -> None:
    answer = start(mo, GOOD, goal="Line one.\r\nLine two.")
    run = Run.objects.get()
    assert answer["Location"] == f"/runs/{run.id}/"
    assert run.created_by == "person:mo.okafor"
    assert set(RunInput.objects.values_list("name", "filename")) == {("a", "a.csv"), ("b", "b.csv")}
    html = mo.get(f"/runs/{run.id}/")
    assert "Line one.\nLine two." in html


def test_a_constraint_ends_where_its_line_was_ended_and_nowhere_else(mo: Member) -> None:
    text = "one\u2028still one\x0cand this\r\ntwo"
    start(mo, GOOD, assumptions=text)
    said = set(Commitment.objects.filter(kind="ASSUMPTION").values_list("statement", flat=True))
    assert {"one\u2028still one\x0cand this", "two"} <= said


def test_what_is_written_a_line_each_binds_the_run(mo: Member) -> None:
    assert "Every number comes from a tool" in mo.get("/runs/new/")
    start(
        mo,
        GOOD,
        constraints="Be brief.\r\n\r\nWrite <b>English</b>.",
        assumptions="It is June.",
        deny=["publish_report"],
    )
    run = Run.objects.get()
    html = mo.get(f"/runs/{run.id}/")
    for shown in (
        "Be brief.",
        "Write &lt;b&gt;English&lt;/b&gt;.",
        "It is June.",
        "Do not call publish_report.",
        "policy holds it",
    ):
        assert shown in html
    assert html.count("Withdraw…") == 6
    assert "Be brief." in mo.get(f"/runs/{run.id}/checkpoints/1/")


def test_htmx_is_led_by_a_header(mo: Member) -> None:
    answer = start(mo, GOOD, panel="new-refusal")
    assert answer["HX-Redirect"] == f"/runs/{Run.objects.get().id}/"


def test_the_same_form_sent_twice_starts_one_run(mo: Member) -> None:
    key = str(uuid4())
    first, second = start(mo, GOOD, key=key), start(mo, GOOD, key=key)
    assert first["Location"] == second["Location"]
    assert Run.objects.count() == 1


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({"a": GOOD["a"]}, "Disclosure B is missing"),
        (
            {"a": GOOD["a"], "b": b"date,fund,company,ticker,weight(%)\n2021-09-08,ARKW,TESLA INC,TSLA,sixty\n"},
            "line 2",
        ),
        ({"a": b"", "b": GOOD["b"]}, "isclosure A"),
    ],
)
def test_a_refusal_names_the_place_and_keeps_what_was_typed(mo: Member, files: dict[str, bytes], says: str) -> None:
    answer = start(mo, files, goal="My own <b>goal</b>", title="My title")
    html = answer.content.decode()
    assert answer.status_code == 400
    assert says in html
    assert "My own &lt;b&gt;goal&lt;/b&gt;</textarea>" in html
    assert 'value="My title"' in html
    assert not Run.objects.exists()


def test_htmx_gets_the_refusal_alone_so_that_the_files_stay_chosen(mo: Member) -> None:
    answer = start(mo, {"a": GOOD["a"]}, panel="new-refusal")
    html = answer.content.decode()
    assert answer.status_code == 400
    assert html.lstrip().startswith('<div id="new-refusal">')
    assert "INPUT_REFUSED" in html


def test_a_file_that_is_too_large_is_not_read(mo: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(new_run, "FILE_LIMIT", 10)
    answer = start(mo, GOOD)
    assert answer.status_code == 400
    assert "a.csv is larger than" in answer.content.decode()


def test_a_refusal_shows_hidden_characters(mo: Member) -> None:
    bad = "date,fund,company,ticker,weight(%)\n2021-09-08,ARKW,TESLA INC,TSLA,6\u202e0<script>\n".encode()
    html = start(mo, {"a": GOOD["a"], "b": bad}).content.decode()
    assert "<script>" not in html.split("</head>")[1]


def test_a_viewer_is_told_why_not(mo: Member, viewer: Member) -> None:
    answer = viewer.client.get("/runs/new/")
    assert answer.status_code == 403
    assert "This needs the role operator, which you do not have in this tenant." in answer.content.decode()
    assert start(viewer, GOOD).status_code == 403
    assert not Run.objects.exists()


# ── an agent whose input is text ─────────────────────────────────────────────


def claims(mo: Member, typed: str | None = None, file: bytes | None = None, **more: Any) -> HttpResponse:
    text = {} if typed is None else {"text-claims": typed}
    return start(mo, {} if file is None else {"claims": file}, agent="evidence_search", **text, **more)


def test_a_typed_text_is_an_input(mo: Member) -> None:
    answer = claims(mo, "The first claim here.\r\nThe second claim here.\r\n")
    run = Run.objects.get()
    assert answer["Location"] == f"/runs/{run.id}/"
    given = RunInput.objects.get()
    assert (given.name, given.filename) == ("claims", "typed text")
    assert run_inputs(run) == {"claims": b"The first claim here.\nThe second claim here.\n"}


def test_the_same_text_may_come_as_a_file(mo: Member) -> None:
    claims(mo, "  \r\n", file=b"The first claim here.")
    assert run_inputs(Run.objects.get()) == {"claims": b"The first claim here."}


@pytest.mark.parametrize(
    ("typed", "file", "says"),
    [
        (None, None, "The claims are missing"),
        ("", None, "The claims are missing"),
        ("The first claim here.\nshort", None, "Line 2 has 5 characters"),
        ("The first claim here.", b"The second claim here.", "typed and given as a file"),
    ],
)
def test_a_text_that_is_refused_is_kept(mo: Member, typed: str | None, file: bytes | None, says: str) -> None:
    answer = claims(mo, typed, file)
    html = answer.content.decode()
    assert answer.status_code == 400
    assert says in html
    assert f"{typed or ''}</textarea>" in html
    assert not Run.objects.exists()


def test_the_sample_is_filled_in_on_request(mo: Member) -> None:
    sample = EvidenceSearch.spec.text_inputs["claims"]
    assert sample in unescape(mo.get("/runs/new/?agent=evidence_search&sample=1"))
    assert sample not in unescape(mo.get("/runs/new/?agent=evidence_search"))
