"""Files that people put beside a call as evidence: bounded, encrypted, by digest, and saying nothing by themselves."""

from functools import partial
from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.db.utils import Error as DatabaseError

from accounts.errors import Invalid, NotAllowed, NotFound
from receipts.errors import AttachmentsFull, AttachmentThere, AttachmentTooBig, NeverSent
from receipts.models import Attachment, Reconciliation, ToolCall
from receipts.selectors import access_attachment
from receipts.states import ATTACHMENT_BYTES, ATTACHMENTS
from runs.canonical import digest
from runs.models import Artifact
from runs.selectors import artifact_bytes
from runtime.loop import drive
from runtime.services import Attached, Upload, call_attach
from tests.engine.engine import Engine, call_named, people, sql
from tests.engine.races import together
from tests.engine.test_probe import unknown
from tests.scripted import calls

SEEN = b"%PDF-1.7 the wiki's list at 08:14"


def attach(
    engine: Engine, call: ToolCall, data: bytes = SEEN, name: str = "list.pdf", by: str = "rita", **how: Any
) -> Any:
    return call_attach(actor=engine.person(by), call_id=call.id, file=Upload(name, data), **how)


def test_a_file_is_kept_encrypted_under_its_digest_and_changes_nothing(engine: Engine) -> None:
    call = unknown(engine)
    outcome = attach(engine, call, note="One post there.")
    assert isinstance(outcome, Attached) and outcome.sha256 == digest(SEEN)
    row = Attachment.objects.get()
    assert (row.filename, row.size, row.note, row.added_by) == (
        "list.pdf",
        len(SEEN),
        "One post there.",
        "person:rita-north",
    )
    assert SEEN not in bytes(Artifact.objects.get(sha256=row.sha256).body)
    assert artifact_bytes(tenant_id=call.tenant_id, sha256=row.sha256) == SEEN
    call.refresh_from_db()
    assert call.status == "UNCERTAIN" and not Reconciliation.objects.exists()


def test_the_same_bytes_are_beside_a_call_once_whoever_brings_them(engine: Engine) -> None:
    call = unknown(engine)
    outcomes = together(*[partial(attach, engine, call)] * 4)
    assert len({outcome.attachment_id for outcome in outcomes}) == 1 and Attachment.objects.count() == 1


def test_another_name_or_note_for_the_same_bytes_is_refused_and_not_lost_unseen(engine: Engine) -> None:
    call = unknown(engine)
    attach(engine, call, note="One post there.")
    for refused in (attach(engine, call, note="Two posts there."), attach(engine, call, name="other.pdf")):
        assert isinstance(refused, AttachmentThere) and "as “list.pdf”, by rita-north" in refused.sentence
    assert Attachment.objects.get().note == "One post there."


def test_their_size_and_number_are_bounded(engine: Engine) -> None:
    call = unknown(engine)
    assert isinstance(attach(engine, call, b""), Invalid)
    refused = attach(engine, call, b"x" * (ATTACHMENT_BYTES + 1))
    assert isinstance(refused, AttachmentTooBig) and "list.pdf has more than 1048576 bytes" in refused.sentence
    assert isinstance(attach(engine, call, b"x" * ATTACHMENT_BYTES), Attached)
    outcomes = together(
        *[partial(attach, engine, call, f"file {number}".encode()) for number in range(ATTACHMENTS + 2)]
    )
    assert sum(isinstance(outcome, AttachmentsFull) for outcome in outcomes) == 3
    assert Attachment.objects.count() == ATTACHMENTS


def test_only_a_reconciler_of_the_tenant_brings_one_and_only_of_what_was_sent(engine: Engine) -> None:
    call = unknown(engine)
    assert isinstance(attach(engine, call, by="otto"), NotAllowed)
    assert isinstance(attach(engine, call, name="two\nlines"), Invalid)
    assert isinstance(attach(engine, call, name=""), Invalid)
    foreign = Engine(people("south")).person("rita")
    with pytest.raises(NotFound):
        call_attach(actor=foreign, call_id=call.id, file=Upload("a", SEEN))
    kept = attach(engine, call)
    for actor, call_id in ((foreign, call.id), (engine.person("rita"), kept.attachment_id)):
        with pytest.raises(NotFound):
            access_attachment(actor=actor, call_id=call_id, id=kept.attachment_id)
    unsent = engine.run(calls(("once", "b")))
    drive(unsent)
    assert isinstance(attach(engine, call_named(unsent, "b")), NeverSent)


def test_the_database_keeps_a_file_as_it_was_given(engine: Engine) -> None:
    attach(engine, unknown(engine))
    for change in ("UPDATE receipts_attachment SET filename = 'x'", "DELETE FROM receipts_attachment"):
        with pytest.raises(DatabaseError), transaction.atomic():
            sql(change)
    with pytest.raises(IntegrityError, match="attachment_bounded"), transaction.atomic():
        sql(
            "INSERT INTO receipts_attachment (id, tenant_id, tool_call_id, filename, sha256, size, added_by) "
            "SELECT gen_random_uuid(), tenant_id, tool_call_id, 'x', 'y', 2000000, 'z' FROM receipts_attachment"
        )
