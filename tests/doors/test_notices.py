"""Notices through their doors: an address goes in and never comes out, and a link that is opened decides nothing."""

from collections.abc import Iterator
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from django.test import Client, override_settings
from django.urls import reverse

from accounts.models import AuditEvent, Endpoint, Membership, Notice, User
from approvals.models import Decision, Look, Vote, Wait
from receipts.models import ToolCall
from runs.models import Run
from runtime.notices import notices_deliver
from runtime.sentences import link
from tests.doors.world import OPERATOR, STRANGER, Doors, manage
from tests.engine.engine import sql_past_triggers
from tests.receiver import Receiver, receiver


@pytest.fixture
def hook() -> Iterator[Receiver]:
    with receiver() as got, override_settings(NOTICE_NETWORKS=[ip_network("127.0.0.1/32")], NOTICE_SECONDS=5.0):
        yield got


@pytest.fixture(autouse=True)
def nobody_else_is_told(doors: Doors) -> Iterator[None]:
    yield
    for row in Endpoint.objects.filter(removed_at=None):
        manage("endpoints", "remove", row.id, "--as", _owner(row))


def _owner(row: Endpoint) -> str:
    return row.membership.user.username if row.membership else OPERATOR if row.tenant.slug == "tour" else STRANGER


def browser(username: str) -> Client:
    client = Client()
    client.force_login(User.objects.get(username=username))
    return client


def added(doors: Doors, hook: Receiver, **more: Any) -> Any:
    body = {"kind": "WEBHOOK", "name": "desk", "address": hook.url, **more}
    answer = doors.api("POST", "/endpoints/", body)
    assert answer.status_code == 201, answer.content
    return answer.json()


def test_an_address_goes_in_and_never_comes_out(doors: Doors, hook: Receiver, tmp_path: Path) -> None:
    (tmp_path / "address").write_text(f"{hook.url}\n")
    record = added(doors, hook)
    ran = manage(
        "endpoints", "add", "webhook", "mine", "--address-from", tmp_path / "address", "--as", OPERATOR, "--json"
    )
    form = {"kind": "WEBHOOK", "name": "by page", "address": hook.url, "hears": ["OPENED"]}
    assert browser(OPERATOR).post(reverse("notifications"), form).status_code == 302
    assert ran.code == 0 and ran.json["shown"] == record["shown"] == hook.url.split("/")[2]
    listed = doors.api("GET", "/endpoints/")
    page = browser(OPERATOR).get(reverse("notifications"))
    told = manage("endpoints", "list", "--as", OPERATOR)
    for text in (listed.content.decode(), page.content.decode(), told.out, ran.out, str(record)):
        assert "s3cr3t" not in text
    assert [one["name"] for one in listed.json()["results"]] == ["by page", "mine", "desk"]
    assert "by page" in page.content.decode() and "by page" in told.out


@pytest.mark.parametrize("address", ["http://10.0.0.1/", "https://127.0.0.2/", "https://[::1]/", "nowhere", ""])
def test_a_private_address_is_refused_on_every_door(doors: Doors, tmp_path: Path, address: str) -> None:
    (tmp_path / "address").write_text(address)
    answer = doors.api("POST", "/endpoints/", {"kind": "WEBHOOK", "name": "desk", "address": address})
    ran = manage(
        "endpoints", "add", "webhook", "desk", "--address-from", tmp_path / "address", "--as", OPERATOR, "--json"
    )
    page = browser(OPERATOR).post(reverse("notifications"), {"kind": "WEBHOOK", "name": "desk", "address": address})
    assert (answer.status_code, page.status_code, ran.code) == (400, 400, 1)
    assert answer.json()["code"] == ran.json["error"]["code"] == "INVALID"
    assert answer.json()["detail"] == ran.json["error"]["message"]
    assert not Endpoint.objects.filter(removed_at=None).exists()


def test_a_chat_service_is_shown_by_its_name_alone(doors: Doors) -> None:
    secret = "TIiajkdnlazkcOXrIdevi7FQ"
    body = {"kind": "CHAT", "name": "ops", "address": f"slack://T1JJ3T3L2/A1BRTD4JD/{secret}/#ops"}
    answer = doors.api("POST", "/endpoints/", body)
    assert (answer.status_code, answer.json()["shown"]) == (201, "Slack")
    refused = doors.api("POST", "/endpoints/", {**body, "address": f"json://127.0.0.1/{secret}"})
    assert (refused.status_code, secret in refused.content.decode()) == (400, False)


