"""The outside world by itself: it counts what really happened, however it was told to misbehave."""

import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.unit.outside_world import OutsideWorld, outside_world
from tests.waiting import wait_until

POST = {
    "title": "ARKK / ARKW overlap",
    "body": "**Weight overlap: 65.08 %**\n\n| a | b |\n| --- | ---: |\n| x\\|y | <i> |\n",
}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[OutsideWorld]:
    with outside_world(tmp_path) as running:
        yield running


def post(world: OutsideWorld, key: str, timeout: float = 10.0) -> httpx.Response:
    headers = {"Idempotency-Key": key}
    return httpx.post(f"{world.url}/wiki/posts", json=POST, headers=headers, timeout=timeout, trust_env=False)


def get(world: OutsideWorld, path: str, **params: str | list[str]) -> httpx.Response:
    return httpx.get(f"{world.url}{path}", params=params, trust_env=False)


def test_every_post_is_executed_and_counted(world: OutsideWorld) -> None:
    first, second = post(world, "k1"), post(world, "k1")
    assert (first.status_code, first.json()["executions"], second.json()["executions"]) == (201, 1, 2)
    assert world.counts()["wiki"] == {"total": 2, "keys": {"k1": 2}}


def test_with_deduplication_a_key_is_executed_once(world: OutsideWorld) -> None:
    world.control(deduplicate=True)
    assert post(world, "k1").json() == post(world, "k1").json()
    assert world.executions("k1") == 1


def test_a_post_without_a_key_is_refused(world: OutsideWorld) -> None:
    answer = httpx.post(f"{world.url}/wiki/posts", json=POST, trust_env=False)
    assert (answer.status_code, world.counts()["wiki"]["total"]) == (400, 0)


def test_a_table_without_a_row_is_a_page_as_well(world: OutsideWorld) -> None:
    bare = {**POST, "body": "| --- |\n\n|"}
    httpx.post(f"{world.url}/wiki/posts", json=bare, headers={"Idempotency-Key": "k"}, trust_env=False)
    assert get(world, "/wiki/pages/arkk-arkw-overlap").status_code == 200


@pytest.mark.parametrize("body", [b"", b"not json", b"[]", b'{"title": "x"}', b'{"title": "", "body": "x"}'])
def test_a_post_that_is_none_is_refused(world: OutsideWorld, body: bytes) -> None:
    answer = httpx.post(f"{world.url}/wiki/posts", content=body, headers={"Idempotency-Key": "k"}, trust_env=False)
    assert (answer.status_code, world.counts()["wiki"]["total"]) == (400, 0)


def test_look_up_by_key_is_there_only_when_switched_on(world: OutsideWorld) -> None:
    post(world, "k1")
    assert get(world, "/wiki/posts", key="k1").status_code == 404
    world.control(lookup=True)
    assert get(world, "/wiki/posts", key="k1").json()["executions"] == 1
    assert get(world, "/wiki/posts", key="other").json()["executions"] == 0


def test_the_page_for_people_says_of_each_key_what_it_was_executed_for_before_it_offers_a_switch(
    world: OutsideWorld,
) -> None:
    post(world, "k1")
    html = get(world, "/").text
    row = html[html.index("<td><code>k1</code></td>") :]
    assert POST["title"] in row and POST["body"][:20] in row
    assert html.index("<td><code>k1</code></td>") < html.index("<form")


@pytest.mark.parametrize(("mode", "status"), [("refuse", 403), ("busy", 503)])
def test_refusing_and_being_busy_execute_nothing(world: OutsideWorld, mode: str, status: int) -> None:
    world.control(mode=mode)
    answer = post(world, "k1")
    assert (answer.status_code, answer.json()["executed"]) == (status, False)
    assert world.executions("k1") == 0


@pytest.mark.parametrize(("execute", "executions"), [(True, 1), ("before", 1), ("never", 0), (False, 0)])
def test_dropping_the_connection_after_executing_or_not(
    world: OutsideWorld, execute: bool | str, executions: int
) -> None:
    world.control(mode="drop", execute=execute)
    with pytest.raises(httpx.RemoteProtocolError):
        post(world, "k1")
    assert world.executions("k1") == executions


@pytest.mark.parametrize(("execute", "executions"), [(True, 1), (False, 0)])
def test_a_503_from_in_between_says_nothing_of_what_was_executed(
    world: OutsideWorld, execute: bool, executions: int
) -> None:
    world.control(mode="gateway", execute=execute)
    answer = post(world, "k1")
    assert answer.status_code == 503 and "executed" not in answer.text
    assert world.executions("k1") == executions


def test_executing_twice(world: OutsideWorld) -> None:
    world.control(mode="twice")
    assert post(world, "k1").json()["executions"] == 2


