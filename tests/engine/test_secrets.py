"""Secrets: what a person or an issuer calls one is nowhere in the database that anybody could read (F10 c, D-084, V33).

What people and models say is encrypted where it is long, and refused or withheld where it is stored to be read.
"""

import base64
import subprocess
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from hypothesis import given
from hypothesis import strategies as st

from accounts.errors import Invalid
from accounts.models import Membership
from accounts.services import token_create
from approvals.services import Decided
from checkpoints.envelope.secrets import FORMS, secret_in
from checkpoints.models import Checkpoint
from checkpoints.states import Trigger
from receipts.models import Attempt, Proposal, Publication, ReportVersion
from receipts.states import Verdict
from runs.models import MemoryItem, Run, WorkspaceProgress
from runtime.contracts import ModelFailed, ToolFailed, ToolOutcome, ToolRetryable, ToolUnknown
from runtime.loop import drive
from runtime.services import (
    Started,
    StartRequest,
    SuccessorRequest,
    Terms,
    Upload,
    VerdictRequest,
    call_reconcile,
    commitment_withdraw,
    goal_revise,
    run_continue,
    run_pause,
    run_start,
    run_stop,
)
from tests.engine.engine import Engine, call_named, open_wait, run_now, sql
from tests.engine.test_saves import KEY, SECRETS
from tests.engine.test_unsaved import keeping, saves_refused, spoil
from tests.scripted import SCRIPT, calls
from tests.services import Services

WITHHELD = "withheld: it looks like a model provider's API key"


@pytest.fixture
def dumped(services: Services) -> Callable[[], bytes]:
    """What pg_dump writes of everything that the product has stored."""

    def dump() -> bytes:
        url = services.cluster.url(connection.settings_dict["NAME"])
        command = [str(services.cluster.bin_dir / "pg_dump"), "--dbname", url]
        return subprocess.run(command, capture_output=True, check=True, timeout=60).stdout

    return dump


def forms_of(secret: str) -> Iterator[bytes]:
    """A text as it is, in hexadecimal, in UTF-16, and in base64 at each of the three places where it may begin."""
    plain = secret.encode()
    yield plain
    yield plain[::-1]
    for encoded in (plain, plain.decode().encode("utf-16-le")):
        yield encoded.hex().encode()
        yield encoded.hex().upper().encode()
    for before in range(3):
        # What is next to it changes the first and the last characters.
        inner = base64.b64encode(b"\0" * before + plain)[4:-4]
        yield inner
        yield inner.replace(b"+", b"-").replace(b"/", b"_")


def found_in(dump: bytes, secrets: list[str]) -> list[str]:
    return [secret for secret in secrets if any(form in dump for form in forms_of(secret))]


def rows() -> bytes:
    """Every row of the product as text, which is quicker than a dump and shows the same."""
    tables = sql(
        "SELECT relname FROM pg_class WHERE relkind = 'r' AND relname ~ '^(accounts|runs|receipts|checkpoints|approvals)_'"
    )
    return "\n".join(str(sql(f"SELECT t::text FROM {table} t")) for (table,) in tables).encode()


def test_every_form_is_found_where_it_stands() -> None:
    for secret in ("canary-plain-1234567890", KEY):
        for form in forms_of(secret):
            assert found_in(b"x" + form + b"x", [secret]) == [secret]
        assert found_in(b"something else", [secret]) == []


# ── what is said is encrypted ────────────────────────────────────────────────


def canary(place: str) -> str:
    """A secret that no form gives away; only encryption keeps it."""
    return f"canary of the {place} qzvkxw"


PLACES = ("goal", "revised goal", "upload", "arguments", "result", "turn", "report", "progress", "memory")