def test_one_person_neither_sees_nor_removes_what_is_anothers(doors: Doors, hook: Receiver) -> None:
    mine, everybodys = added(doors, hook)["id"], added(doors, hook, whole_tenant=True)["id"]
    for other in ("only-approver", STRANGER):
        shown = doors.api("GET", "/endpoints/", by=other).content.decode()
        assert mine not in shown and (everybodys in shown) == (other != STRANGER)
        assert doors.api("POST", f"/endpoints/{mine}/remove/", by=other).status_code == 404
    assert doors.api("POST", f"/endpoints/{everybodys}/remove/", by="only-approver").status_code == 403
    assert doors.api("POST", f"/endpoints/{mine}/remove/").json()["removed_at"]
    assert doors.api("POST", f"/endpoints/{mine}/remove/").json()["code"] == "ENDPOINT_GONE"


def test_what_was_told_is_listed_with_why_it_was_not(doors: Doors, hook: Receiver) -> None:
    added(doors, hook, hears=["OPENED"])
    hook.answer = 404
    wait = doors.waiting()
    notices_deliver()
    (row,) = doors.api("GET", "/notices/?status=FAILED").json()["results"]
    assert (row["subject_id"], row["kind"], row["error"]) == (str(wait.id), "OPENED", "It answered 404.")
    assert "It answered 404." in browser(OPERATOR).get(reverse("notifications")).content.decode()
    assert "It answered 404." in manage("endpoints", "told", "--as", OPERATOR).out
    assert doors.api("GET", "/notices/", by="only-approver").json()["results"] == []


def facts() -> list[Any]:
    return [
        sorted(Wait.objects.values_list("id", "status")),
        sorted(ToolCall.objects.values_list("id", "status", "attempts")),
        sorted(Run.objects.values_list("id", "status")),
        *(model.objects.count() for model in (Decision, Vote, AuditEvent, Notice)),
    ]


PREFETCHES = (
    {"Sec-Purpose": "prefetch;prerender"},
    {"Purpose": "prefetch"},
    {"X-Moz": "prefetch"},
    {"X-Purpose": "preview"},
)


def test_a_link_that_is_fetched_ten_times_decides_nothing(doors: Doors, hook: Receiver) -> None:
    """Issue 4: by GET and HEAD, signed in and not, as mail scanners and previews do. What is stored is who looked, once each."""
    id = added(doors, hook, whole_tenant=True)["id"]
    wait = doors.waiting()
    doors.unknown()
    doors.api("POST", f"/waits/{wait.id}/assign/", {"person": "only-approver", "reason": "you know it"})
    doors.api("POST", f"/endpoints/{id}/test/")
    notices_deliver()
    links = sorted({body["link"] for body in hook.bodies})
    assert {one.split("/")[1] for one in links} == {"waits", "calls", "settings"}
    before, looked = facts(), Look.objects.count()
    for path in links:
        for client in (Client(), browser(OPERATOR), browser("only-approver"), browser(STRANGER)):
            for number in range(10):
                assert client.head(path).status_code in {200, 302, 404}
                assert client.get(path, headers=PREFETCHES[number % len(PREFETCHES)]).status_code in {200, 302, 404}
    assert Look.objects.count() == looked
    for path in links:
        for client in (Client(), browser(OPERATOR), browser("only-approver"), browser(STRANGER)):
            for _ in range(10):
                assert client.get(path).status_code in {200, 302, 404}
    assert facts() == before
    waits = [path for path in links if path.startswith("/waits/")]
    assert Look.objects.count() == looked + 2 * len(waits)  # two people of this tenant, each once a wait that is open


def test_asking_the_api_without_wanting_its_answer_is_no_look(doors: Doors, waiting: Wait) -> None:
    before = Look.objects.count()
    for method, headers in (("HEAD", {}), ("GET", {"Sec-Purpose": "prefetch"})):
        assert doors.api(method, f"/waits/{waiting.id}/", by="only-viewer", **headers).status_code == 200
    assert Look.objects.count() == before
    doors.api("GET", f"/waits/{waiting.id}/", by="only-viewer")
    assert Look.objects.count() == before + 1


def test_the_page_of_a_question_that_nobody_has_before_them_is_no_look(doors: Doors) -> None:
    wait = doors.asking()
    page, client, before = f"/waits/{wait.id}/", browser(OPERATOR), Look.objects.count()
    assert client.head(page).status_code == 200
    for headers in PREFETCHES:
        assert client.get(page, headers=headers).status_code == 200
    assert Look.objects.count() == before
    client.get(page)
    assert Look.objects.count() == before + 1


