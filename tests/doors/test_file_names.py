"""A file is kept under the name that it came with, character for character, and given back under it; or it is refused by its place."""

import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from django.test import Client

from approvals.models import Answer, Wait
from receipts.models import Attachment, ToolCall
from runs.models import RunInput
from tests.corpus import IMPOSSIBLE, KEPT
from tests.doors.test_access import browser
from tests.doors.things import asking_for_a_file
from tests.doors.world import ALDER, BIRCH, OPERATOR, Doors, manage
from tests.written_rows import undone

BOUNDARY = "the-boundary"
LIMIT = {"run": 255, "call": 255, "answer": 200}
DOORS = ("page", "api")
# What Django makes other names of, beside the texts of the corpus.
ODD = {
    "folders": "../up/down\\to.csv",
    "a dot": "..",
    "escaped": "a&lt;b&#62;.csv",
    "its end is long": "a." + "x" * 240,
    "spaces": "  two  spaces .csv ",
    "percent": "100%41.csv",
    "plus": "a+b;c=d,e.csv",
}
NAMES = {**ODD, **{name: text for name, text in KEPT.items() if name not in {"at the limit", "long"}}}
A_FEW, EVERY = [*ODD, "script", "bidi", "tags", "controls", "lines", "right to left"], list(NAMES)
named = pytest.mark.parametrize("cases", [A_FEW, pytest.param(EVERY, marks=pytest.mark.matrix)], ids=["few", "every"])


def multipart(fields: dict[str, Any], files: dict[str, tuple[str, bytes]]) -> tuple[bytes, str]:
    """A form as browsers write it: quotes and line breaks in names are escaped by percent signs."""
    parts = [
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
        for name, value in fields.items()
    ]
    for name, (filename, data) in files.items():
        head = f'Content-Disposition: form-data; name="{name}"; filename="{sent(filename)}"'
        parts.append(f"--{BOUNDARY}\r\n{head}\r\nContent-Type: text/csv\r\n\r\n".encode() + data + b"\r\n")
    return b"".join([*parts, f"--{BOUNDARY}--\r\n".encode()]), f"multipart/form-data; boundary={BOUNDARY}"


def sent(filename: str) -> str:
    """A name as it stands in the form; a backslash before another one or a quote would be taken for an escape."""
    return filename.replace('"', "%22").replace("\n", "%0A").replace("\r", "%0D")


def given_back(header: str) -> str:
    """The name in a Content-Disposition, as RFC 6266 says."""
    kind, _, said = header.partition("; ")
    assert kind == "attachment", header
    if said.startswith("filename*=utf-8''"):
        return unquote(said.removeprefix("filename*=utf-8''"))
    quoted = said.removeprefix('filename="').removesuffix('"')
    return quoted.replace('\\"', '"').replace("\\\\", "\\")


@pytest.fixture(autouse=True)
def signed_in(doors: Doors) -> None:
    """Before anything is taken back."""
    browser(OPERATOR)


def is_kept(name: str, limit: int) -> bool:
    """As the services have it: not too long, on one line, and one sees something of it."""
    unseen = all(unicodedata.category(one) in {"Cf", "Mn"} for one in name)
    return len(name) <= limit and not unseen and not any(unicodedata.category(one) == "Cc" for one in name)


def post(doors: Doors, door: str, path: str, fields: dict[str, Any], files: dict[str, tuple[str, bytes]]) -> Any:
    body, kind = multipart(fields, files)
    if door == "page":
        return browser(OPERATOR).generic("POST", path, body, kind)
    token = {"Authorization": f"Bearer {doors.tokens[OPERATOR]}"}
    return Client().generic("POST", f"/api/v1{path}", body, kind, headers=token)


def download(doors: Doors, path: str) -> Any:
    return Client().get(path, headers={"Authorization": f"Bearer {doors.tokens[OPERATOR]}"})


