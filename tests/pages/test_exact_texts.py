"""Every text that a model or a person writes, on each page around a run: inert, exact, named, and never cut off from its page."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from accounts.selectors import current_data_key, sealed_body
from checkpoints.models import Commitment, Intent
from receipts.models import Reconciliation
from runs.canonical import digest
from runs.models import Refusal, Run
from tests.pages import story
from tests.pages.conftest import Member
from tests.pages.driven import assert_inert
from tests.pages.rows import Story

CORPUS = [
    "<script>alert(1)</script>",
    "</title><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<svg/onload=alert(1)>",
    '"><iframe src=javascript:alert(1)>',
    "' onmouseover='alert(1)",
    "{{ request.user.password }}{% include 'base.html' %}",
    "javascript:alert(1)",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "]]><!--",
    "\u202egnp.exe\u202c",
    "\u2066\u2067\u2068\u2069",
    "zero\u200bwidth\u200d\ufeff",
    "p\u0430ypal",
    "e" + "\u0301" * 60,
    "\u0627\u0644\u0633\u0644\u0627\u0645 \u05e9\u05dc\u05d5\u05dd",
    "\u540d\u524d" * 40,
    "\U0001f469\u200d\U0001f680\U0001f3f4\U000e0067",
    "W" * 190,
    "a\tb\nc\u2028d\u0085e",
    "\ue000\ufdd0",
]
PAGES = ("", "?at=rev:1", "?fold=0", "handover/", "lineage/", "recovery/", "checkpoints/", "continue/", "goal/")


def written(mo: Member, text: str) -> Run:
    """A run that says one text wherever somebody or something can write on these pages."""
    told: Story
    told, call = story.unknown(mo.tenant, timezone.now() - timedelta(minutes=18), text[:190])
    key_id = current_data_key(mo.tenant.id)
    common: dict[str, Any] = {"tenant": mo.tenant, "run": told.run}
    Intent.objects.create(
        run=told.run,
        version=2,
        body=sealed_body(key_id=key_id, plain=text.encode()),
        data_key_id=key_id,
        revised_by=f"person:{text[:60]}",
        reason=text,
        digest=digest(text.encode()),
    )
    Commitment.objects.create(
        **common,
        kind="CONSTRAINT",
        statement=text,
        source_kind="PERSON",
        source_ref=f"person:{text[:60]}",
        source_version=text[:60],
        accepted_revision=1,
    )
    Refusal.objects.create(**common, kind="LATE_RESULT", detail={text[:60]: text})
    Reconciliation.objects.create(
        tool_call=call,
        verdict="PROCEED_UNKNOWN",
        follow_up="NONE",
        method="HUMAN",
        seen_attempts=1,
        evidence=text,
        actor=f"person:{text[:60]}",
    )
    told.promise(f"step/{text[:60]}", text)
    told.call(60, f"{text[:90]}/x", "READ_ONLY", "SUCCEEDED", [(60, 1, 2, "OK")], {"text": text})
    told.call(62, "prepared", "READ_ONLY", "FAILED", [(62, 1, 2, "ERROR_FINAL")], {"text": text})
    return told.run


@pytest.mark.parametrize("text", CORPUS, ids=range(len(CORPUS)))
def test_no_text_does_anything_on_the_pages_of_a_run(mo: Member, text: str) -> None:
    run = written(mo, text)
    for path in PAGES:
        # A field holds what is edited, byte for byte.
        html = re.sub("<textarea[^>]*>[^<]*</textarea>", "", mo.get(f"/runs/{run.id}/{path}"))
        assert_inert(html)
        body = html.split("<main", 1)[1]
        for raw in ("<script>alert", "<img src=x", "<svg/onload", "<iframe", "\u202e", "\u200b", "\u2066", "\ue000"):
            assert raw not in body, (path, raw)
        assert "</html>" in html, path


def test_a_text_of_five_thousand_characters_is_shown_whole_where_it_is_read(mo: Member) -> None:
    text = "".join(f"{number:05d} " for number in range(840))
    run = written(mo, text)
    assert "00839" in mo.get(f"/runs/{run.id}/handover/")
    assert "00839" in mo.get(f"/runs/{run.id}/")
