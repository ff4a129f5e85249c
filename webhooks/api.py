"""JSON API of the inbox: events, with their bodies for users who may see raw records."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID

import orjson
from django.db.models.functions import Length
from rest_framework import serializers
from rest_framework.request import Request

from backoffice.accounts.access import may, requires
from backoffice.api.resources import Resource, exactly
from backoffice.core.encryption.cipher import DecryptionError
from webhooks.models import Event, decrypted_body

MAX_LISTED_BODY: Final = 32_768
"""Most bytes of a body in a list. A longer body is only in the answer for its event."""


def _record_field() -> serializers.DictField:
    return serializers.DictField(
        allow_null=True,
        help_text="The body as received; null without the permission to see records, once it is "
        "forgotten, when it is no JSON, and in a list when it is long",
    )


@requires("events.view")
class Events(Resource):
    """Webhook messages of the service with their states (webhooks, chapter 2)."""

    model = Event
    mirrored = False
    patient = "user_id"
    columns = (
        "message_id",
        "event_type",
        "subject_id",
        "user_id",
        "team_id",
        "sent_at",
        "received_at",
        "last_received_at",
        "deliveries",
        "body_conflict",
        "state",
        "outcome",
        "attempts",
        "due_at",
        "applied_at",
        "reason",
        "path",
    )
    filters = (
        exactly("user_id", UUID, "Only events about this patient"),
        exactly("event_type", str, "The whole type, such as labtest.order.updated"),
        exactly("subject_id", str, "The record it is about, such as an order's id"),
        exactly("state", str, "One of pending, retry, done, skipped, quarantined, dead"),
        exactly("message_id", str, "The sender's id of the message"),
    )
    added = MappingProxyType({"record": _record_field})

    def _items(self, request: Request, rows: Sequence[tuple[Any, ...]]) -> list[dict[str, Any]]:
        items = super()._items(request, rows)
        bodies: dict[int, bytes | None] = {}
        if may(request.user, "records.view"):
            events = Event.objects.filter(pk__in=[item["id"] for item in items])
            if "id" not in self.kwargs:
                events = events.alias(size=Length("body")).filter(size__lte=MAX_LISTED_BODY)
            stored = events.values_list("pk", "message_id", "body")
            bodies.update(
                (pk, _decrypted_or_none(message_id, body))
                for pk, message_id, body in stored
                if body is not None
            )
        for item in items:
            item["record"] = _json(bodies.get(item["id"]))
        return items


def _decrypted_or_none(message_id: str, stored: bytes | memoryview) -> bytes | None:
    try:
        return decrypted_body(message_id, bytes(stored))
    except DecryptionError:
        return None


def _json(body: bytes | None) -> orjson.Fragment | None:
    if body is None:
        return None
    try:
        orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    return orjson.Fragment(body)
