"""JSON API of the inbox: events, with their bodies for users who may see raw records."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import orjson
from django.db.models import QuerySet

from backoffice.accounts.access import may, requires
from backoffice.api.filters import FilterSet, TextFilter
from backoffice.api.serializers import ColumnSerializer, RawJSONField
from backoffice.api.viewsets import ResourceViewSet
from backoffice.core.encryption.cipher import DecryptionError
from backoffice.pages.lists.filters import UUIDFilter
from webhooks.models import Event, decrypted_body


class BodyField(RawJSONField):
    """The body of an event: the whole body of a single one, the small bodies of a list."""

    def get_attribute(self, instance: Event) -> Any:
        stored = instance.__dict__.get("small_body", instance.__dict__.get("body"))
        if stored is None:
            return None
        try:
            body = decrypted_body(instance.message_id, bytes(stored))
            orjson.loads(body)
        except (DecryptionError, orjson.JSONDecodeError):
            return None
        return body


class EventSerializer(ColumnSerializer):
    record = BodyField(
        allow_null=True,
        read_only=True,
        help_text="The body as received; null without the permission to see records, once it is "
        "forgotten, when it is no JSON, and in a list when it is long",
    )
    field_permissions = MappingProxyType({"record": "records.view"})

    class Meta:
        model = Event
        fields = (
            "id", "message_id", "event_type", "subject_id", "user_id", "team_id", "sent_at",
            "received_at", "last_received_at", "deliveries", "body_conflict", "state", "outcome",
            "attempts", "due_at", "applied_at", "reason", "path", "record",
        )  # fmt: skip


class EventApiFilterSet(FilterSet):
    user_id = UUIDFilter(help_text="Only events about this patient")
    event_type = TextFilter(help_text="The whole type, such as labtest.order.updated")
    subject_id = TextFilter(help_text="The record it is about, such as an order's id")
    state = TextFilter(help_text="One of pending, retry, done, skipped, quarantined, dead")
    message_id = TextFilter(help_text="The sender's id of the message")


@requires("events.view")
class EventViewSet(ResourceViewSet):
    """Webhook messages of the service with their states (webhooks, chapter 2)."""

    queryset = Event.objects.all()
    serializer_class = EventSerializer
    filterset_class = EventApiFilterSet
    patient_field = "user_id"

    def get_queryset(self) -> QuerySet[Any]:
        if not may(self.request.user, "records.view"):
            return Event.objects.defer("body")
        return Event.objects.all() if self.action == "retrieve" else Event.objects.for_list()
