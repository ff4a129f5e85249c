"""System > Service check: the findings of the command, for administrators, and a test event."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from backoffice.audit.models import AuditEntry
from backoffice.core.models import Installation
from backoffice.devtools.embedded import free_port
from backoffice.operations import service_check
from backoffice.operations.service_check import DeliveryCheck, ServiceAnswers
from backoffice.service import signing
from backoffice.sync.models import Lookup, SyncRun
from tests.api.rows import NOW, order, staff, uid
from tests.sandboxes import Sandbox, SandboxFactory
from webhooks.models import Event, Refusal

pytestmark = pytest.mark.django_db

ADDRESS = "/system/service-check/"
FIRST_ORDER_OF_TEAM = (
    "SELECT id, team_id FROM sandbox_order"
    " WHERE team_id = '7ea00000-0000-4000-8000-000000000001' ORDER BY id LIMIT 1"
)


@pytest.fixture(scope="module")
def checked(sandbox_factory: SandboxFactory) -> Sandbox:
    """A sandbox of its own, because these tests change where it delivers."""
    return sandbox_factory(users=4, orders=8, seed=13)


@pytest.fixture
def administrator(client: Client, checked: Sandbox, settings: Settings) -> Client:
    checked.control("webhooks", {"url": None})
    settings.SERVICE_BASE_URL = settings.MANAGEMENT_BASE_URL = checked.url
    client.force_login(staff("administrator"))
    return client


def line(page: str, title: str) -> str:
    """Return the table row of one check."""
    return page.split(f'class="lead">{title}</th>')[1].split("</tr>")[0]


def event_query(seconds_ago: float) -> dict[str, str]:
    moment = timezone.now() - timedelta(seconds=seconds_ago)
    return {"order": str(uid("order", 1)), "asked_at": moment.isoformat()}


def deliver(**values: Any) -> None:
    Event.objects.create(
        **{
            "message_id": "msg_1",
            "sent_at": timezone.now(),
            "body": b"{}",
            "body_digest": b"x",
            "subject_id": str(uid("order", 1)),
            "key_id": "0a1b2c3d",
            "last_received_at": timezone.now(),
            **values,
        }
    )


def test_page_shows_same_findings_as_command(administrator: Client) -> None:
    answer = administrator.get(ADDRESS)
    with ServiceAnswers() as answers:
        expected = service_check.findings(answers, DeliveryCheck())
    shown = answer.context["findings"]
    assert len(shown) == 11
    # The number of calls so far differs by now.
    assert [(one.title, one.outcome) for one in shown] == [
        (one.title, one.outcome) for one in expected
    ]
    assert shown[:-1] == expected[:-1]
    page = answer.content.decode()
    for finding in shown:
        assert finding.outcome.label in line(page, finding.title)
    assert "has no webhook endpoint that points here" in line(page, "Webhook endpoint")
    assert "Create one at the service for http" in line(page, "Webhook endpoint")
    assert "1 problem" in page


def test_wrong_header_shows_its_remedy(administrator: Client, settings: Settings) -> None:
    settings.SERVICE_API_KEY_HEADER = "x-some-other-header"
    page = administrator.get(ADDRESS).content.decode()
    assert "Problem" in line(page, "Key header")
    assert "Set SERVICE_API_KEY_HEADER=x-service-api-key" in line(page, "Key header")


def test_unreachable_service_is_reported(administrator: Client, settings: Settings) -> None:
    settings.SERVICE_BASE_URL = f"http://127.0.0.1:{free_port()}"
    page = administrator.get(ADDRESS).content.decode()
    assert f"{settings.SERVICE_BASE_URL} does not answer: no connection" in line(page, "Address")
    assert "Could not be checked" in line(page, "Team key")


@pytest.mark.parametrize("role", ["lab admin", "lab coordinator", "front desk", "auditor"])
def test_only_administrators_can_open_page(client: Client, role: str) -> None:
    client.force_login(staff(role))
    assert client.get(ADDRESS).status_code == 403
    assert client.get(f"{ADDRESS}event/").status_code == 403
    assert client.post(f"{ADDRESS}send/").status_code == 403


def test_test_event_is_refused_without_order(administrator: Client) -> None:
    answer = administrator.post(f"{ADDRESS}send/", follow=True)
    assert "There is no order yet" in answer.content.decode()
    assert not AuditEntry.objects.filter(object_type="test event").exists()


def test_test_event_without_endpoint_explains_refusal(
    administrator: Client, checked: Sandbox
) -> None:
    [(key, team)] = checked.query(FIRST_ORDER_OF_TEAM)
    Installation.objects.update(team_id=team)
    order(1, id=key, team_id=team).save()
    answer = administrator.post(f"{ADDRESS}send/", follow=True)
    assert "it has no endpoint that takes it" in answer.content.decode()
    entry = AuditEntry.objects.get(object_type="test event")
    assert (entry.action, entry.object_ids) == ("change", [str(key)])


def test_endpoints_of_the_team_are_listed(administrator: Client, checked: Sandbox) -> None:
    assert "Webhook endpoints at the service" not in administrator.get(ADDRESS).content.decode()
    checked.control("webhooks", {"url": "https://elsewhere.example.invalid/webhooks/"})
    page = administrator.get(ADDRESS).content.decode()
    listed = page.split('id="endpoints"')[1]
    assert "https://elsewhere.example.invalid/webhooks/" in listed
    assert "points elsewhere" in listed and "Turned off" not in listed
    checked.control("webhooks", {"url": "http://localhost:8000/webhooks/"})
    assert "points here" in administrator.get(ADDRESS).content.decode()


def test_test_event_is_sent_and_followed(administrator: Client, checked: Sandbox) -> None:
    checked.control("webhooks", {"url": "http://localhost:9/webhooks/"})
    [(key, team)] = checked.query(FIRST_ORDER_OF_TEAM)
    Installation.objects.update(team_id=team)
    order(1, id=key, team_id=team).save()
    answer = administrator.post(f"{ADDRESS}send/", follow=True)
    row = line(answer.content.decode(), "Test event")
    assert "In progress" in row and str(key) in answer.redirect_chain[0][0]
    assert checked.query("SELECT count(*) FROM sandbox_message")[0][0] == 1


def test_test_event_is_followed_until_it_arrives(administrator: Client) -> None:
    query = event_query(seconds_ago=3)
    page = administrator.get(ADDRESS, query).content.decode()
    row = line(page, "Test event")
    assert "In progress" in row and re.search(r"Waiting for \d s so far\.", row)
    found = re.search(r'hx-get="(/system/service-check/event/[^"]+)"', page)
    assert found is not None
    polling_url = found[1].replace("&amp;", "&")
    assert parse_qs(urlsplit(polling_url).query) == {name: [value] for name, value in query.items()}
    again = administrator.get(polling_url).content.decode()
    assert "In progress" in again and 'hx-trigger="load delay:2s"' in again
    deliver()
    arrived = administrator.get(polling_url).content.decode()
    assert "A test event arrived after" in arrived and "0a1b2c3d" in arrived
    assert "hx-get" not in arrived


def test_earlier_event_is_not_the_test_event(administrator: Client) -> None:
    deliver(received_at=NOW, last_received_at=NOW)
    row = administrator.get(f"{ADDRESS}event/", event_query(seconds_ago=3)).content.decode()
    assert "In progress" in row


def test_test_event_after_30_seconds_is_a_problem(administrator: Client) -> None:
    row = administrator.get(f"{ADDRESS}event/", event_query(seconds_ago=31)).content.decode()
    assert "Problem" in row and "No delivery arrived within 30 s." in row
    assert "hx-get" not in row


@pytest.mark.parametrize(
    ("reason", "remedy"),
    [
        (signing.Forged.reason, "Set WEBHOOK_SECRETS"),
        (signing.Stale.reason, "Sync the clock of this machine"),
        (signing.Unsigned.reason, "Compare WEBHOOK_HEADER_PREFIXES"),
        ("too large", "See the log of web"),
    ],
)
def test_refused_test_event_shows_its_remedy(
    administrator: Client, reason: str, remedy: str
) -> None:
    now = timezone.now()
    Refusal.objects.create(hour=now, reason=reason, times=1, last_at=now)
    row = administrator.get(f"{ADDRESS}event/", event_query(seconds_ago=3)).content.decode()
    assert f"was refused: {reason}." in row and remedy in row


@pytest.mark.parametrize(
    "query",
    [
        {"order": "x", "asked_at": "2026-11-26T08:00:00+00:00"},
        {"order": str(uid("order", 1)), "asked_at": "2026-11-26T08:00:00"},
        {"order": str(uid("order", 1)), "asked_at": "yesterday"},
        {"order": str(uid("order", 1))},
        {"asked_at": "\x00"},
    ],
)
def test_invalid_event_query_is_refused(administrator: Client, query: dict[str, str]) -> None:
    assert administrator.get(f"{ADDRESS}event/", query).status_code == 400


def test_system_lists_the_page_for_administrators_only(client: Client) -> None:
    client.force_login(staff("administrator"))
    assert ADDRESS in client.get("/system/status/").content.decode()
    client.force_login(staff("lab admin"))
    assert ADDRESS not in client.get("/system/status/").content.decode()


@pytest.mark.parametrize("kind", ["run", "look-up"])
def test_sync_waiting_for_rate_limit_is_a_problem(administrator: Client, kind: str) -> None:
    error = "Limited 429 GET /v3/orders"
    if kind == "run":
        SyncRun.objects.create(resource="orders", full=False, error=error)
    else:
        Lookup.objects.create(kind="results", key="x", error=error)
    row = line(administrator.get(ADDRESS).content.decode(), "Rate limit")
    assert "Problem" in row and "SYNC_ORDERS_SECONDS" in row
