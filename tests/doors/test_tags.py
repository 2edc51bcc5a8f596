"""Tags through every door."""

from typing import Any

from django.test import Client

from accounts.models import User
from runs.selectors import tags_of
from tests.doors.asking import form, problem
from tests.doors.typed import AS, refused
from tests.doors.world import OPERATOR, Doors, manage


def test_tags_over_the_api(doors: Doors) -> None:
    run = doors.start(form(tag=["month-end", "desk:emea"])).json()
    assert run["tags"] == ["desk:emea", "month-end"]
    path = f"/runs/{run['id']}/tags/"
    assert doors.api("POST", path, {"add": ["q2"], "remove": ["month-end"]}).json()["tags"] == ["desk:emea", "q2"]
    rows = doors.api("GET", "/runs/?tag=q2&tag=desk:emea").json()["results"]
    assert [(row["id"], row["tags"]) for row in rows] == [(run["id"], ["desk:emea", "q2"])]
    assert problem(doors.api("POST", path, {"add": ["Bad"]}), 400, "INVALID")["facts"]["field"] == "add"
    many = [f"t{number}" for number in range(21)]
    assert problem(doors.api("POST", path, {"add": many}), 409, "TOO_MANY_TAGS")["facts"]["count"] == 23
    problem(doors.api("POST", path, {"add": ["q3"], "why": "?"}), 400, "INVALID")


def test_tags_by_command(doors: Doors, files: tuple[str, ...]) -> None:
    started = manage("runs", "start", "fund_comparison", *files, "--tag", "b", "--tag", "a", *AS, "--json")
    run = started.json["id"]
    assert started.json["tags"] == ["a", "b"]
    ran = manage("runs", "tag", run, "--add", "c", "--remove", "a", *AS)
    assert ran.code == 0 and "b c" in ran.out
    assert [row["id"] for row in manage("runs", "list", "--where", "tag=c b", *AS, "--json").json] == [run]
    refused(manage("runs", "tag", run, "--add", "No", *AS, "--json"), "INVALID")


def test_tags_on_the_page(doors: Doors) -> None:
    run = doors.started()
    client = Client()
    client.force_login(User.objects.get(username=OPERATOR))
    page = f"/runs/{run}/tags/"
    assert client.post(page, {"add": "month-end, q2"}).status_code == 302
    assert tags_of(run) == ["month-end", "q2"]
    shown = client.get(f"/runs/{run}/").content.decode()
    assert 'href="/runs/?tag=month-end"' in shown and 'href="/runs/?tag=q2"' in client.get("/runs/").content.decode()
    answer = client.post(page, {"add": "Bad", "remove": ["q2"]})
    kept = answer.content.decode()
    assert answer.status_code == 400 and 'value="Bad"' in kept and 'value="q2" checked' in kept
    assert client.post(page, {"remove": ["q2"]}).status_code == 302
    assert tags_of(run) == ["month-end"]
    file: Any = client.get("/runs/?format=csv&tag=month-end")
    assert "month-end" in b"".join(file.streaming_content).decode()