def is_told(answer: Any, place: str) -> bool:
    """Whether a refusal names the place, at the API or on a page."""
    if answer["Content-Type"].startswith("application/problem"):
        return bool(answer.status_code == 400 and answer.json()["facts"]["field"] == place)
    return answer.status_code == 400 and f'id="refused" data-field="{place}"' in answer.content.decode()


# ── the input of a run ──


def start(doors: Doors, door: str, name: str) -> Any:
    prefix, path = ("file-", "/runs/new/") if door == "page" else ("", "/runs/")
    files = {f"{prefix}a": (name, ALDER.encode()), f"{prefix}b": ("birch.csv", BIRCH.encode())}
    key = {"key": "named"} if door == "page" else {}
    return post(doors, door, path, {"agent": "fund_comparison", **key}, files)


@named
@pytest.mark.parametrize("door", DOORS)
def test_an_input_keeps_the_name_of_its_file_or_is_refused(doors: Doors, door: str, cases: list[str]) -> None:
    for case, name in ((case, NAMES[case]) for case in cases):
        with undone() as written:
            answer = start(doors, door, name)
            if not is_kept(sent(name), LIMIT["run"]):
                assert is_told(answer, "a"), (case, answer.content)
                assert not written or written <= {"accounts_auditevent", "accounts_audithead"}, case
                continue
            assert answer.status_code in {201, 302}, (case, answer.content)
            row = RunInput.objects.filter(name="a").latest("id")
            assert row.filename == sent(name), case
            back = download(doors, f"/api/v1/runs/{row.run_id}/inputs/a/")
            assert (back.content, given_back(back["Content-Disposition"])) == (ALDER.encode(), sent(name)), case


@pytest.mark.parametrize("door", DOORS)
def test_a_name_of_255_characters_is_the_longest_one(doors: Doors, door: str) -> None:
    for long, taken in (("x" * 251 + ".csv", True), ("x" * 252 + ".csv", False), ("ü" * 256, False)):
        with undone():
            answer = start(doors, door, long)
            assert (answer.status_code in {201, 302}) is taken, answer.content
            assert taken or is_told(answer, "a"), answer.content
            assert RunInput.objects.filter(filename=long).exists() is taken


@pytest.mark.parametrize("door", DOORS)
def test_a_large_file_keeps_its_name_too(doors: Doors, door: str) -> None:
    """What does not stay in memory lies on a disk, where no name of theirs is used."""
    prefix, path = ("file-", "/runs/new/") if door == "page" else ("", "/runs/")
    name = "../a." + "y" * 240
    large = ALDER.encode() + (b" " * 290 + b"\n") * 15_000
    with undone():
        files = {f"{prefix}a": (name, large), f"{prefix}b": ("birch.csv", BIRCH.encode())}
        fields = {"agent": "fund_comparison", **({"key": "large"} if door == "page" else {})}
        answer = post(doors, door, path, fields, files)
        assert answer.status_code in {201, 302}, answer.content
        assert RunInput.objects.filter(filename=name, size=len(large)).exists()


def test_a_command_keeps_the_name_or_refuses_it(doors: Doors, tmp_path: Path) -> None:
    (tmp_path / "birch.csv").write_text(BIRCH)
    begin = ("runs", "start", "fund_comparison", "--file", f"b={tmp_path}/birch.csv", "--as", OPERATOR, "--json")
    for name, taken in (("Bericht № 2 \u202exe.csv", True), ('a"b\\c.csv', True), ("a\nb.csv", False)):
        (tmp_path / name).write_text(ALDER)
        ran = manage(*begin, "--file", f"a={tmp_path / name}")
        if taken:
            assert name in [one["filename"] for one in ran.json["inputs"]]
        else:
            assert (ran.json["error"]["code"], ran.json["error"]["facts"]["field"]) == ("INVALID", "a")
            assert not RunInput.objects.filter(filename__startswith="a\n").exists()


# ── evidence beside a call ──


