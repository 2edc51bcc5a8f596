"""Records of where people hear of things outside the pages, and of what they were told. Never an address."""

from typing import Any

from rest_framework import serializers

from accounts.models import Endpoint, Notice
from accounts.states import HEARD, EndpointKind, NoticeKind, NoticeStatus, Subject


class EndpointRecord(serializers.Serializer[Endpoint]):
    """An endpoint. Its address is stored encrypted and shown to nobody; `shown` is what tells it from others."""

    id = serializers.UUIDField()
    kind = serializers.ChoiceField(choices=list(EndpointKind))
    name = serializers.CharField()
    shown = serializers.CharField()
    person = serializers.CharField(source="membership.user.username", default=None, allow_null=True)
    hears = serializers.ListField(child=serializers.ChoiceField(choices=HEARD))
    digest = serializers.BooleanField()
    signed = serializers.SerializerMethodField()
    version = serializers.IntegerField()
    created_by = serializers.CharField()
    created_at = serializers.DateTimeField()
    paused_at = serializers.DateTimeField(allow_null=True)
    removed_at = serializers.DateTimeField(allow_null=True)

    def get_signed(self, endpoint: Endpoint) -> bool:
        return endpoint.secret is not None


class NoticeRecord(serializers.Serializer[Notice]):
    """What one endpoint was told, or is to be told."""

    id = serializers.UUIDField()
    endpoint = serializers.UUIDField(source="endpoint_id")
    kind = serializers.ChoiceField(choices=list(NoticeKind))
    subject = serializers.ChoiceField(choices=list(Subject))
    subject_id = serializers.UUIDField()
    status = serializers.ChoiceField(choices=list(NoticeStatus))
    attempts = serializers.IntegerField()
    due_at = serializers.DateTimeField()
    error = serializers.CharField()
    created_at = serializers.DateTimeField()
    closed_at = serializers.DateTimeField(allow_null=True)


class PurgedRecord(serializers.Serializer[Any]):
    """How many notices, and endpoints that had none left, are gone for good."""

    notices = serializers.IntegerField()
    endpoints = serializers.IntegerField()