def test_a_dump_shows_nothing_of_what_was_said_read_and_answered(engine: Engine, dumped: Callable[[], bytes]) -> None:
    said = {place: canary(place) for place in PLACES}
    part = {
        "version": 1,
        "title": "Found",
        "summary": f"It says {said['arguments']} and {said['report']}.",
        "workspaceCheckpoint": {"summary": said["progress"]},
    }
    SCRIPT.tell(
        calls(("look", "a"), text=said["turn"]),
        calls(("send_answer_part", part)),
        calls(("remember", {"subject": "the fund", "text": said["memory"]})),
    )
    SCRIPT.do("a", ToolOutcome({"found": said["result"]}))
    wanted = StartRequest("researching", {}, goal=f"Find {said['goal']}.", workspace="Funds")
    run_id = started(run_start(actor=engine.person("olga"), wanted=wanted))
    engine.revise(run_id, f"Find {said['revised goal']}.")
    drive(run_id)
    assert run_now(run_id).status == "COMPLETED", run_now(run_id).end_reason
    files = {
        "a": Upload("a.csv", ROWS.format(said["upload"]).encode()),
        "b": Upload("b.csv", ROWS.format("B").encode()),
    }
    started(run_start(actor=engine.person("olga"), wanted=StartRequest("fund_comparison", files)))
    token = token_create(membership=Membership.objects.get(user__username=f"olga-{engine.tenant.slug}"), name="laptop")

    dump = dumped()

    assert run_id.hex in dump.decode().replace("-", ""), "the dump holds the run"
    assert (ReportVersion.objects.count(), WorkspaceProgress.objects.count(), MemoryItem.objects.count()) == (1, 1, 1)
    assert found_in(dump, [*said.values(), token, token.removeprefix("sb_")]) == []


ROWS = "date,fund,company,ticker,shares,market value($),weight(%)\n2026-06-30,ALDR,{},NWGC,100,6000,100.0\n"


def started(outcome: Any) -> UUID:
    assert isinstance(outcome, Started), outcome
    return outcome.run_id


# ── what is stored to be read holds none ─────────────────────────────────────

Act = Callable[[Engine, UUID], Any]
START: dict[str, Any] = {
    "goal": {"goal": f"Use {KEY}."},
    "title": {"title": KEY},
    "thread": {"thread": KEY},
    "workspace": {"workspace": KEY},
    "key": {"key": KEY},
    "constraint": {"terms": Terms(constraints=(f"Use {KEY}.",))},
    "assumption": {"terms": Terms(assumptions=(f"{KEY} holds.",))},
    "a": {"inputs": {"a": Upload(f"{KEY}.csv", b"")}},
    "goal in base64": {"goal": base64.b64encode(f"key={KEY}".encode()).decode()},
}


@pytest.mark.parametrize("field", START)
def test_a_secret_starts_no_run(engine: Engine, field: str) -> None:
    wanted = StartRequest(**{"agent": "told", "inputs": {}} | START[field])
    refused(run_start(actor=engine.person("olga"), wanted=wanted), field.removesuffix(" in base64"))
    assert not Run.objects.exists()
    assert found_in(rows(), [KEY]) == []


def refused(outcome: Any, field: str) -> None:
    assert isinstance(outcome, Invalid), outcome
    assert outcome.facts["field"] == field
    assert "looks like a model provider's API key" in outcome.sentence
    assert KEY not in outcome.sentence


def _withdraw(engine: Engine, run_id: UUID) -> Any:
    term = run_now(run_id).commitments.get()
    return commitment_withdraw(actor=engine.person("olga"), commitment_id=term.id, reason=KEY)


def _reconcile(engine: Engine, evidence: str, ref: str) -> Any:
    said = VerdictRequest(Verdict.EXECUTED, evidence, ref)
    return call_reconcile(actor=engine.person("olga"), call_id=call_named(Run.objects.get().id, "a").id, said=said)


