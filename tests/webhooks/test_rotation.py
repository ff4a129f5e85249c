"""A secret is replaced while deliveries come in: none that is valid is refused, and one that was
taken away is refused from that moment on (promise P21, small)."""

from __future__ import annotations

import base64
import io
import threading

import pytest
from django.db import connections
from pytest_django import Settings

from tests.waiting import wait_until
from tests.webhooks.signed import SECRET, message
from webhooks import receiving
from webhooks.models import Event
from webhooks.receiving import receive

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", "hooks"])

NEW = "whsec_" + base64.b64encode(b"the secret that comes next").decode()
STEPS = ([SECRET], [NEW, SECRET], [NEW])


def test_secret_rotation_loses_no_delivery(settings: Settings) -> None:
    settings.WEBHOOK_SECRETS = STEPS[0]
    over = threading.Event()
    wrong: list[str] = []
    counts = {SECRET: 0, NEW: 0}

    def send(secret: str) -> None:
        while not over.is_set():
            sent = message("provider.connection.error", {"made": "up"})
            given = {"content-length": str(len(sent.body)), **sent.headers(secret=secret)}
            before = settings.WEBHOOK_SECRETS
            status = receive(given, io.BytesIO(sent.body).read).status
            after = settings.WEBHOOK_SECRETS
            if secret in before and secret in after and status != 204:
                wrong.append(f"a valid one: {status}")
            if secret not in before and secret not in after and status != 401:
                wrong.append(f"one of no secret: {status}")
            counts[secret] += status == 204
        connections.close_all()

    threads = [threading.Thread(target=send, args=(one,)) for one in (SECRET, NEW) * 2]
    for thread in threads:
        thread.start()
    try:
        for step in STEPS:
            settings.WEBHOOK_SECRETS = step
            stood = dict(counts)
            wait_until(lambda: all(counts[one] > stood[one] + 30 for one in step), 60, "some")  # noqa: B023
    finally:
        over.set()
        for thread in threads:
            thread.join()
        receiving._refusal_counter.write()  # Or its timer would write after the test.
    assert not wrong
    assert Event.objects.count() == sum(counts.values())
    assert len(set(Event.objects.values_list("key_id", flat=True))) == 2
