"""A hundred waits in a few minutes, one of them dangerous and worded like the rest: it is on top, named, and approved alone (S17)."""

import re

import pytest
from django.test import Client

from accounts.models import User
from approvals.models import Decision, Wait
from approvals.services import Decided, Item
from approvals.states import DecisionVerdict
from runtime.services import waits_decide
from tests.engine.engine import Engine, open_wait, shown
from tests.engine.governed import govern, rule
from tests.scripted import calls

MANY, DANGEROUS = 100, 57
ROW = re.compile(r'id="row-wait-([0-9a-f-]{36})"')


def label(n: int) -> str:
    """All pay Acme; one of them pays another account, which one letter tells."""
    return f"invoice {n:03}, pay 12.00 to {'Acne' if n == DANGEROUS else 'Acme'}"


@pytest.fixture(autouse=True)
def knows_acme(engine: Engine) -> None:
    govern(
        engine,
        rule("Acme is known", "ask", if_="args['label'].ends_with('to Acme')", risk="low", batch=True),
        rule("anybody else", "ask", risk="high", deadline="48h"),
    )


def asked(engine: Engine, n: int) -> Wait:
    return open_wait(engine.run(calls(("once", label(n)))))


@pytest.fixture
def ann(engine: Engine) -> Client:
    client = Client()
    client.force_login(User.objects.get(username=engine.person("ann").name))
    return client


def test_the_dangerous_one_is_on_top_named_and_never_approved_with_the_others(engine: Engine, ann: Client) -> None:
    waits = [asked(engine, n) for n in range(MANY)]
    grave, others = waits[DANGEROUS], [wait for wait in waits if wait != waits[DANGEROUS]]
    inbox = ann.get("/inbox/?kind=approvals").content.decode()
    rows = ROW.findall(inbox)
    assert (rows[0], len(rows)) == (str(grave.id), MANY)

    preview = ann.get("/inbox/batch/", {"wait": [str(wait.id) for wait in waits]}).content.decode()
    assert "<b>1 of high risk is among them.</b>" in preview
    assert preview.index(f'id="wait-{grave.id}"') < min(preview.index(f'id="wait-{wait.id}"') for wait in others)
    left_out = preview[preview.index("Left out, and still open") :]
    assert "The policy wants it gone through by itself." in left_out and f'href="#wait-{grave.id}"' in left_out
    assert f"Approve these {MANY - 1}</button>" in preview
    offered = re.findall(
        r'name="wait" value="([^"]+)"', preview[preview.index('value="APPROVE"') : preview.index('value="REJECT"')]
    )
    assert set(offered) == {str(wait.id) for wait in others}

    sent = {"verdict": "APPROVE", "reason": "All are invoices.", "wait": [str(wait.id) for wait in waits]}
    sent |= {
        f"seen-{wait.id}": f"{wait.checkpoint_revision}:{wait.checkpoint_digest}:{wait.args_digest}" for wait in waits
    }
    answer = ann.post("/inbox/batch/", sent).content.decode()
    assert f"{MANY - 1} stored, 1 refused." in answer and "NOT_TOGETHER" in answer
    assert list(Wait.objects.filter(status="OPEN")) == [grave]
    assert Decision.objects.count() == MANY - 1
    assert ROW.findall(ann.get("/inbox/?kind=approvals").content.decode())[0] == str(grave.id)


def test_no_other_door_approves_it_with_the_others(engine: Engine) -> None:
    picked = [asked(engine, n) for n in (0, DANGEROUS, 99)]
    items = [Item(wait.id, shown(wait)) for wait in picked]
    said = waits_decide(
        actor=engine.person("abe"), items=items, verdict=DecisionVerdict.APPROVE, reason="All are invoices."
    )
    assert isinstance(said, list)
    outcomes = [one.outcome for one in said]
    assert [getattr(outcome, "code", "") for outcome in outcomes] == ["", "NOT_TOGETHER", ""]
    assert isinstance(engine.decide(picked[1], "REJECT", "abe"), Decided)
