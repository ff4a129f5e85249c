"""Bodies are encrypted some minutes after receipt, in order, and read as received."""

from __future__ import annotations

import io

import pytest
from django.db import connection
from django.db.models.functions import Now
from pytest_django import Settings

from backoffice.core.encryption import cipher
from tests.webhooks.records import order
from tests.webhooks.rows import know_our_team
from tests.webhooks.signed import message
from webhooks import apply_events
from webhooks.body_encryption import encrypt_bodies
from webhooks.models import Event
from webhooks.receiving import receive

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", "hooks"])


def received(count: int) -> list[bytes]:
    bodies = []
    for number in range(count):
        record = order(number, 3, notes="canary")
        sent = message("labtest.order.updated", record, user_id=record["user_id"])
        given = {"content-length": str(len(sent.body)), **sent.headers()}
        assert receive(given, io.BytesIO(sent.body).read).status == 204
        bodies.append(sent.body)
    return bodies


def age(**which: object) -> None:
    rows = Event.objects.filter(**which)
    rows.update(received_at="2026-01-01T00:00Z", due_at="2026-01-01T00:00Z")


def stored() -> list[bool]:
    """Whether each is sealed, in the order they came."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT body FROM webhooks_event ORDER BY id")
        return [cipher.is_encrypted(bytes(body)) for (body,) in cursor.fetchall()]


def test_old_bodies_are_encrypted_and_readable() -> None:
    bodies = received(5)
    numbers = list(Event.objects.order_by("pk").values_list("pk", flat=True))
    assert encrypt_bodies() == 0 and not any(stored()), "they have just come"
    age(pk__in=numbers[:3])
    assert encrypt_bodies() == 3 and encrypt_bodies() == 0
    assert stored() == [True, True, True, False, False]
    assert [row.body for row in Event.objects.order_by("pk")] == bodies
    age()
    assert encrypt_bodies() == 2 and all(stored())


def test_waiting_event_with_encrypted_body_is_applied() -> None:
    know_our_team()
    received(2)
    age()
    assert encrypt_bodies() == 2
    assert apply_events.drain() == 2
    assert set(Event.objects.values_list("outcome", flat=True)) == {"applied"}


def test_body_with_unknown_key_waits_for_key(settings: Settings) -> None:
    know_our_team()
    received(1)
    age()
    encrypt_bodies()
    keys = settings.FIELD_KEYS
    settings.FIELD_KEYS = {9: b"x" * 32}
    apply_events.drain()
    row = Event.objects.get()
    assert (row.state, row.outcome) == ("pending", "body cannot be opened")
    settings.FIELD_KEYS = {**keys, 9: b"x" * 32}
    Event.objects.update(due_at=Now())
    assert apply_events.drain() == 1
    row.refresh_from_db()
    assert (row.state, row.outcome) == ("done", "applied")
