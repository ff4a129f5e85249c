"""Metrics: what they count, across processes, and who may read them."""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import redis
from django.conf import settings as project_settings
from django.test import Client
from django.urls import reverse
from prometheus_client.parser import text_string_to_metric_families
from pytest_django import Settings

from backoffice.core import duration_metrics, heartbeats, service_client
from backoffice.service import errors
from tests.api.rows import staff
from tests.outbox.workers import environment
from tests.sync.back_office import BackOffice
from tests.sync.stub_server import Reply, serving
from tests.webhooks.sending import receiving

TOKEN = "made-up-token-of-prometheus"
COUNT_IN_OTHER_PROCESS = """
import os, sys
import django; django.setup()
from backoffice.core import duration_metrics
duration_metrics.record_request("counted-elsewhere", "GET", 200, 0.2)
if os.fork() == 0:
    duration_metrics.record_request("counted-elsewhere", "GET", 200, 0.3)
    duration_metrics.flush()
    os._exit(0)
os.wait()
"""


@pytest.fixture(autouse=True)
def empty_counts() -> Iterator[None]:
    with redis.Redis.from_url(project_settings.REDIS_URL) as server:
        server.delete(duration_metrics.KEY)
        duration_metrics.flush()
        server.delete(duration_metrics.KEY)
        yield
        server.delete(duration_metrics.KEY)
    duration_metrics._redis.cache_clear()


def scrape(client: Client, **headers: str) -> dict[tuple[str, ...], float]:
    """Return the value of each sample by its name and the values of its labels."""
    answer = client.get("/metrics", headers=headers)
    assert answer.status_code == 200, answer.status_code
    assert answer["Content-Type"].startswith("text/plain")
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(answer.content.decode())
        for sample in family.samples
    }


@pytest.mark.django_db
def test_metrics_include_system_status_figures(client: Client) -> None:
    heartbeats.record_heartbeat("inbox", "worker@here")
    found = scrape(client)
    assert found["backoffice_database_up",] == found["backoffice_redis_up",] == 1
    assert found["backoffice_status", "failing"] == 1, "the other queues have no worker"
    assert 0 <= found["backoffice_heartbeat_age_seconds", "inbox"] < 30
    assert ("backoffice_heartbeat_age_seconds", "bulk") not in found
    assert found["backoffice_inbox_waiting",] == 0
    assert ("backoffice_backup_age_seconds",) not in found
    assert found["backoffice_version", "unreleased"] == 1


@pytest.mark.django_db
def test_requests_are_counted_by_route_name(client: Client) -> None:
    client.force_login(staff("administrator"))
    for _ in range(3):
        client.get(f"/orders/{uuid.uuid4()}/?q=CANARY")
    client.get("/CANARY/")
    client.generic("CANARY", "/health/live")
    text = client.get("/metrics").content.decode()
    found = scrape(client)
    count = "backoffice_request_seconds_count"
    assert found[count, "GET", "orders:detail", "4xx"] == 3
    assert found[count, "GET", "unmatched", "4xx"] == 1
    assert found[count, "other", "unmatched", "4xx"] == 1
    assert "CANARY" not in text
    assert found["backoffice_request_seconds_bucket", "+Inf", "GET", "orders:detail", "4xx"] == 3


@pytest.mark.django_db
def test_metrics_sum_all_processes(client: Client) -> None:
    duration_metrics.record_request("counted-elsewhere", "GET", 200, 0.004)
    subprocess.run([sys.executable, "-c", COUNT_IN_OTHER_PROCESS], check=True, timeout=60)
    found = scrape(client)
    labels = ("GET", "counted-elsewhere", "2xx")
    assert found["backoffice_request_seconds_count", *labels] == 3
    assert found["backoffice_request_seconds_sum", *labels] == pytest.approx(0.504)
    assert found["backoffice_request_seconds_bucket", "0.005", *labels] == 1
    assert found["backoffice_request_seconds_bucket", "0.25", *labels] == 2
    assert found["backoffice_request_seconds_bucket", "0.5", *labels] == 3


@pytest.mark.django_db
def test_service_calls_are_counted_by_operation(client: Client, settings: Settings) -> None:
    with serving(lambda request: Reply(status=404, body={"detail": "no"})) as url:
        settings.SERVICE_BASE_URL = url
        service_client.service.cache_clear()
        try:
            with pytest.raises(errors.Missing):
                service_client.service().orders.get(uuid.uuid4())
        finally:
            service_client.service.cache_clear()
    (labels,) = [
        labels
        for name, *labels in scrape(client)
        if name == "backoffice_service_call_seconds_count"
    ]
    assert labels == ["GET /v3/order/{order_id}", "404"]


@pytest.mark.django_db
def test_counts_wait_while_redis_is_down(client: Client, settings: Settings) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    duration_metrics._redis.cache_clear()
    duration_metrics.record_request("waits", "GET", 200, 0.1)
    assert scrape(client)["backoffice_redis_up",] == 0
    settings.REDIS_URL = project_settings.REDIS_URL
    duration_metrics._redis.cache_clear()


@pytest.mark.django_db
def test_metrics_require_token_outside_local_mode(client: Client, settings: Settings) -> None:
    settings.LOCAL = False
    assert client.get("/metrics").status_code == 404
    client.force_login(staff("administrator"))
    assert client.get("/metrics").status_code == 404
    settings.METRICS_TOKEN = TOKEN
    assert client.get("/metrics").status_code == 401
    assert client.get("/metrics", headers={"Authorization": "Bearer x"}).status_code == 401
    assert scrape(client, Authorization=f"Bearer {TOKEN}")
    assert client.post("/metrics").status_code in (403, 405)
    assert reverse("operations:metrics") == "/metrics"


@pytest.mark.django_db(transaction=True)
def test_monitor_paths_allow_plain_http_and_any_host(tmp_path: Path) -> None:
    """As docs/operating.md, "Watch it", says: the web process accepts people by HTTPS only."""
    back_office = BackOffice(environment()["DATABASE_URL"], "http://127.0.0.1:1", tmp_path / "log")
    web_settings = {"HTTPS_ONLY": "1", "ALLOWED_HOSTS": "office.example.com", "BEHIND_PROXY": "1"}
    tokens = {"METRICS_TOKEN": TOKEN, "HEALTH_TOKEN": TOKEN}
    with receiving(back_office, workers=1, **web_settings, **tokens) as url:

        def get_status(path: str, **headers: str) -> int:
            return httpx.get(f"{url}{path}", headers=headers, trust_env=False).status_code

        bearer = {"Authorization": f"Bearer {TOKEN}"}
        assert get_status("/metrics", **bearer) == 200
        assert get_status("/health/status", **bearer) in (200, 503)
        assert get_status("/health/live") == get_status("/health/ready") == 200
        assert get_status("/metrics") == get_status("/health/status") == 401
        assert get_status("/metrics", Authorization="Bearer x") == 401
        assert get_status("/orders/") == 400, "pages accept allowed hosts only"
        assert get_status("/orders/", Host="office.example.com") == 301, "pages require HTTPS"
