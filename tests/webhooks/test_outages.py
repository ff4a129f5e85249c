"""When an event cannot be stored nothing is acknowledged: 503, soon, and asked again later."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator

import pytest
from django.db import connection, connections, transaction
from django.test import Client

from backoffice.devtools.embedded import free_port
from tests.webhooks.signed import Message, message
from webhooks.models import Event
from webhooks.receiving import DATABASE, RETRY_AFTER, DeliveryResponse, group_connection, receive

pytestmark = pytest.mark.usefixtures("inbox")


@pytest.fixture
def sent() -> Message:
    return message("labtest.order.created", {"id": "x"})


@pytest.fixture
def connection_settings() -> Iterator[dict[str, object]]:
    """Settings of the connection for deliveries, as they were again afterwards."""
    given = connections[DATABASE].settings_dict
    before = dict(given)
    _close()
    yield given
    _close()
    given.update(before)


def _close() -> None:
    connections[DATABASE].close()
    group_connection().close()


def deliver(sent: Message) -> DeliveryResponse:
    return receive(sent.headers(), io.BytesIO(sent.body).read)


def test_delivery_without_database_is_503(
    connection_settings: dict[str, object], sent: Message
) -> None:
    connection_settings["HOST"], connection_settings["PORT"] = "127.0.0.1", str(free_port())
    begun = time.monotonic()
    assert deliver(sent) == DeliveryResponse(503, "not stored", RETRY_AFTER)
    assert time.monotonic() - begun < 3
    answer = Client().post(
        "/webhooks/", sent.body, content_type="application/json", headers=sent.headers()
    )
    assert answer.status_code == 503 and answer["Retry-After"] == str(RETRY_AFTER)


def test_delivery_to_read_only_database_is_503(
    connection_settings: dict[str, object], sent: Message
) -> None:
    connection_settings["OPTIONS"] = {"options": "-c default_transaction_read_only=on"}
    assert deliver(sent).status == 503
    assert not Event.objects.exists()


def test_dead_connection_is_replaced_at_once(sent: Message) -> None:
    assert deliver(sent).status == 204
    with group_connection().cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        (pid,) = cursor.fetchone()
    with connection.cursor() as cursor:
        # With a time limit, it returns once the process is gone.
        cursor.execute("SELECT pg_terminate_backend(%s, 60_000)", [pid])
        assert cursor.fetchone() == (True,)
    again = message("labtest.order.created", {"id": "y"})
    assert deliver(again).status == 204
    assert Event.objects.count() == 2


def test_delivery_to_locked_table_is_503(sent: Message) -> None:
    """Somebody alters the table: no answer is better than a late one."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("LOCK TABLE webhooks_event IN ACCESS EXCLUSIVE MODE")
        begun = time.monotonic()
        assert deliver(sent).status == 503
        assert time.monotonic() - begun < 3
    assert deliver(sent).status == 204
