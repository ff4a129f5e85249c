"""One id from the page's request to the call of the service and the lines of both."""

from __future__ import annotations

import json
import logging
import uuid

import pytest
from django.urls import reverse
from pytest_django import Settings

from backoffice.core import request_ids, service_client
from backoffice.core.logs import JsonFormatter
from backoffice.models import AuditEntry
from backoffice.service import errors
from orders.models import Order
from tests.outbox.desk import Desk
from tests.sync.stub_server import IncomingRequest, Reply, serving


def test_a_worker_speaks_of_the_request_that_asked(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    order = Order.objects.filter(low_level_status="ordered").order_by("pk")[0]
    answer = desk.fill(desk.client(), reverse("orders:cancel", args=[order.pk]), why="patient")
    row = desk.newest()
    asked = answer["X-Request-ID"]
    assert row.request_id == asked
    assert AuditEntry.objects.get(action="change").request_id == asked
    caplog.handler.setFormatter(JsonFormatter())
    with caplog.at_level(logging.INFO, "backoffice.service"):
        desk.deliver()
    lines = [json.loads(line) for line in caplog.text.splitlines()]
    sent = [line for line in lines if line["message"].startswith("POST ")]
    assert sent
    assert {line["request_id"] for line in sent} == {asked}


def test_the_service_is_told_the_id(settings: Settings) -> None:
    heard: list[str | None] = []

    def answer(asked: IncomingRequest) -> Reply:
        told = {name.lower(): value for name, value in asked.headers.items()}
        heard.append(told.get("x-request-id"))
        return Reply(status=404, body={})

    with serving(answer) as url:
        settings.SERVICE_BASE_URL = url
        service_client.service.cache_clear()
        try:
            for asker in ("", "0123456789abcdef0123456789abcdef"):
                with request_ids.use_request_id(asker), pytest.raises(errors.Missing):
                    service_client.service().orders.get(uuid.uuid4())
        finally:
            service_client.service.cache_clear()
    assert heard == [None, "0123456789abcdef0123456789abcdef"]
