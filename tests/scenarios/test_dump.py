"""V33, F10 c on real processes: what pg_dump writes of a whole story, its trace included, shows nothing of what was read and said."""

import subprocess
from ipaddress import ip_network

import pytest
from django.conf import settings
from django.db import connection
from django.test import override_settings

from accounts.models import Membership
from accounts.services import token_create
from runs.models import TraceEvent
from runtime.services import EndpointAdded, EndpointRequest, endpoint_add, endpoint_drop
from tests.engine.test_secrets import found_in
from tests.scenarios.records import Records
from tests.scenarios.world import APPROVER, World
from tests.services import Services
from tests.waiting import wait_until

pytestmark = pytest.mark.process

ADDRESS = "http://127.0.0.1:9/hook/T0K3N-0F-THE-CHANNEL"
SIGNED_WITH = "a s3cret that signs what is told"


def test_a_dump_shows_nothing_of_what_was_uploaded_said_and_published(world: World, services: Services) -> None:
    hook = EndpointRequest("WEBHOOK", "desk", ADDRESS, whole_tenant=True, signed_with=SIGNED_WITH)
    with override_settings(NOTICE_NETWORKS=[ip_network("127.0.0.1/32")]):
        endpoint = endpoint_add(actor=world.person(), wanted=hook)
    assert isinstance(endpoint, EndpointAdded), endpoint
    run_id, wait = world.run_to_wait()
    token = token_create(membership=Membership.objects.get(tenant=world.tenant, user__username=APPROVER), name="dump")
    world.approve(wait)
    world.wait_status(run_id, "COMPLETED")
    records = Records(run_id)
    wait_until(TraceEvent.objects.filter(run_id=run_id).exists, "the workers have noted something")
    url = services.cluster.url(connection.settings_dict["NAME"])
    dump = subprocess.run(
        [str(services.cluster.bin_dir / "pg_dump"), "--dbname", url], capture_output=True, check=True, timeout=120
    ).stdout

    assert str(run_id).encode() in dump and records.call("publish_report").idempotency_key.encode() in dump
    assert str(endpoint.endpoint_id).encode() in dump
    endpoint_drop(actor=world.person(), endpoint_id=endpoint.endpoint_id)
    said = ["CINDERFORD STORAGE", "NORTHWIND GRID CO", "QUARRY ROBOTICS", "Compare the holdings of the two funds"]
    kept = [token, token.removeprefix("sb_"), settings.MASTER_KEY, ADDRESS, ADDRESS.rpartition("/")[2], SIGNED_WITH]
    assert found_in(dump, said + kept) == []