def test_a_link_is_the_page_of_its_subject(doors: Doors, waiting: Wait) -> None:
    with override_settings(PUBLIC_URL="https://signalbox.example"):
        assert link("wait", waiting.id) == f"https://signalbox.example{reverse('wait', args=[waiting.id])}"
        assert link("run", waiting.run_id) == f"https://signalbox.example{reverse('run', args=[waiting.run_id])}"


def test_nobody_is_told_of_another_tenant(doors: Doors, hook: Receiver) -> None:
    body = {"kind": "WEBHOOK", "name": "desk", "address": hook.url, "whole_tenant": True}
    assert doors.api("POST", "/endpoints/", body, by=STRANGER).status_code == 201
    doors.waiting()
    assert not Notice.objects.filter(endpoint__tenant=doors.elsewhere).exists()
    assert Membership.objects.filter(user__username=STRANGER).count() == 1


# ── changed, paused, tested, on every door ───────────────────────────────────


def test_an_endpoint_is_changed_on_every_door_and_never_shows_its_address(
    doors: Doors, hook: Receiver, tmp_path: Path
) -> None:
    id = added(doors, hook)["id"]
    (tmp_path / "address").write_text(f"{hook.url}-anew\n")
    (tmp_path / "secret").write_text("a secret of some length\n")
    by_api = doors.api("POST", f"/endpoints/{id}/change/", {"name": "by api", "hears": ["OPENED"], "address": hook.url})
    assert (by_api.json()["name"], by_api.json()["hears"], by_api.json()["signed"]) == ("by api", ["OPENED"], False)
    ran = manage(
        *("endpoints", "change", id, "--name", "by command", "--address-from", tmp_path / "address"),
        *("--signed-with-from", tmp_path / "secret", "--hears", "held", "--as", OPERATOR, "--json"),
    )
    assert (ran.json["name"], ran.json["hears"], ran.json["signed"]) == ("by command", ["HELD"], True)
    assert (by_api.json()["version"], ran.json["version"]) == (2, 3)
    form = {"how": "change", "name": "by page", "hears": ["DECIDED"], "unsigned": "1", "address": hook.url}
    page = browser(OPERATOR).post(reverse("notification", args=[id]), {**form, "version": "3"})
    assert page.status_code == 302
    shown = doors.api("GET", f"/endpoints/{id}/")
    assert (shown.json()["name"], shown.json()["hears"], shown.json()["signed"]) == ("by page", ["DECIDED"], False)
    page = browser(OPERATOR).get(reverse("notification", args=[id]))
    told = manage("endpoints", "show", id, "--as", OPERATOR).out
    for text in (shown.content, by_api.content, page.content, told.encode(), ran.out.encode()):
        assert b"s3cr3t" not in text and b"a secret of" not in text


def test_who_changes_an_endpoint_that_somebody_changed_meanwhile_is_told_what_moved_on_every_door(
    doors: Doors, hook: Receiver
) -> None:
    id = added(doors, hook)["id"]
    path, form = reverse("notification", args=[id]), {"how": "change", "hears": ["HELD"], "version": "1"}
    assert browser(OPERATOR).post(path, {**form, "name": "first"}).status_code == 302
    late = browser(OPERATOR).post(path, {**form, "name": "second", "hears": ["DECIDED"]})
    said = late.content.decode()
    assert late.status_code == 409 and f"By {OPERATOR} at " in said
    assert "changed while you were reading it: its name, what it hears of." in said
    assert 'value="second"' in said and "told when a run is held." in said
    by_api = doors.api("POST", f"/endpoints/{id}/change/", {"name": "third", "version": 1})
    assert (by_api.status_code, by_api.json()["code"]) == (409, "ENDPOINT_MOVED")
    command = ("endpoints", "change", id, "--name", "fourth", "--as", OPERATOR)
    assert "changed while you were reading it" in manage(*command, "--seen-version", "1").err
    assert doors.api("GET", f"/endpoints/{id}/").json()["name"] == "first"
    assert 'name="version" value="2"' in said, "what is sent from that page is written over what it shows"
    assert browser(OPERATOR).post(path, {**form, "name": "second", "version": "2"}).status_code == 302


@pytest.mark.parametrize("version", [0, 7])
def test_a_version_that_an_endpoint_never_had_is_refused_by_its_name_on_every_door(
    doors: Doors, hook: Receiver, version: int
) -> None:
    id = added(doors, hook)["id"]
    by_api = doors.api("POST", f"/endpoints/{id}/change/", {"name": "other", "version": version})
    assert by_api.status_code == 400 and "version" in by_api.json()["detail"]
    form = {"how": "change", "name": "other", "hears": ["HELD"], "version": str(version)}
    by_page = browser(OPERATOR).post(reverse("notification", args=[id]), form)
    assert by_page.status_code == 400 and "is no version of this endpoint" in by_page.content.decode()
    command = ("endpoints", "change", id, "--name", "other", "--as", OPERATOR, "--seen-version", str(version))
    assert "is no version of this endpoint" in manage(*command).err
    assert doors.api("GET", f"/endpoints/{id}/").json()["name"] != "other"


