"""What the page of an endpoint says of what it was told."""

from ipaddress import ip_network

from django.test import override_settings

from runtime.services import EndpointAdded, EndpointRequest, endpoint_add, endpoint_drop
from tests.pages.conftest import Member
from tests.pages.driven import person, waiting, words


def test_what_waits_for_an_endpoint_that_was_removed_is_not_said_to_be_on_its_way(ann: Member) -> None:
    actor = person("ann.moreau")
    with override_settings(NOTICE_NETWORKS=[ip_network("127.0.0.0/8")]):
        wanted = EndpointRequest("WEBHOOK", "desk", "http://127.0.0.1:9/", whole_tenant=True)
        added = endpoint_add(actor=actor, wanted=wanted)
    assert isinstance(added, EndpointAdded), added
    waiting(actor)
    page = f"/settings/notifications/{added.endpoint_id}/"
    assert "on its way" in words(ann.get(page))
    endpoint_drop(actor=actor, endpoint_id=added.endpoint_id)
    said = words(ann.get(page))
    assert "not told any more" in said and "on its way" not in said
