"""What leaves the house in a notice holds no text of an agent or a remote, and of names every character as it is or by its code point."""

import json
from collections.abc import Iterator
from email import message_from_bytes
from email.policy import default

import pytest
from django.test import override_settings

from accounts.models import Notice
from accounts.services import member_set
from accounts.states import NoticeKind, Role
from runtime.notices import notices_deliver
from runtime.services import EndpointAdded, EndpointRequest, endpoint_add
from tests.corpus import KEPT
from tests.engine.engine import Engine, open_wait, sql_past_triggers
from tests.engine.test_notices import LOOPBACK
from tests.receiver import Receiver, mail_server, receiver
from tests.scripted import calls

FEW = ("bidi", "lines", "controls", "script", "right to left", "at the limit")
texts = pytest.mark.parametrize(
    "text",
    [pytest.param(KEPT[one], id=one, marks=[] if one in FEW else pytest.mark.matrix) for one in KEPT if one != "long"],
)
INJECTED = "once\r\nBcc: evil@elsewhere.example\r\n\r\nPay here"


def seen(text: str) -> str:
    return "".join(char if char.isprintable() else f"[U+{ord(char):04X}]" for char in text)


@pytest.fixture
def told(engine: Engine) -> Iterator[tuple[list[str], Receiver]]:
    """Somebody who hears by mail and by webhook of what is opened."""
    with (
        mail_server() as (port, mails),
        receiver() as hook,
        override_settings(
            EMAIL_BACKEND="django.core.mail.backends.smtp.EmailBackend",
            EMAIL_HOST="127.0.0.1",
            EMAIL_PORT=port,
            EMAIL_USE_TLS=False,
            EMAIL_TIMEOUT=5,
            NOTICE_NETWORKS=LOOPBACK,
            NOTICE_SECONDS=5.0,
            PUBLIC_URL="https://signalbox.example",
        ),
    ):
        for kind, address in (("MAIL", "olga@example.org"), ("WEBHOOK", hook.url)):
            wanted = EndpointRequest(kind, kind, address, frozenset({NoticeKind.OPENED, NoticeKind.DECIDED}))
            assert isinstance(endpoint_add(actor=engine.person("olga"), wanted=wanted), EndpointAdded)
        yield mails, hook


@texts
def test_what_an_agent_was_told_and_what_people_wrote_is_in_no_notice(
    engine: Engine, told: tuple[list[str], Receiver], text: str
) -> None:
    mails, hook = told
    wait = open_wait(engine.run(calls(("once", text[:100]))))
    engine.decide(wait, by="ann", reason=f"I read: {text[:3000]}")
    notices_deliver()
    assert [body["kind"] for body in hook.bodies] == ["OPENED", "DECIDED"] or len(hook.bodies) == 1
    for body in hook.bodies:
        assert text[:100].strip() not in body["text"]
    for mail in mails:
        parsed = message_from_bytes(mail.encode(), policy=default)
        assert text[:100].strip() not in f"{parsed['subject']}\n{parsed.get_content()}"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(INJECTED, id="headers"),
        *(
            pytest.param(KEPT[one], id=one, marks=[] if one in FEW else pytest.mark.matrix)
            for one in KEPT
            if one != "long"
        ),
    ],
)
def test_a_name_comes_out_whole_on_one_line_and_adds_no_header(
    engine: Engine, told: tuple[list[str], Receiver], text: str
) -> None:
    """Names are held to letters and signs where they are made; this asks what would become of any text that came in their place."""
    mails, hook = told
    open_wait(engine.run(calls(("once", "a"))))
    sql_past_triggers("UPDATE accounts_notice SET facts = %s::jsonb", json.dumps({"tool": text}))
    assert notices_deliver() == 2
    said = f"A call of {seen(text)} waits for a decision."
    (body,), (mail,) = hook.bodies, mails
    assert body["text"] == f"{said} {body['link']}"
    parsed = message_from_bytes(mail.encode(), policy=default)
    assert " ".join(str(parsed["subject"]).split()) == " ".join(f"[{engine.tenant.slug}] {said}".split())
    assert set(parsed.keys()) <= HEADERS and parsed["to"] == "olga@example.org" and parsed["bcc"] is None
    assert parsed.get_content().replace("\r\n", "\n").startswith(f"{said}\n{body['link']}\n")
    assert set(Notice.objects.values_list("status", flat=True)) == {"SENT"}


HEADERS = {
    "Content-Type", "MIME-Version", "Content-Transfer-Encoding", "Subject", "From", "To", "Date", "Message-ID",
    "X-Signalbox-Notice", "Auto-Submitted",
}  # fmt: skip


def test_a_person_whose_name_is_written_from_right_to_left_is_named_by_it(
    engine: Engine, told: tuple[list[str], Receiver]
) -> None:
    name = "مريم"
    member_set(tenant=engine.tenant, username=f"{name}-{engine.tenant.slug}", password=None, roles=frozenset(Role))
    wait = open_wait(engine.run(calls(("once", "a"))))
    notices_deliver()
    engine.decide(wait, by=name)
    notices_deliver()
    mails, hook = told
    name = f"{name}-{engine.tenant.slug}"
    assert hook.bodies[-1]["text"].startswith(f"{name} decided about a call of once: approve.")
    assert str(message_from_bytes(mails[-1].encode(), policy=default)["subject"]).endswith(
        f"{name} decided about a call of once: approve."
    )
