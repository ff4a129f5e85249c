"""One request id from the page to the call of the service, and in the log lines of both."""

from __future__ import annotations

import json
import logging
import uuid

import pytest
from django.urls import reverse
from pytest_django import Settings

from backoffice.audit.models import AuditEntry
from backoffice.core import request_ids, service_client
from backoffice.core.logs import JsonFormatter
from backoffice.service import errors
from orders.models import Order
from tests.outbox.harness import OutboxHarness
from tests.sync.stub_server import IncomingRequest, Reply, serving


def test_worker_logs_the_request_id_of_the_form(
    harness: OutboxHarness, caplog: pytest.LogCaptureFixture
) -> None:
    order = Order.objects.filter(low_level_status="ordered").order_by("pk")[0]
    response = harness.submit_form(
        harness.client(), reverse("orders:cancel", args=[order.pk]), why="patient"
    )
    row = harness.newest_command()
    request_id = response["X-Request-ID"]
    assert row.request_id == request_id
    assert AuditEntry.objects.get(action="change").request_id == request_id
    caplog.handler.setFormatter(JsonFormatter())
    with caplog.at_level(logging.INFO, "backoffice.service"):
        harness.deliver()
    lines = [json.loads(line) for line in caplog.text.splitlines()]
    post_lines = [line for line in lines if line["message"].startswith("POST ")]
    assert post_lines
    assert {line["request_id"] for line in post_lines} == {request_id}


def test_service_call_sends_the_request_id(settings: Settings) -> None:
    received_ids: list[str | None] = []

    def answer(request: IncomingRequest) -> Reply:
        headers = {name.lower(): value for name, value in request.headers.items()}
        received_ids.append(headers.get("x-request-id"))
        return Reply(status=404, body={})

    with serving(answer) as url:
        settings.SERVICE_BASE_URL = url
        service_client.service.cache_clear()
        try:
            for sent_id in ("", "0123456789abcdef0123456789abcdef"):
                with request_ids.use_request_id(sent_id), pytest.raises(errors.Missing):
                    service_client.service().orders.get(uuid.uuid4())
        finally:
            service_client.service.cache_clear()
    assert received_ids == [None, "0123456789abcdef0123456789abcdef"]