ACTS: dict[str, tuple[str, Act]] = {
    "decide": ("reason", lambda engine, run_id: engine.decide(open_wait(run_id), reason=f"With {KEY}.")),
    "stop": ("reason", lambda engine, run_id: run_stop(actor=engine.person("olga"), run_id=run_id, reason=KEY)),
    "pause": ("reason", lambda engine, run_id: run_pause(actor=engine.person("olga"), run_id=run_id, reason=KEY)),
    "revise": ("goal", lambda engine, run_id: engine.revise(run_id, KEY)),
    "revise, for a reason": (
        "reason",
        lambda engine, run_id: goal_revise(actor=engine.person("olga"), run_id=run_id, goal="Less.", reason=KEY),
    ),
    "withdraw": ("reason", _withdraw),
    "reconcile": ("evidence", lambda engine, _: _reconcile(engine, KEY, "")),
    "reconcile, with a reference": ("external_ref", lambda engine, _: _reconcile(engine, "seen", KEY)),
    "continue": (
        "title",
        lambda engine, run_id: run_continue(
            actor=engine.person("olga"), run_id=run_id, wanted=SuccessorRequest("again", title=KEY)
        ),
    ),
}


@pytest.mark.parametrize("act", ACTS)
def test_a_secret_in_the_words_of_an_act_is_refused_and_stored_nowhere(engine: Engine, act: str) -> None:
    SCRIPT.tell(calls(("once", "a")))
    terms = Terms(assumptions=("The wiki is up.",))
    run_id = started(run_start(actor=engine.person("olga"), wanted=StartRequest("told", {}, terms=terms)))
    drive(run_id)
    field, do = ACTS[act]
    before = (run_now(run_id).status, open_wait(run_id).status, call_named(run_id, "a").status)

    refused(do(engine, run_id), field)

    assert (run_now(run_id).status, open_wait(run_id).status, call_named(run_id, "a").status) == before
    assert not Checkpoint.objects.filter(trigger="INTENT").exists()
    assert found_in(rows(), [KEY]) == []


ANSWERS: dict[str, Any] = {
    "a failure": ToolFailed(f"not with {KEY}"),
    "not now": ToolRetryable(f"later, {KEY}"),
    "nothing clear": ToolUnknown(f"lost {KEY}"),
    "a bug": ValueError(KEY),
    "a success": ToolOutcome({"kept": True}, external_ref=f"post {KEY}", target=KEY, remark=f"odd: {KEY}"),
}


@pytest.mark.parametrize("answer", ANSWERS)
def test_a_secret_that_the_other_side_gives_back_is_withheld(engine: Engine, answer: str) -> None:
    SCRIPT.do("a", ANSWERS[answer])
    run_id = engine.run(calls(("once", "a")))
    assert isinstance(engine.decide(open_wait(run_id)), Decided)
    drive(run_id)
    texts = [*Attempt.objects.values_list("error", flat=True), call_named(run_id, "a").external_ref or ""]
    assert any(WITHHELD in text for text in texts), texts
    assert found_in(rows(), [KEY]) == []


def test_a_secret_of_the_model_is_withheld_where_it_would_be_read(engine: Engine) -> None:
    """The name of a tool that does not exist, the title of a report, and what a provider said of a request."""
    SCRIPT.tell(calls((KEY, "a")), calls(("note", "fine")), ModelFailed(f"no such key: {KEY}"))
    SCRIPT.do("fine", ToolOutcome({}))
    run_id = engine.run(*[])
    assert Proposal.objects.get(disposition="REFUSED").tool == WITHHELD
    assert Proposal.objects.get(disposition="REFUSED").refusal == f"unknown tool {WITHHELD}"
    assert WITHHELD in run_now(run_id).end_reason
    assert found_in(rows(), [KEY]) == []


def test_the_title_of_a_report_with_a_secret_is_withheld(engine: Engine) -> None:
    part = {"version": 1, "title": f"By {KEY}", "summary": "Nothing."}
    run_id = engine.run(calls(("send_answer_part", part)), agent="researching")
    assert run_now(run_id).status == "COMPLETED"
    assert ReportVersion.objects.get().title == WITHHELD
    assert Publication.objects.get().status == "PUBLISHED"
    assert found_in(rows(), [KEY]) == []