def test_a_refused_change_keeps_what_was_typed_but_what_is_secret(doors: Doors, hook: Receiver) -> None:
    id = added(doors, hook)["id"]
    form = {"how": "change", "name": "new name", "hears": ["HELD"], "address": "https://10.0.0.1/s3cr3t-path"}
    page = browser(OPERATOR).post(reverse("notification", args=[id]), form)
    assert page.status_code == 400 and "which is not a public address" in page.content.decode()
    assert 'value="new name"' in page.content.decode() and "s3cr3t" not in page.content.decode()
    nothing = browser(OPERATOR).post(reverse("notification", args=[id]), {"how": "change", "name": "x"})
    assert nothing.status_code == 400 and "pick at least one" in nothing.content.decode()
    assert browser(OPERATOR).post(reverse("notification", args=[id]), {"how": "what"}).status_code == 400
    assert doors.api("GET", f"/endpoints/{id}/").json()["name"] == "desk"


def test_an_endpoint_is_paused_tested_and_resumed_on_every_door(doors: Doors, hook: Receiver) -> None:
    id = added(doors, hook)["id"]
    path = reverse("notification", args=[id])
    assert doors.api("POST", f"/endpoints/{id}/pause/").json()["paused_at"]
    assert doors.api("POST", f"/endpoints/{id}/pause/").json()["code"] == "ENDPOINT_PAUSED"
    assert manage("endpoints", "resume", id, "--as", OPERATOR, "--json").json["paused_at"] is None
    assert browser(OPERATOR).post(path, {"how": "pause"}).status_code == 302
    assert doors.api("POST", f"/endpoints/{id}/resume/").json()["paused_at"] is None
    assert doors.api("POST", f"/endpoints/{id}/resume/").json()["code"] == "ENDPOINT_NOT_PAUSED"

    sent = doors.api("POST", f"/endpoints/{id}/test/")
    assert (sent.status_code, sent.json()["kind"], sent.json()["status"]) == (202, "TEST", "PENDING")
    assert doors.api("POST", f"/endpoints/{id}/test/").json()["code"] == "TEST_UNDER_WAY"
    waiting = browser(OPERATOR).get(path).content.decode()
    assert "on its way" in waiting and "every 2s" in waiting
    hook.answer = 500
    notices_deliver()
    shown = browser(OPERATOR).get(path).content.decode()
    assert "It answered 500." in shown and "every 2s" not in shown
    hook.answer = 200
    assert manage("endpoints", "test", id, "--as", OPERATOR, "--json").json["kind"] == "TEST"
    notices_deliver()
    told = doors.api("GET", f"/notices/?endpoint={id}").json()["results"]
    assert [one["status"] for one in told] == ["SENT", "FAILED"]
    assert "It answered 500." in manage("endpoints", "told", "--endpoint", id, "--as", OPERATOR).out


def test_what_was_told_long_ago_is_let_go_on_every_door(doors: Doors, hook: Receiver) -> None:
    id, person = added(doors, hook, whole_tenant=True)["id"], "only-governance"
    long_ago = "UPDATE accounts_notice SET closed_at = closed_at - interval '91 days' WHERE kind = 'TEST'"
    sql_past_triggers(long_ago)
    assert doors.api("POST", "/notices/purge/", {"reason": "of other tests"}, by=person).status_code == 200
    acts: list[Any] = [
        lambda: doors.api("POST", "/notices/purge/", {"reason": "old"}, by=person).json(),
        lambda: manage("endpoints", "purge", "--reason", "old", "--as", person, "--json").json,
        lambda: browser(person).post(reverse("notifications"), {"how": "purge", "reason": "old"}).status_code,
    ]
    for act, said in zip(acts, ({"notices": 1, "endpoints": 0}, {"notices": 1, "endpoints": 0}, 302), strict=True):
        doors.api("POST", f"/endpoints/{id}/test/")
        notices_deliver()
        sql_past_triggers(long_ago)
        assert act() == said
        assert not Notice.objects.filter(kind="TEST").exists()
    page = browser("only-viewer").post(reverse("notifications"), {"how": "purge", "reason": "old"})
    assert (page.status_code, "permission “retain”" in page.content.decode()) == (403, True)