@pytest.mark.parametrize(("execute", "while_held", "afterwards"), [("before", 1, 1), ("after", 0, 1)])
def test_a_held_request_goes_on_when_the_switches_are_set_anew(
    world: OutsideWorld, execute: str, while_held: int, afterwards: int
) -> None:
    world.control(mode="hang", execute=execute, hang_seconds=600)
    asking = threading.Thread(target=post, args=(world, "k1"))
    asking.start()
    wait_until(lambda: world.counts()["held"]["wiki"] == 1, "the post is held")
    assert world.executions("k1") == while_held
    world.control(mode="ok")
    asking.join()
    assert world.executions("k1") == afterwards


def test_a_client_that_gives_up_waiting_changes_nothing(world: OutsideWorld) -> None:
    world.control(mode="hang", hang_seconds=600)
    with pytest.raises(httpx.ReadTimeout):
        post(world, "k1", timeout=0.2)
    world.control(mode="ok")
    assert world.executions("k1") == 1
    assert post(world, "k2").status_code == 201


def test_a_mode_for_n_requests_falls_back_to_ok(world: OutsideWorld) -> None:
    world.control(mode="busy", times=2)
    assert [post(world, "k1").status_code for _ in range(3)] == [503, 503, 201]
    modes = [request["mode"] for request in world.counts()["received"]["wiki"]]
    assert modes == ["busy", "busy", "ok"]


def test_the_sheet_says_what_it_knows_and_counts_each_reading(world: OutsideWorld) -> None:
    lines = ["DREYFUS GOVT CASH MAN INS", "GOLDMAN FS TRSY OBLIG INST 468", "US DOLLAR", "BAYHEAD TRADE FINANCE NOTE B"]
    answers = get(world, "/reference", lines=lines).json()["answers"]
    assert [answer["line"] for answer in answers] == lines
    assert [answer["covered"] for answer in answers] == [True, True, True, False]
    assert world.counts()["reference"]["total"] == 1


def test_the_targets_are_switched_apart(world: OutsideWorld) -> None:
    world.control(mode="busy", **{"for": "reference"})
    assert get(world, "/reference", lines="X").status_code == 503
    assert (world.counts()["reference"]["total"], post(world, "k1").status_code) == (0, 201)


@pytest.mark.parametrize(
    "wanted",
    [
        {"mode": "explode"},
        {"mode": "ok", "for": "moon"},
        {"mode": "drop", "times": 0},
        {"mode": "drop", "execute": "maybe"},
        {"hang_seconds": -1},
        {"deduplicate": "yes"},
        {"colour": "red"},
    ],
)
def test_a_setting_that_makes_no_sense_changes_nothing(world: OutsideWorld, wanted: dict[str, str | int]) -> None:
    before = get(world, "/control").json()
    assert httpx.post(f"{world.url}/control", json=wanted, trust_env=False).status_code == 400
    assert get(world, "/control").json() == before


def test_counts_and_switches_survive_being_killed(tmp_path: Path) -> None:
    with outside_world(tmp_path) as world:
        post(world, "k1")
        world.control(mode="drop", deduplicate=True)
        world.kill()
    with outside_world(tmp_path) as world:
        assert world.executions("k1") == 1
        state = get(world, "/control").json()
        assert (state["wiki"]["mode"], state["deduplicate"]) == ("drop", True)


def test_a_person_reads_pages_and_sets_switches_with_forms(world: OutsideWorld) -> None:
    post(world, "k1")
    page = get(world, "/wiki/pages/arkk-arkw-overlap")
    assert "<strong>Weight overlap: 65.08 %</strong>" in page.text
    head, body = "<tr><th>a</th><th>b</th></tr>", "<tr><td>x|y</td><td>&lt;i&gt;</td></tr>"
    assert f"<table><thead>{head}</thead><tbody>{body}</tbody></table>" in page.text
    assert get(world, "/wiki/pages/none").status_code == 404
    form = {"for": "wiki", "mode": "drop", "times": "1", "hang_seconds": "5"}
    assert httpx.post(f"{world.url}/control", data=form, trust_env=False).status_code == 303
    assert (
        httpx.post(f"{world.url}/control", data={"options": "true", "lookup": "true"}, trust_env=False).status_code
        == 303
    )
    state = get(world, "/control").json()
    assert (state["wiki"]["mode"], state["wiki"]["times"], state["lookup"]) == ("drop", 1, True)
    assert "k1" in get(world, "/").text


def test_a_form_from_another_site_is_refused(world: OutsideWorld) -> None:
    headers = {"Origin": "http://evil.example"}
    answer = httpx.post(f"{world.url}/control", data={"mode": "drop"}, headers=headers, trust_env=False)
    assert (answer.status_code, get(world, "/control").json()["wiki"]["mode"]) == (403, "ok")
