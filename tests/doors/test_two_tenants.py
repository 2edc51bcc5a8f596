"""A person who is a member of two tenants acts in the one that they have chosen, on every door, and nowhere else."""

import asyncio
import json
import re
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from accounts.models import AuditEvent, Membership, Tenant, User
from accounts.services import member_set, token_create
from accounts.states import Role
from approvals.models import Wait
from runs.models import Run
from tests.doors.routes import ROUTES
from tests.doors.test_access import _socket
from tests.doors.world import ALL, Doors, manage

BOTH = "in-both"


@pytest.fixture(scope="module")
def tokens(doors: Doors) -> dict[str, str]:
    """A person who may do everything in the tour and only look elsewhere; a token of each membership."""
    here = member_set(tenant=doors.tenant, username=BOTH, password=None, roles=ALL)
    there = member_set(tenant=doors.elsewhere, username=BOTH, password=None, roles=frozenset({Role.VIEWER}))
    return {
        "tour": token_create(membership=here, name="here"),
        "elsewhere": token_create(membership=there, name="there"),
    }


@pytest.fixture
def client(tokens: dict[str, str]) -> Client:
    client = Client()
    client.force_login(User.objects.get(username=BOTH))
    return client


def act_in(client: Client, tenant: str, **more: str) -> Any:
    return client.post(reverse("tenant"), {"tenant": tenant, **more})


def asked(token: str, path: str, **headers: str) -> Any:
    return Client().get(f"/api/v1{path}", headers={"Authorization": f"Bearer {token}", **headers})


# ── pages ──


def test_every_page_asks_first_for_which_tenant_one_acts(client: Client, waiting: Wait) -> None:
    for path in ("/", "/inbox/", f"/waits/{waiting.id}/"):
        answer = client.get(path)
        assert answer.status_code == 302 and answer["Location"].startswith(f"{reverse('tenant')}?next=")
    shown = client.get(reverse("tenant"), {"next": "/inbox/"}).content.decode()
    assert "Tour" in shown and "Elsewhere" in shown
    assert act_in(client, "tour", next="/inbox/")["Location"] == "/inbox/"
    assert client.get("/inbox/").status_code == 200


def test_what_is_of_the_other_tenant_stays_refused_until_that_one_is_chosen(client: Client, waiting: Wait) -> None:
    pages = [f"/waits/{waiting.id}/", f"/runs/{waiting.run_id}/", f"/calls/{waiting.tool_call_id}/"]
    act_in(client, "elsewhere")
    assert [client.get(page).status_code for page in pages] == [404] * 3
    assert client.post(pages[0], {"verdict": "REJECT", "reason": "no"}).status_code == 404
    act_in(client, "tour")
    assert [client.get(page).status_code for page in pages] == [200] * 3
    assert Wait.objects.get(id=waiting.id).status == "OPEN"


def test_a_tenant_of_somebody_else_and_an_address_outside_are_not_taken(client: Client, doors: Doors) -> None:
    Tenant.objects.get_or_create(slug="foreign", defaults={"name": "Foreign"})
    assert act_in(client, "foreign").status_code == 404
    assert "Nothing was changed" in act_in(client, "foreign").content.decode()
    assert act_in(client, "tour", next="https://elsewhere.example/")["Location"] == "/"


def test_the_roles_are_those_of_the_tenant_that_was_chosen(client: Client, waiting: Wait, doors: Doors) -> None:
    act_in(client, "elsewhere")
    refused = client.post(reverse("run-new"), {"agent": "nobody", "page_tenant": "elsewhere"})
    assert refused.status_code == 403
    act_in(client, "tour")
    assert client.post(reverse("run-new"), {"agent": "nobody", "page_tenant": "tour"}).status_code == 400


def test_a_form_of_a_page_of_the_other_tenant_is_not_taken(client: Client) -> None:
    act_in(client, "tour")
    assert 'name="page_tenant" value="tour"' in client.get(reverse("run-new")).content.decode()
    act_in(client, "elsewhere")
    before = Run.objects.count()
    answer = client.post(reverse("run-new"), {"agent": "fund_comparison", "page_tenant": "tour"})
    assert answer.status_code == 409
    assert "Nothing was done. The page was of tour, and you act in elsewhere now." in answer.content.decode()
    assert Run.objects.count() == before


# Pages whose forms name no object of a tenant: what they do would be done in whichever tenant was chosen last.
NAMELESS = [name for name, route in ROUTES.items() if route.door == "page" and route.act and not route.named]


@pytest.mark.parametrize("name", [*NAMELESS, "runs", "waits"])
def test_each_form_that_names_no_object_says_of_which_tenant_its_page_is(
    name: str, doors: Doors, waiting: Wait
) -> None:
    member_set(tenant=doors.tenant, username="every-role", password=None, roles=frozenset(Role))
    client = Client()
    client.force_login(User.objects.get(username="every-role"))
    page = client.get(reverse(name), {"wait": str(waiting.id), "query": "status=WAITING"}).content.decode()
    forms = [
        form for form in re.findall(r'<form[^>]*method="post".*?</form>', page, re.DOTALL) if "/sign-out/" not in form
    ]
    assert forms or name == "views"
    assert [form for form in forms if 'name="page_tenant" value="tour"' not in form] == []