def test_a_secret_that_a_file_brings_into_the_title_is_withheld(engine: Engine) -> None:
    claims = {"claims": Upload("claims.txt", f"{KEY} opens the door.".encode())}
    run_id = started(run_start(actor=engine.person("olga"), wanted=StartRequest("evidence_search", claims)))
    assert run_now(run_id).title == WITHHELD
    assert found_in(rows(), [KEY]) == []


def test_what_a_child_is_to_do_is_stored_nowhere_to_be_read(engine: Engine) -> None:
    asked = {"agent": "told", "label": "c", "goal": canary("child")}
    run_id = engine.run(calls(("spawn_child", asked)), agent="parent")
    child = Run.objects.get(parent_run_id=run_id)
    assert (child.title, child.intents.get().goal) == ("Told by a test: c", canary("child"))
    assert found_in(rows(), [canary("child")]) == []


def test_a_child_whose_goal_holds_a_secret_is_refused_to_the_model(engine: Engine) -> None:
    asked = {"agent": "told", "label": "c", "goal": f"Use {KEY}."}
    run_id = engine.run(calls(("spawn_child", asked)), agent="parent")
    assert (run_now(run_id).status, Run.objects.count()) == ("COMPLETED", 1)
    [told] = [m["value"]["error"] for m in SCRIPT.requests[1].history if m["role"] == "tool"]
    assert told == "the child's goal looks like a model provider's API key, which may not be stored; say it without"
    assert found_in(rows(), [KEY]) == []


def test_a_secret_in_a_snapshot_is_stored_nowhere(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not in the body, not in the refusal, not in the row of the save."""
    spoil(monkeypatch, Trigger.CURSOR, next_node=KEY)
    stored: list[bytes] = []
    monkeypatch.setattr("checkpoints.statements.sealed_body", keeping(stored))
    run_id = engine.run(calls(("look", "a")))
    assert saves_refused(run_id) == [("CURSOR", "NOT_SAVED", "FORBIDDEN_CONTENT")]
    assert found_in(rows(), [KEY]) == []
    assert not any(KEY.encode() in plain for plain in stored)
    assert run_now(run_id).hold_detail == "FORBIDDEN_CONTENT at $.next_node: it looks like a model provider's API key"


def test_a_secret_in_the_name_of_a_step_is_refused_to_the_model(engine: Engine) -> None:
    """A reference to its result would hold it."""
    run_id = engine.run(calls(("look", f"with {KEY}")), calls(("look", "a")))
    told = [message["value"]["error"] for message in SCRIPT.requests[1].history if message["role"] == "tool"]
    assert told == [
        "the step name looks like a model provider's API key, which may not be stored; name the step without it"
    ]
    assert (run_now(run_id).status, SCRIPT.labels("look")) == ("COMPLETED", ["a"])
    assert found_in(rows(), [KEY]) == []


@pytest.mark.parametrize("what", SECRETS)
def test_a_secret_is_known_in_base64_too(what: str) -> None:
    for text in (SECRETS[what], f"key: {SECRETS[what]}\n"):
        for encoded in (base64.b64encode(text.encode()), base64.urlsafe_b64encode(text.encode())):
            assert secret_in(f"it is {encoded.decode()} as sent") == what


@given(st.from_regex("|".join(form for _, form in FORMS), fullmatch=True))
def test_whatever_has_a_form_is_found(text: str) -> None:
    """Neither that it is short nor that it is hexadecimal spares a text that has one from being looked at."""
    assert secret_in(text) is not None


def test_ids_and_digests_are_no_secrets(engine: Engine) -> None:
    run_id = engine.run(calls(("look", "a")))
    head = Checkpoint.objects.filter(run_id=run_id).latest("revision")
    assert [secret_in(text) for text in (str(run_id), head.digest, "publish_report/overlap-v2")] == [None] * 3
