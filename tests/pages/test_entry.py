"""Sign-in and out, the style guide, error pages, and what every page obeys: no inline script or style, no caching."""

import re
from datetime import timedelta
from pathlib import Path

import pytest
from django.test import Client
from django.utils import timezone

from accounts.models import User
from accounts.services import member_set
from console.environment import BASE_DIR
from tests.pages import story
from tests.pages.conftest import ALL, Member

SAVED = BASE_DIR / "templates/pages/report/export.html"  # no page: a file that carries its one style along
TEMPLATES = sorted(Path(BASE_DIR / "templates").rglob("*.html"))


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: str(path.relative_to(BASE_DIR)))
def test_templates_hold_no_inline_script_or_style(template: Path) -> None:
    text = template.read_text()
    if template == SAVED:
        text = re.sub(r"<style>.*?</style>", "", text, flags=re.DOTALL)
    assert not re.search(r"\sstyle=|<style|\son[a-z]+=|javascript:|hx-on|hx-vals=.js", text)
    assert not re.search(r"<script(?![^>]*\bsrc=)", text)
    assert not re.search(r"\|safe\b|autoescape off", text)


def test_strict_csp_on_every_answer(mo: Member) -> None:
    for path in ("/", "/sign-in/", "/nowhere/"):
        policy = mo.client.get(path)["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy


def test_pages_are_not_cached(mo: Member) -> None:
    assert "no-store" in mo.client.get("/")["Cache-Control"]


@pytest.mark.parametrize(
    "path", ["/", "/inbox/", "/inbox/count/", "/runs/", "/runs/new/", "/search/", "/design/", "/parts/"]
)
def test_every_page_needs_a_sign_in(db: None, path: str) -> None:
    assert Client().get(path)["Location"] == f"/sign-in/?next={path}"


@pytest.mark.parametrize(
    ("sent_from", "back"),
    [
        ("http://testserver/waits/x/?from=inbox", "/waits/x/%3Ffrom%3Dinbox"),
        ("http://elsewhere.example/waits/x/", "/"),
        ("", "/"),
    ],
)
def test_a_form_without_a_session_leads_back_to_the_page_that_it_was_on(db: None, sent_from: str, back: str) -> None:
    headers = {"Referer": sent_from} if sent_from else {}
    assert Client().post("/runs/new/", headers=headers)["Location"] == f"/sign-in/?next={back}"


def test_signing_in_and_out(db: None) -> None:
    User.objects.create_user("mo.okafor", password="a long enough word")
    client = Client()
    wrong = client.post("/sign-in/", {"username": "mo.okafor", "password": "nope"})
    assert "Not signed in." in wrong.content.decode()
    right = client.post("/sign-in/?next=/inbox/", {"username": "mo.okafor", "password": "a long enough word"})
    assert right["Location"] == "/inbox/"
    assert client.get("/sign-out/").status_code == 405
    assert client.post("/sign-out/")["Location"] == "/sign-in/"


def test_sign_in_leads_nowhere_else(db: None) -> None:
    User.objects.create_user("mo.okafor", password="a long enough word")
    form = {"username": "mo.okafor", "password": "a long enough word", "next": "https://evil.example/"}
    assert Client().post("/sign-in/", form)["Location"] == "/"


@pytest.mark.parametrize("to", ["/sign-in/", "/sign-in/?next=/sign-in/"])
def test_signing_in_never_leads_back_to_itself(mo: Member, to: str) -> None:
    assert mo.client.get("/sign-in/", {"next": to})["Location"] == "/"
    User.objects.create_user("li.wei", password="a long enough word")
    form = {"username": "li.wei", "password": "a long enough word", "next": to}
    assert Client().post("/sign-in/", form)["Location"] == "/"


@pytest.mark.parametrize("way", ["signed out", "signed in over it"])
def test_what_one_person_was_about_to_be_told_is_not_told_to_the_next_one(mo: Member, way: str) -> None:
    """An act leads to a page that says that it is done; whoever shuts the tab before leaves those words behind."""
    told, _ = story.waiting(mo.tenant, timezone.now() - timedelta(minutes=5))
    mo.post(f"/runs/{told.run.id}/pause/", reason="Not tonight.")
    member_set(tenant=mo.tenant, username="li.wei", password="a long enough word", roles=ALL)
    if way == "signed out":
        mo.client.post("/sign-out/")
    else:
        mo.client.cookies.pop("sessionid")
    mo.client.post("/sign-in/", {"username": "li.wei", "password": "a long enough word"})
    page = mo.get("/")
    assert "li.wei" in page and "The pause is accepted." not in page


def test_somebody_without_a_tenant_sees_nothing(db: None) -> None:
    client = Client()
    client.force_login(User.objects.create_user("nobody"))
    assert client.get("/").status_code == 404


def test_the_style_guide_draws_every_sign(mo: Member) -> None:
    html = mo.get("/design/")
    assert "AWAITING APPROVAL" in html
    assert "NON_IDEMPOTENT" in html
    assert "<script>alert" not in html


def test_a_missing_page_says_so(mo: Member) -> None:
    answer = mo.client.get("/nowhere/")
    assert answer.status_code == 404
    assert "There is nothing here" in answer.content.decode()


def test_html_of_a_full_page_has_one_h1_and_unique_ids(mo: Member) -> None:
    told, _ = story.waiting(mo.tenant, timezone.now() - timedelta(minutes=5))
    for path in ("/", "/inbox/", "/runs/", "/runs/new/", f"/runs/{told.run.id}/", "/design/"):
        html = mo.get(path)
        ids = re.findall(r'\sid="([^"]+)"', html)
        assert len(ids) == len(set(ids)), f"{path} repeats {[i for i in ids if ids.count(i) > 1]}"
        assert len(re.findall(r"<h1\b", html)) == 1, path
