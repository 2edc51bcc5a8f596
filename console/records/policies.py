"""Records of policies: versions, which one is in force, and what a dry run found."""

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from accounts.errors import NotFound
from accounts.states import Actor, Permission
from approvals.models import PolicyActivation, PolicyVersion
from approvals.policies import version_name
from approvals.selectors import policy_number
from approvals.states import PolicyOutcome
from console.pages.few import Few
from runtime.services import Rehearsal, Rehearsed

ROWS = 100  # activations of one record


class PolicySummary(serializers.Serializer[PolicyVersion]):
    """A version of the policy as a list shows it."""

    number = serializers.IntegerField()
    version = serializers.SerializerMethodField()
    summary = serializers.CharField()
    digest = serializers.CharField()
    saved_by = serializers.CharField()
    saved_at = serializers.DateTimeField()

    @extend_schema_field(serializers.CharField())
    def get_version(self, policy: PolicyVersion) -> str:
        return version_name(policy.number)


class PolicyRecord(PolicySummary):
    """A version with its text."""

    text = serializers.CharField()


class ActivationRecord(serializers.Serializer[PolicyActivation]):
    """Who put which version in force in place of which, when and why. Number 0 is the built-in policy."""

    seq = serializers.IntegerField()
    number = serializers.IntegerField()
    before = serializers.IntegerField()
    activated_by = serializers.CharField()
    reason = serializers.CharField()
    at = serializers.DateTimeField()


class InForceRecord(serializers.Serializer[Any]):
    """The version that is in force, and the newest times that another one came."""

    number = serializers.IntegerField()
    version = serializers.CharField()
    activations = ActivationRecord(many=True)
    more = serializers.BooleanField(source="activations.more", help_text="Whether older activations are left out.")


class RehearsedRecord(serializers.Serializer[Rehearsed]):
    """One call of a dry run: what was said then, what the policy in force says, and what the draft says."""

    call = serializers.UUIDField(source="call_id")
    run = serializers.UUIDField(source="run_id")
    step = serializers.CharField()
    tool = serializers.CharField()
    agent = serializers.CharField()
    at = serializers.DateTimeField()
    was = serializers.CharField()
    now = serializers.ChoiceField(choices=list(PolicyOutcome), source="now.outcome")
    now_rule = serializers.CharField(source="now.rule")
    draft = serializers.ChoiceField(choices=list(PolicyOutcome), source="draft.outcome")
    draft_rule = serializers.CharField(source="draft.rule")
    changes = serializers.BooleanField()


class RehearsalRecord(serializers.Serializer[Rehearsal]):
    """A dry run against the newest calls. `in_force`: the number of the policy that they are compared with."""

    in_force = serializers.IntegerField(source="number")
    looked_at = serializers.SerializerMethodField()
    changed = serializers.SerializerMethodField()
    unreadable = serializers.IntegerField()
    rows = RehearsedRecord(many=True)

    def get_looked_at(self, found: Rehearsal) -> int:
        return len(found.rows)

    def get_changed(self, found: Rehearsal) -> int:
        return len(found.changed)


def activations_of(actor: Actor) -> QuerySet[PolicyActivation]:
    """Every time that another version came into force in the actor's tenant, the newest first."""
    return PolicyActivation.objects.filter(tenant_id=actor.tenant_id).order_by("-seq")


def in_force(actor: Actor) -> dict[str, Any]:
    """What is in force in the actor's tenant, as its record takes it. Raises NotFound for who may not read there."""
    if not actor.may(Permission.READ):
        raise NotFound
    number = policy_number(actor.tenant_id)
    return {
        "number": number,
        "version": version_name(number),
        "activations": Few(activations_of(actor)[: ROWS + 1], ROWS),
    }
