"""A call that a person writes anew: a field for each argument, whether they may approve it, and straight on to its decision."""

import json
import re
from typing import Any

from django.test import Client

from accounts.models import Tenant
from approvals.models import Wait
from console.pages.decision.written import fields_of
from receipts.models import ToolCall
from receipts.selectors import written_arguments
from tests.pages.conftest import Member
from tests.pages.driven import Driven, told, words


def waiting() -> Driven:
    return told("waiting")


def typed(wait: Wait, **changed: str) -> dict[str, Any]:
    """What the form sends with these arguments typed in their fields."""
    written = written_arguments(wait.tool_call)
    fields = {field.name: changed.get(field.path, field.typed) for field in fields_of(written, {})}
    seen = {"revision": wait.checkpoint_revision, "digest": wait.checkpoint_digest, "args_digest": wait.args_digest}
    return {
        **seen,
        **fields,
        "arguments": json.dumps(written, ensure_ascii=False, indent=2),
        "reason": "A clearer one.",
    }


def url(wait: Wait) -> str:
    return f"/waits/{wait.id}/amend/"


def test_one_argument_is_changed_in_its_field_and_its_decision_opens_at_once(ann: Member) -> None:
    run = waiting()
    wait = run.wait
    html = ann.get(url(wait))
    assert re.search(r'<label for="leaf-\d"><code>[^\n]*summary', html) and "As JSON instead" in html
    made = ann.post(url(wait), **typed(wait, title="A clearer title"))
    assert made.status == 302 and made.location.endswith("?then=decision")
    assert "its decision opens here" in words(ann.get(made.location))
    run.go_on()
    call = ToolCall.objects.get(instead_of=wait.tool_call)
    assert written_arguments(call)["title"] == "A clearer title"
    assert written_arguments(call)["summary"] == written_arguments(wait.tool_call)["summary"]
    led = f"/waits/{run.wait.id}/"
    assert ann.client.get(made.location).headers["Location"] == led
    assert _panel(ann.client, made.location) == led
    assert ann.client.get(made.location.partition("?")[0]).status_code == 200


def _panel(client: Client, path: str) -> str:
    """Where a panel of the page that asks for itself takes the page."""
    return client.get(path, headers={"HX-Request": "true", "HX-Target": "call-live"}).headers["HX-Redirect"]


def test_json_counts_where_it_alone_was_changed_and_a_mixture_is_refused(ann: Member) -> None:
    wait = waiting().wait
    written = written_arguments(wait.tool_call)
    both = typed(wait, title="One") | {"arguments": json.dumps(written | {"title": "Another"})}
    refused = ann.post(url(wait), **both)
    assert refused.status == 400 and "the fields and the JSON were both changed" in words(refused.html)
    assert ann.post(url(wait), **typed(wait) | {"arguments": both["arguments"]}).status == 302
    assert written_arguments(ToolCall.objects.get(instead_of=wait.tool_call))["title"] == "Another"


def test_a_field_that_holds_no_value_of_its_kind_is_named_and_keeps_what_was_typed(ann: Member) -> None:
    wait = waiting().wait
    refused = ann.post(url(wait), **typed(wait, report_version="the second"))
    assert refused.status == 400
    assert 'data-field="report_version"' in refused.html and "a number is wanted" in words(refused.html)
    assert 'value="the second"' in refused.html


def test_what_a_tool_refuses_is_said_at_the_field_that_it_names(ann: Member) -> None:
    """So that whoever comes to the field hears it (js/keys.js ties them)."""
    wait = waiting().wait
    refused = ann.post(url(wait), **typed(wait, title=""))
    assert refused.status == 400 and "ARGUMENTS_UNUSABLE" in refused.html
    assert 'id="refused" data-field="title"' in refused.html and 'data-place="title"' in refused.html


def test_the_page_says_whether_this_tenant_lets_you_approve_your_own(ann: Member) -> None:
    wait = waiting().wait
    assert "You may give it yourself" in words(ann.get(url(wait)))
    Tenant.objects.filter(slug="funds").update(self_approval=False)
    shown = words(ann.get(url(wait)))
    assert "Somebody else has to give it" in shown and "You may give it yourself" not in shown