@named
@pytest.mark.parametrize("door", DOORS)
def test_a_file_beside_a_call_keeps_its_name_or_is_refused(
    doors: Doors, unknown: ToolCall, door: str, cases: list[str]
) -> None:
    path = f"/calls/{unknown.id}/" if door == "page" else f"/calls/{unknown.id}/attachments/"
    for case, name in ((case, NAMES[case]) for case in cases):
        with undone():
            answer = post(doors, door, path, {"how": "attach"} if door == "page" else {}, {"file": (name, b"seen")})
            if not is_kept(sent(name), LIMIT["call"]):
                assert is_told(answer, "file name"), (case, answer.content)
                assert not Attachment.objects.filter(tool_call=unknown).exists()
                continue
            assert answer.status_code in {200, 302}, (case, answer.content)
            row = Attachment.objects.get(tool_call=unknown)
            assert row.filename == sent(name), case
            for back in (
                download(doors, f"/api/v1/calls/{unknown.id}/attachments/{row.id}/"),
                browser(OPERATOR).get(f"/calls/{unknown.id}/attachments/{row.id}/"),
            ):
                assert given_back(back["Content-Disposition"]) == sent(name), case


# ── a file that answers a question ──


@pytest.fixture
def question(doors: Doors) -> Iterator[Wait]:
    with asking_for_a_file() as wait:
        yield wait


@named
@pytest.mark.parametrize("door", DOORS)
def test_a_file_that_answers_keeps_its_name_or_is_refused(
    doors: Doors, question: Wait, door: str, cases: list[str]
) -> None:
    path = f"/waits/{question.id}/" if door == "page" else f"/waits/{question.id}/answer/"
    shown = {
        "revision": question.checkpoint_revision,
        "digest": question.checkpoint_digest,
        "args_digest": question.args_digest,
    }
    for case, name in ((case, NAMES[case]) for case in cases):
        with undone():
            fields = {**shown, "verdict": "ANSWER"} if door == "page" else shown
            answer = post(doors, door, path, fields, {"file": (name, b"lines")})
            if not is_kept(sent(name), LIMIT["answer"]):
                assert is_told(answer, "file"), (case, answer.content)
                assert not Answer.objects.filter(wait=question).exists()
                continue
            assert answer.status_code in {200, 302}, (case, answer.content)
            for back in (
                download(doors, f"/api/v1/waits/{question.id}/answer/file/"),
                browser(OPERATOR).get(f"/waits/{question.id}/answer/"),
            ):
                assert (back.content, given_back(back["Content-Disposition"])) == (b"lines", sent(name)), case


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_a_name_that_no_store_takes_is_refused_by_its_place(doors: Doors, name: str) -> None:
    """Escaped by percent signs, so that it comes through the form at all."""
    escaped = "".join(f"%{byte:02X}" for byte in IMPOSSIBLE[name].encode("utf-8", "surrogatepass"))
    head = f"Content-Disposition: form-data; name=\"a\"; filename*=utf-8''{escaped}"
    body = f'--{BOUNDARY}\r\n{head}\r\n\r\nx\r\n--{BOUNDARY}\r\nContent-Disposition: form-data; name="agent"\r\n\r\nfund_comparison\r\n--{BOUNDARY}--\r\n'
    token = {"Authorization": f"Bearer {doors.tokens[OPERATOR]}"}
    kind = f"multipart/form-data; boundary={BOUNDARY}"
    answer = Client().generic("POST", "/api/v1/runs/", body.encode(), kind, headers=token)
    assert is_told(answer, "a"), answer.content


@pytest.mark.parametrize("door", DOORS)
def test_a_form_whose_file_name_is_longer_than_its_head_may_be_is_refused_whole(doors: Doors, door: str) -> None:
    with undone() as written:
        answer = start(doors, door, KEPT["at the limit"])
    assert answer.status_code == 400 and not written
    said = answer.json()["detail"] if door == "api" else answer.content.decode()
    assert re.search(r"Part \d of the form can’t be read \(it comes after agent", said), said