def test_a_panel_of_a_page_of_the_other_tenant_is_not_filled_from_this_one(client: Client) -> None:
    """Else an inbox shows the waits of one tenant under the name of the other."""
    of_tour = {"HX-Request": "true", "HX-Target": "inbox-list", "Signalbox-Page-Tenant": "tour"}
    act_in(client, "tour")
    assert client.get(reverse("inbox"), headers=of_tour).status_code == 200
    act_in(client, "elsewhere")
    answer = client.get(reverse("inbox"), headers=of_tour)
    assert (answer.status_code, answer.content, answer["Signalbox-Acting-In"]) == (409, b"", "elsewhere")


def test_a_panel_is_not_filled_with_the_question_in_which_tenant_one_acts(client: Client) -> None:
    """A person is made a member of a second tenant while a page of theirs is open."""
    answer = client.get(reverse("inbox"), headers={"HX-Request": "true", "Signalbox-Page-Tenant": "tour"})
    assert (answer.status_code, answer["Signalbox-Acting-In"]) == (409, "no%20tenant")


def test_who_loses_the_membership_that_they_act_by_acts_in_the_one_that_is_left(doors: Doors) -> None:
    leaving = "leaving"
    for tenant in (doors.tenant, doors.elsewhere):
        member_set(tenant=tenant, username=leaving, password=None, roles=frozenset({Role.VIEWER}))
    client = Client()
    client.force_login(User.objects.get(username=leaving))
    act_in(client, "tour")
    assert client.get("/").status_code == 200
    Membership.objects.get(tenant=doors.tenant, user__username=leaving).delete()
    page = client.get("/").content.decode()
    assert client.session.get("tenant") is None and leaving in page


# ── API ──


def test_a_token_belongs_to_its_tenant_and_is_refused_for_another(tokens: dict[str, str], waiting: Wait) -> None:
    path = f"/waits/{waiting.id}/"
    assert asked(tokens["tour"], path).status_code == 200
    assert asked(tokens["elsewhere"], path).status_code == 404
    assert asked(tokens["tour"], path, **{"Signalbox-Tenant": "tour"}).status_code == 200
    wrong = asked(tokens["tour"], path, **{"Signalbox-Tenant": "elsewhere"})
    assert (wrong.status_code, wrong.json()["facts"]["field"]) == (400, "Signalbox-Tenant")


def test_a_session_names_the_tenant_in_a_header_or_has_chosen_it(client: Client, waiting: Wait) -> None:
    path = f"/api/v1/waits/{waiting.id}/"
    unchosen = client.get(path)
    assert unchosen.status_code == 400 and "elsewhere, tour" in unchosen.json()["detail"]
    assert client.get(path, headers={"Signalbox-Tenant": "tour"}).status_code == 200
    assert client.get(path, headers={"Signalbox-Tenant": "elsewhere"}).status_code == 404
    assert client.get(path, headers={"Signalbox-Tenant": "nowhere"}).status_code == 404
    act_in(client, "tour")
    assert client.get(path).status_code == 200
    assert client.get(path, headers={"Signalbox-Tenant": "elsewhere"}).status_code == 404


# ── commands ──


def test_a_command_needs_the_tenant_of_who_has_several(tokens: dict[str, str], waiting: Wait) -> None:
    show = ("waits", "show", waiting.id, "--as", BOTH, "--json")
    missing = manage(*show)
    assert (missing.code, missing.out) == (2, "") and f"{BOTH} is a member of elsewhere, tour" in missing.err
    assert manage(*show, "--tenant", "tour").json["id"] == str(waiting.id)
    assert manage(*show, "--tenant", "elsewhere").json["error"]["code"] == "NOT_FOUND"
    stranger = manage(*show, "--tenant", "nowhere")
    assert (stranger.code, stranger.json["error"]["code"]) == (1, "NO_MEMBER")


def test_what_is_done_stands_in_the_chain_of_the_tenant_in_which_it_was_done(
    tokens: dict[str, str], waiting: Wait
) -> None:
    stale = ("--reject", "--revision", "99", "--digest", "0", "--args-digest", "0", "--reason", "no")
    before = AuditEvent.objects.latest("id").id
    for tenant in ("elsewhere", "tour"):
        assert manage("waits", "decide", waiting.id, *stale, "--as", BOTH, "--tenant", tenant).code == 1
    mine = AuditEvent.objects.filter(actor=f"person:{BOTH}", id__gt=before).values_list("tenant__slug", "action")
    assert list(mine) == [("tour", "wait.decide.refused")]


# ── sockets ──


def test_a_socket_tells_of_the_tenant_that_was_chosen(client: Client, waiting: Wait) -> None:
    topic = f"run:{waiting.run_id}"

    async def subscribed() -> Any:
        socket = _socket("ws/live/", client.cookies["sessionid"].value)
        await socket.send_input({"type": "websocket.connect"})
        first = await socket.receive_output(10)
        if first["type"] == "websocket.close":
            return None
        await socket.send_input({"type": "websocket.receive", "text": json.dumps({"subscribe": [topic]})})
        while "subscribed" not in (answer := json.loads((await socket.receive_output(10))["text"])):
            pass
        await socket.send_input({"type": "websocket.disconnect", "code": 1000})
        await socket.wait(10)
        return answer["subscribed"]

    assert asyncio.run(subscribed()) is None
    act_in(client, "elsewhere")
    assert asyncio.run(subscribed()) == []
    act_in(client, "tour")
    assert asyncio.run(subscribed()) == [topic]
