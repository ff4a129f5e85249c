"""Webhook endpoints at the service: created, their secret rotated and shown, by administrators."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from backoffice.core import service_client
from backoffice.core.access import ADMINISTRATOR
from backoffice.models import AuditEntry, CommandRecord
from backoffice.service import errors, signing
from tests.accounts.people import sign_in_recently_authenticated
from tests.api.rows import staff
from tests.outbox.desk import Desk
from tests.outbox.keys import UseKey
from tests.webhooks.records import TEAM

URL = "http://localhost:9/webhooks/"
NEW = reverse("operations:endpoint-new")


@pytest.fixture
def administrator(desk: Desk) -> Client:
    client = Client()
    sign_in_recently_authenticated(client, staff(ADMINISTRATOR))
    return client


def create(desk: Desk, client: Client, url: str = URL) -> CommandRecord:
    answer = desk.fill(client, NEW, url=url)
    assert answer.status_code == 302, answer.content.decode()
    desk.deliver()
    return desk.newest()


def secret_of(endpoint_id: str) -> str:
    return service_client.service().management.webhook_secret(TEAM, endpoint_id).data.key


def test_endpoint_is_created_and_its_secret_shown(desk: Desk, administrator: Client) -> None:
    row = create(desk, administrator)
    assert row.state == "done", row.refusal
    found = service_client.service().management.webhook(TEAM, row.remote_id).data
    assert (found.url, found.disabled) == (URL, False)
    assert row.done_url == reverse("operations:endpoint-secret", args=[row.remote_id])
    answer = administrator.get(row.done_url)
    assert answer.headers["Cache-Control"] == "no-store, private"
    assert secret_of(row.remote_id) in answer.content.decode()
    entry = AuditEntry.objects.get(object_type="webhook secret")
    assert (entry.action, entry.object_ids) == ("view", [row.remote_id])
    assert URL in administrator.get(reverse("operations:service-check")).content.decode()


def test_secret_is_rotated_and_nothing_of_it_is_kept(desk: Desk, administrator: Client) -> None:
    made = create(desk, administrator)
    before = secret_of(made.remote_id)
    address = reverse("operations:endpoint-rotate", args=[made.remote_id])
    assert desk.fill(administrator, address).status_code == 302
    desk.deliver()
    row = desk.newest()
    assert (row.kind, row.state) == ("webhook.rotate", "done"), row.refusal
    after = secret_of(made.remote_id)
    assert signing.Secret.read(after).name != signing.Secret.read(before).name
    stored = str(CommandRecord.objects.values("payload", "form_data", "found", "remote_id"))
    assert before[6:] not in stored and after[6:] not in stored


def test_endpoint_is_turned_off_and_on(desk: Desk, administrator: Client) -> None:
    made = create(desk, administrator)
    address = reverse("operations:endpoint-switch", args=[made.remote_id])
    for is_off, words in ((True, "Turn off"), (False, "Turn on")):
        page = administrator.get(address).content.decode()
        assert f"{words} {URL}" in page
        assert ("only endpoint that leads here" in page) is is_off
        to = "off" if is_off else "on"
        assert f'name="to" value="{to}"' in page
        assert desk.fill(administrator, address, to=to).status_code == 302
        desk.deliver()
        row = desk.newest()
        assert (row.kind, row.state) == ("webhook.switch", "done"), row.refusal
        found = service_client.service().management.webhook(TEAM, made.remote_id).data
        assert (found.url, found.disabled) == (URL, is_off)


def test_endpoint_turned_off_by_somebody_else_counts_as_done(
    desk: Desk, administrator: Client
) -> None:
    made = create(desk, administrator)
    address = reverse("operations:endpoint-switch", args=[made.remote_id])
    assert desk.fill(administrator, address, to="off").status_code == 302
    service_client.service().management.switch_webhook(TEAM, made.remote_id, disabled=True)
    desk.deliver()
    row = desk.newest()
    assert (row.state, row.confirmed_by, row.attempts) == ("done", "look-up", 0)


def test_endpoint_is_deleted(desk: Desk, administrator: Client) -> None:
    made = create(desk, administrator)
    address = reverse("operations:endpoint-delete", args=[made.remote_id])
    assert f"Delete {URL}" in administrator.get(address).content.decode()
    assert desk.fill(administrator, address).status_code == 302
    desk.deliver()
    row = desk.newest()
    assert (row.kind, row.state) == ("webhook.delete", "done"), row.refusal
    with pytest.raises(errors.Missing):
        service_client.service().management.webhook(TEAM, made.remote_id)
    for name in ("operations:endpoint-delete", "operations:endpoint-switch"):
        page = administrator.get(reverse(name, args=[made.remote_id]), follow=True)
        assert "does not list this webhook endpoint" in page.content.decode()


def test_silent_service_does_not_count_as_a_missing_endpoint(
    desk: Desk, administrator: Client
) -> None:
    made = create(desk, administrator)
    for name in ("operations:endpoint-delete", "operations:endpoint-switch"):
        desk.sandbox.prepare_answer("/webhook$", status=500, times=50, body={"detail": "no"})
        page = administrator.get(reverse(name, args=[made.remote_id]), follow=True)
        desk.sandbox.control("answers", method="DELETE")
        assert "does not list webhook endpoints now" in page.content.decode()
        assert "does not list this webhook endpoint" not in page.content.decode()
        assert "answer 500" in page.content.decode(), "the check that the page leads to says why"


def test_endpoint_deleted_by_somebody_else_counts_as_done(
    desk: Desk, administrator: Client
) -> None:
    made = create(desk, administrator)
    address = reverse("operations:endpoint-delete", args=[made.remote_id])
    assert desk.fill(administrator, address).status_code == 302
    service_client.service().management.delete_webhook(TEAM, made.remote_id)
    desk.deliver()
    row = desk.newest()
    assert (row.state, row.confirmed_by, row.attempts) == ("done", "look-up", 0)


def test_endpoints_of_all_pages_are_listed(desk: Desk, administrator: Client) -> None:
    management = service_client.service().management
    others = [f"http://elsewhere.example.invalid/{n}/webhooks/" for n in range(55)]
    made = [management.create_webhook(TEAM, url, "Made up").data.id for url in others]
    try:
        made.append(management.create_webhook(TEAM, URL, "The last one").data.id)
        page = administrator.get(reverse("operations:service-check")).content.decode()
        assert all(url in page for url in others)
        assert f"The service delivers to {URL}" in page
    finally:
        for key in made:
            management.delete_webhook(TEAM, key)


def test_second_endpoint_for_the_same_address_is_refused(desk: Desk, administrator: Client) -> None:
    create(desk, administrator)
    row = create(desk, administrator)
    assert row.state == "refused"
    assert "delivers to this address already" in row.refusal


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://elsewhere.example.invalid/webhooks/", "Events are received at"),
        ("http://localhost:9/other/", "Events are received at"),
        ("not an address", "This is not an address"),
        ("http://[", "This is not an address"),
        ("", "This field is required"),
    ],
)
def test_address_of_somebody_else_is_refused_at_the_form(
    desk: Desk, administrator: Client, url: str, words: str
) -> None:
    answer: Any = desk.fill(administrator, NEW, url=url)
    assert answer.status_code == 422
    page = answer.content.decode()
    assert words in page and (not url or f'value="{url}"' in page)
    assert not CommandRecord.objects.exists()


def test_plain_http_is_refused_where_the_settings_want_https(
    desk: Desk, administrator: Client, settings: Settings
) -> None:
    settings.HTTPS_ONLY = True
    answer: Any = desk.fill(administrator, NEW, url=URL)
    assert "must begin with https://" in answer.content.decode()


def test_without_management_key_nothing_is_asked(
    desk: Desk, administrator: Client, settings: Settings, use_key: UseKey
) -> None:
    settings.MANAGEMENT_KEY = ""
    answer: Any = desk.fill(administrator, NEW, url=URL)
    assert answer.status_code == 422 and "MANAGEMENT_KEY" in answer.content.decode()
    shown = administrator.get(reverse("operations:endpoint-secret", args=["ep_1"]), follow=True)
    assert "accepts no management key" in shown.content.decode()


def test_secret_of_an_unknown_endpoint_is_not_shown(desk: Desk, administrator: Client) -> None:
    address = reverse("operations:endpoint-secret", args=["ep_nowhere"])
    page = administrator.get(address, follow=True).content.decode()
    assert "The service does not show the secret: answer 404" in page


@pytest.mark.parametrize("role", ["lab admin", "lab coordinator"])
def test_only_administrators_who_proved_themselves_may(desk: Desk, role: str) -> None:
    addresses = [
        NEW,
        reverse("operations:endpoint-rotate", args=["ep_1"]),
        reverse("operations:endpoint-switch", args=["ep_1"]),
        reverse("operations:endpoint-delete", args=["ep_1"]),
        reverse("operations:endpoint-secret", args=["ep_1"]),
    ]
    other, administrator = desk.client(role), desk.client(ADMINISTRATOR)
    assert {other.get(address).status_code for address in addresses} == {403}
    for address in addresses:
        answer = administrator.get(address)
        assert answer.status_code == 302 and "/accounts/proof/" in answer["Location"]
