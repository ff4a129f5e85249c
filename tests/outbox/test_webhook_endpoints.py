"""Webhook endpoints at the service, managed by administrators: URL, switch, secret, deletion."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from backoffice.accounts.access import ADMINISTRATOR
from backoffice.audit.models import AuditEntry
from backoffice.core import service_client
from backoffice.outbox.models import CommandRecord
from backoffice.service import errors, signing
from tests.accounts.people import sign_in_recently_authenticated
from tests.api.rows import staff
from tests.outbox.harness import OutboxHarness
from tests.outbox.keys import UseKey
from tests.webhooks.records import TEAM

URL = "http://localhost:9/webhooks/"
NEW_ENDPOINT = reverse("operations:endpoint-new")


@pytest.fixture
def administrator(harness: OutboxHarness) -> Client:
    client = Client()
    sign_in_recently_authenticated(client, staff(ADMINISTRATOR))
    return client


def create_endpoint(harness: OutboxHarness, client: Client, url: str = URL) -> CommandRecord:
    response = harness.submit_form(client, NEW_ENDPOINT, url=url)
    assert response.status_code == 302, response.content.decode()
    harness.deliver()
    return harness.newest_command()


def secret_of(endpoint_id: str) -> str:
    return service_client.service().management.webhook_secret(TEAM, endpoint_id).data.key


def test_endpoint_is_created_and_its_secret_shown(
    harness: OutboxHarness, administrator: Client
) -> None:
    row = create_endpoint(harness, administrator)
    assert row.state == "done", row.refusal
    endpoint = service_client.service().management.webhook(TEAM, row.remote_id).data
    assert (endpoint.url, endpoint.disabled) == (URL, False)
    assert row.done_url == reverse("operations:endpoint-secret", args=[row.remote_id])
    response = administrator.get(row.done_url)
    assert response.headers["Cache-Control"] == "no-store, private"
    assert secret_of(row.remote_id) in response.content.decode()
    entry = AuditEntry.objects.get(object_type="webhook secret")
    assert (entry.action, entry.object_ids) == ("view", [row.remote_id])
    assert URL in administrator.get(reverse("operations:service-check")).content.decode()


def test_rotated_secret_is_not_stored(harness: OutboxHarness, administrator: Client) -> None:
    created = create_endpoint(harness, administrator)
    secret_before = secret_of(created.remote_id)
    address = reverse("operations:endpoint-rotate", args=[created.remote_id])
    assert harness.submit_form(administrator, address).status_code == 302
    harness.deliver()
    row = harness.newest_command()
    assert (row.kind, row.state) == ("webhook.rotate", "done"), row.refusal
    secret_after = secret_of(created.remote_id)
    assert signing.Secret.read(secret_after).name != signing.Secret.read(secret_before).name
    stored = str(CommandRecord.objects.values("payload", "form_data", "found", "remote_id"))
    assert secret_before[6:] not in stored and secret_after[6:] not in stored


def test_endpoint_is_turned_off_and_on(harness: OutboxHarness, administrator: Client) -> None:
    created = create_endpoint(harness, administrator)
    address = reverse("operations:endpoint-switch", args=[created.remote_id])
    for is_off, words in ((True, "Turn off"), (False, "Turn on")):
        page = administrator.get(address).content.decode()
        assert f"{words} {URL}" in page
        assert ("only endpoint that points here" in page) is is_off
        target = "off" if is_off else "on"
        assert f'name="to" value="{target}"' in page
        assert harness.submit_form(administrator, address, to=target).status_code == 302
        harness.deliver()
        row = harness.newest_command()
        assert (row.kind, row.state) == ("webhook.switch", "done"), row.refusal
        endpoint = service_client.service().management.webhook(TEAM, created.remote_id).data
        assert (endpoint.url, endpoint.disabled) == (URL, is_off)


def test_endpoint_turned_off_elsewhere_is_done(
    harness: OutboxHarness, administrator: Client
) -> None:
    created = create_endpoint(harness, administrator)
    address = reverse("operations:endpoint-switch", args=[created.remote_id])
    assert harness.submit_form(administrator, address, to="off").status_code == 302
    service_client.service().management.switch_webhook(TEAM, created.remote_id, disabled=True)
    harness.deliver()
    row = harness.newest_command()
    assert (row.state, row.confirmed_by, row.attempts) == ("done", "look-up", 0)


def test_endpoint_is_deleted(harness: OutboxHarness, administrator: Client) -> None:
    created = create_endpoint(harness, administrator)
    address = reverse("operations:endpoint-delete", args=[created.remote_id])
    assert f"Delete {URL}" in administrator.get(address).content.decode()
    assert harness.submit_form(administrator, address).status_code == 302
    harness.deliver()
    row = harness.newest_command()
    assert (row.kind, row.state) == ("webhook.delete", "done"), row.refusal
    with pytest.raises(errors.Missing):
        service_client.service().management.webhook(TEAM, created.remote_id)
    for name in ("operations:endpoint-delete", "operations:endpoint-switch"):
        page = administrator.get(reverse(name, args=[created.remote_id]), follow=True)
        assert "does not list this webhook endpoint" in page.content.decode()


def test_failing_service_is_no_missing_endpoint(
    harness: OutboxHarness, administrator: Client
) -> None:
    created = create_endpoint(harness, administrator)
    for name in ("operations:endpoint-delete", "operations:endpoint-switch"):
        harness.sandbox.prepare_answer("/webhook$", status=500, times=50, body={"detail": "no"})
        page = administrator.get(reverse(name, args=[created.remote_id]), follow=True)
        harness.sandbox.control("answers", method="DELETE")
        assert "does not list webhook endpoints right now" in page.content.decode()
        assert "does not list this webhook endpoint" not in page.content.decode()
        assert "answer 500" in page.content.decode(), "the linked check says why"


def test_endpoint_deleted_elsewhere_is_done(harness: OutboxHarness, administrator: Client) -> None:
    created = create_endpoint(harness, administrator)
    address = reverse("operations:endpoint-delete", args=[created.remote_id])
    assert harness.submit_form(administrator, address).status_code == 302
    service_client.service().management.delete_webhook(TEAM, created.remote_id)
    harness.deliver()
    row = harness.newest_command()
    assert (row.state, row.confirmed_by, row.attempts) == ("done", "look-up", 0)


def test_endpoints_of_all_service_pages_are_listed(
    harness: OutboxHarness, administrator: Client
) -> None:
    management = service_client.service().management
    other_urls = [f"http://elsewhere.example.invalid/{n}/webhooks/" for n in range(55)]
    created = [management.create_webhook(TEAM, url, "Made up").data.id for url in other_urls]
    try:
        created.append(management.create_webhook(TEAM, URL, "The last one").data.id)
        page = administrator.get(reverse("operations:service-check")).content.decode()
        assert all(url in page for url in other_urls)
        assert f"The service delivers to {URL}" in page
    finally:
        for key in created:
            management.delete_webhook(TEAM, key)


def test_second_endpoint_for_the_same_address_is_refused(
    harness: OutboxHarness, administrator: Client
) -> None:
    create_endpoint(harness, administrator)
    row = create_endpoint(harness, administrator)
    assert row.state == "refused"
    assert "already delivers to this address" in row.refusal


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://elsewhere.example.invalid/webhooks/", "Events are received at"),
        ("http://localhost:9/other/", "Events are received at"),
        ("not an address", "Enter a full address, such as"),
        ("http://[", "Enter a full address, such as"),
        ("", "This field is required"),
    ],
)
def test_foreign_endpoint_address_is_refused(
    harness: OutboxHarness, administrator: Client, url: str, words: str
) -> None:
    response: Any = harness.submit_form(administrator, NEW_ENDPOINT, url=url)
    assert response.status_code == 422
    page = response.content.decode()
    assert words in page and (not url or f'value="{url}"' in page)
    assert not CommandRecord.objects.exists()


def test_http_endpoint_is_refused_with_https_only(
    harness: OutboxHarness, administrator: Client, settings: Settings
) -> None:
    settings.HTTPS_ONLY = True
    response: Any = harness.submit_form(administrator, NEW_ENDPOINT, url=URL)
    assert "must start with https://" in response.content.decode()


def test_endpoint_form_requires_management_key(
    harness: OutboxHarness, administrator: Client, settings: Settings, use_key: UseKey
) -> None:
    settings.MANAGEMENT_KEY = ""
    response: Any = harness.submit_form(administrator, NEW_ENDPOINT, url=URL)
    assert response.status_code == 422 and "MANAGEMENT_KEY" in response.content.decode()
    response = administrator.get(reverse("operations:endpoint-secret", args=["ep_1"]), follow=True)
    assert "does not accept our management key" in response.content.decode()


def test_secret_of_an_unknown_endpoint_is_not_shown(
    harness: OutboxHarness, administrator: Client
) -> None:
    address = reverse("operations:endpoint-secret", args=["ep_nowhere"])
    page = administrator.get(address, follow=True).content.decode()
    assert "The service does not show the secret: answer 404" in page


@pytest.mark.parametrize("role", ["lab admin", "lab coordinator"])
def test_endpoints_require_recent_authentication(harness: OutboxHarness, role: str) -> None:
    addresses = [
        NEW_ENDPOINT,
        reverse("operations:endpoint-rotate", args=["ep_1"]),
        reverse("operations:endpoint-switch", args=["ep_1"]),
        reverse("operations:endpoint-delete", args=["ep_1"]),
        reverse("operations:endpoint-secret", args=["ep_1"]),
    ]
    other, administrator = harness.client(role), harness.client(ADMINISTRATOR)
    assert {other.get(address).status_code for address in addresses} == {403}
    for address in addresses:
        response = administrator.get(address)
        assert response.status_code == 302 and "/accounts/proof/" in response["Location"]
