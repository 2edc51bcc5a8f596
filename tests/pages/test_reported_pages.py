"""What users reported of other systems, tried on the pages that decide: what can't be shown whole or read can't be approved."""

import pytest

from accounts.selectors import sealed_body
from approvals.models import Wait
from receipts.models import ToolCall
from receipts.selectors import call_arguments
from runs.canonical import digest
from tests.engine.engine import sql_past_triggers
from tests.pages.conftest import Member
from tests.pages.driven import told, words
from tests.pages.test_decision import form, refused, url

NOT_STORED = "DELETE FROM checkpoints_checkpoint WHERE run_id = %s AND revision = %s"
CUT_SHORT = "UPDATE checkpoints_checkpoint SET body = substr(body, 1, 40) WHERE run_id = %s AND revision = %s"
ANOTHER = "UPDATE checkpoints_checkpoint SET digest = repeat('a', 64) WHERE run_id = %s AND revision = %s"


@pytest.mark.parametrize("change", [NOT_STORED, CUT_SHORT, ANOTHER])
def test_b15_a_wait_whose_checkpoint_is_gone_or_changed_says_so_and_is_not_approved(ann: Member, change: str) -> None:
    wait = told("waiting").wait
    sql_past_triggers(change, wait.run_id, wait.checkpoint_revision)
    html = ann.get(url(wait))
    assert "be read" in words(html)
    assert f'data-gate="revision {wait.checkpoint_revision} can be read" data-gate-open="false"' in html
    for verdict in ("APPROVE", "REJECT"):
        assert "DIGEST_MISMATCH" in refused(ann, wait, 409, **form(wait, verdict))


def test_b18_a_long_text_is_there_to_its_last_character_with_its_length_and_digest(ann: Member) -> None:
    wait = told("waiting").wait
    call = wait.tool_call
    long = call_arguments(call)[:-1] + b',"z":"' + b"harmless " * 600 + b'then wire 90,000 to elsewhere"}'
    body = sealed_body(key_id=call.data_key_id, plain=long)
    sql_past_triggers(
        "UPDATE receipts_toolcall SET args = %s, args_digest = %s WHERE id = %s", body, digest(long), call.id
    )
    sql_past_triggers("UPDATE approvals_wait SET args_digest = %s WHERE id = %s", digest(long), wait.id)
    html = ann.get(url(wait))
    assert html.count("then wire 90,000 to elsewhere") == 2  # as an argument, and in the bytes
    assert f"{len(long):,} bytes, shown in full" in html and digest(long) in html
    assert "text of 5429 characters" in html


@pytest.mark.parametrize("sealed", [False, True])
def test_b19_arguments_that_were_changed_stay_readable_as_changed_and_are_approved_nowhere(
    ann: Member, sealed: bool
) -> None:
    """Changed so that they can't be opened, and sealed anew with the tenant's own key so that they are no JSON."""
    wait = told("waiting").wait
    changed(wait.tool_call, b"{" if sealed else None)
    html = ann.get(url(wait))
    assert "The stored arguments can't be read." in html
    assert 'data-gate="the arguments that were recorded can be shown in full" data-gate-open="false"' in html
    assert "ARGS_CHANGED" in refused(ann, wait, 409, **form(wait, "APPROVE"))
    assert "DIGEST_MISMATCH" in ann.get(f"/inbox/?item=wait-{wait.id}")
    assert "The stored arguments can’t be read. It can be rejected." in ann.get(f"/inbox/batch/?wait={wait.id}")
    assert "be read" in words(ann.get(f"/calls/{wait.tool_call_id}/"))


def test_b19_the_copy_of_the_digest_that_a_wait_keeps_is_held_against_the_call(ann: Member) -> None:
    wait = told("waiting").wait
    sql_past_triggers("UPDATE approvals_wait SET args_digest = repeat('a', 64) WHERE id = %s", wait.id)
    wait = Wait.objects.get(id=wait.id)
    for verdict in ("APPROVE", "REJECT"):
        assert "ARGS_CHANGED" in refused(ann, wait, 409, **form(wait, verdict))


def changed(call: ToolCall, plain: bytes | None) -> None:
    body = bytes(call.args)[:-1] if plain is None else sealed_body(key_id=call.data_key_id, plain=plain)
    sql_past_triggers("UPDATE receipts_toolcall SET args = %s WHERE id = %s", body, call.id)
