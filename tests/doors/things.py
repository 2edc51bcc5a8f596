"""The objects that the doors are walked with, and what an act on one of them could change."""

from dataclasses import dataclass
from ipaddress import ip_network
from typing import Any
from uuid import UUID

from django.test import override_settings
from django.urls import reverse

from accounts.models import Endpoint
from accounts.selectors import actor_named
from approvals.models import Assignment, Decision, Delegation, Grant, PolicyActivation, PolicyVersion, Vote, Wait
from approvals.services import GrantGiven, PolicySaved, policy_save
from checkpoints.models import Checkpoint, Commitment, Intent, Obligation
from receipts.models import Contradiction, Reconciliation, ToolCall
from runs.models import ControlRequest, Run, ScopeControl, Wakeup
from runtime.services import (
    EndpointAdded,
    EndpointRequest,
    GrantRequest,
    endpoint_add,
    endpoint_drop,
    tool_grant,
)
from tests.doors.routes import MISSING, ROUTES
from tests.doors.world import OPERATOR


@dataclass(frozen=True)
class Things:
    """Objects of the first tenant, by what a path names; `state` is everything that an act could change."""

    named: dict[str, dict[str, Any]]
    ids: tuple[str, ...]

    def path(self, name: str, *, missing: bool = False) -> str:
        if ROUTES[name].named == "nothing":
            return "/api/v1/nothing/"
        kwargs = self.named[ROUTES[name].named] if ROUTES[name].named else {}
        if missing:
            kwargs = {**kwargs, "number": 999} if "number" in kwargs else {**kwargs, "id": MISSING}
        return reverse(name, kwargs=kwargs)

    def arguments(self, named: str) -> list[str]:
        return [str(value) for value in self.named[named].values()] if named else []

    @staticmethod
    def state() -> list[Any]:
        return [
            sorted(Run.objects.values_list("id", "status", "hold_reason")),
            sorted(Wait.objects.values_list("id", "status")),
            sorted(ToolCall.objects.values_list("id", "status")),
            sorted(Obligation.objects.values_list("id", "status")),
            sorted(Grant.objects.values_list("id", "revoked_at")),
            sorted(Commitment.objects.values_list("id", "status")),
            sorted(ScopeControl.objects.values_list("id", "status", "aborted_by")),
            sorted(Endpoint.objects.values_list("id", "removed_at")),
            [
                model.objects.count()
                for model in (
                    PolicyVersion,
                    PolicyActivation,
                    Decision,
                    Vote,
                    Assignment,
                    Delegation,
                    Contradiction,
                    Reconciliation,
                    ControlRequest,
                    Intent,
                    Checkpoint,
                    Wakeup,
                )
            ],
        ]


def policy_of_the_tour() -> int:
    saved = policy_save(
        actor=actor_named(username="only-governance", door="page"),
        text='[[rule]]\nname = "all is asked"\nthen = "ask"\n',
        summary="to be walked",
    )
    assert isinstance(saved, PolicySaved)
    return saved.number


def told_no_more() -> UUID:
    """An endpoint of the tenant that was removed: removing it is refused even to those who may."""
    by = actor_named(username=OPERATOR, door="page")
    with override_settings(NOTICE_NETWORKS=[ip_network("127.0.0.0/8")]):
        wanted = EndpointRequest("WEBHOOK", "walked", "http://127.0.0.1:9/", whole_tenant=True)
        added = endpoint_add(actor=by, wanted=wanted)
    assert isinstance(added, EndpointAdded), added
    endpoint_drop(actor=by, endpoint_id=added.endpoint_id)
    return added.endpoint_id


def grant_of_the_tour() -> UUID:
    wanted = GrantRequest("fund_comparison", "publish_report", "args['slug'] == 'x'", hours=1, max_uses=1)
    given = tool_grant(actor=actor_named(username=OPERATOR, door="page"), wanted=wanted, reason="to be walked")
    assert isinstance(given, GrantGiven)
    return given.grant_id
