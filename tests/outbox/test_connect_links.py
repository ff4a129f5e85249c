"""Links to connect a device: created by a command, shown once, and never logged."""

from __future__ import annotations

import logging
import re
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from django.utils.html import escape
from qrcode.main import QRCode

from backoffice.audit.models import AuditEntry
from backoffice.core.encryption.encrypted_fields import encrypted_fields
from backoffice.core.service_client import service
from backoffice.outbox.models import CommandRecord
from patients.models import ConnectLink, Patient, Provider
from patients.qr_code import QUIET_ZONE, qr_image
from patients.tasks import delete_old_drafts_and_links
from tests.api.rows import envelope
from tests.outbox.cases_people import new_user
from tests.outbox.harness import OutboxHarness

State = CommandRecord.State
PATH = "/v2/link/token$"


@pytest.fixture
def patient(harness: OutboxHarness) -> UUID:
    return new_user()


def form_address(patient: UUID) -> str:
    return reverse("patients:connect", args=[patient])


def link_address(patient: UUID) -> str:
    return reverse("patients:connect-link", args=[patient])


def request_link(harness: OutboxHarness, client: Client, patient: UUID) -> CommandRecord:
    response = harness.submit_form(client, form_address(patient))
    assert response.status_code == 302 and response["Location"] == link_address(patient)
    return harness.newest_command()


def deliver_link(harness: OutboxHarness, client: Client, patient: UUID) -> CommandRecord:
    row = request_link(harness, client, patient)
    harness.deliver()
    row.refresh_from_db()
    assert (row.state, row.done_url) == (State.DONE, link_address(patient)), row.refusal
    return row


def show_link(client: Client, patient: UUID) -> str:
    """Return the link from the page that shows it, or an empty string."""
    response: Any = client.post(link_address(patient), follow=True)
    assert response.status_code == 200
    return str(response.context["link_url"])


def token_of(row: CommandRecord) -> str:
    """Return the secret part of the stored link."""
    match = re.search(r"token=([^&]{20,})", ConnectLink.objects.get(pk=row.pk).url)
    assert match
    return match[1]


def test_link_is_created_and_shown_once(harness: OutboxHarness, patient: UUID) -> None:
    client = harness.client("front desk")
    assert form_address(patient) in client.get(f"/patients/{patient}/").content.decode()
    row = request_link(harness, client, patient)
    waiting_page = client.get(link_address(patient)).content.decode()
    assert "when the lab service has created it" in waiting_page and "Show link" not in waiting_page
    harness.deliver()
    page_before = client.get(link_address(patient)).content.decode()
    token = token_of(row)
    assert "Show link" in page_before and token not in page_before
    response: Any = client.post(link_address(patient))
    page = response.content.decode()
    url = response.context["link_url"]
    assert token in url and f'data-copy="{escape(url)}"' in page
    assert "no-store" in response["Cache-Control"] and 'class="qr"' in page
    assert show_link(client, patient) == ""
    page_after = client.get(link_address(patient)).content.decode()
    assert token not in page_after and "cannot be shown again" in page_after
    assert ConnectLink.objects.get(pk=row.pk).url == ""


def create_provider(slug: str, auth_type: str, **changes: Any) -> None:
    values = {"name": slug.capitalize(), "auth_type": auth_type, **envelope(), **changes}
    Provider.objects.update_or_create(slug=slug, defaults=values)


def test_link_leads_to_the_chosen_provider(harness: OutboxHarness, patient: UUID) -> None:
    slug = service().wearables.providers().records[0].data.slug
    create_provider(slug, "oauth")
    client = harness.client("front desk")
    assert f'value="{slug}"' in client.get(form_address(patient)).content.decode()
    assert harness.submit_form(client, form_address(patient), provider=slug).status_code == 302
    harness.deliver()
    row = harness.newest_command()
    assert (row.state, row.title) == (State.DONE, f"Create a link to connect {slug.capitalize()}")
    assert show_link(client, patient).endswith(f"&provider={slug}")


def test_link_without_choice_names_no_provider(harness: OutboxHarness, patient: UUID) -> None:
    client = harness.client("front desk")
    assert deliver_link(harness, client, patient).title == "Create a link to connect a device"
    assert "&provider=" not in show_link(client, patient)


def test_providers_without_browser_login_are_not_offered(
    harness: OutboxHarness, patient: UUID
) -> None:
    create_provider("made-up-sdk", "sdk")
    create_provider("made-up-gone", "oauth", missing_since=timezone.now())
    client = harness.client("front desk")
    page = client.get(form_address(patient)).content.decode()
    for slug in ("made-up-sdk", "made-up-gone", "nobody"):
        assert f'value="{slug}"' not in page
        response: Any = harness.submit_form(client, form_address(patient), provider=slug)
        assert response.status_code == 422
        assert "is not one of the available choices" in response.content.decode()


def test_link_is_shown_only_to_its_requester(harness: OutboxHarness, patient: UUID) -> None:
    client, other = harness.client("front desk"), harness.client("administrator")
    token = token_of(deliver_link(harness, client, patient))
    assert other.get(link_address(patient)).status_code == 302
    response: Any = other.post(link_address(patient))
    assert (response.status_code, response["Location"]) == (302, f"/patients/{patient}/")
    assert token in show_link(client, patient)


def test_audit_of_shown_link_omits_the_link(harness: OutboxHarness, patient: UUID) -> None:
    client = harness.client("front desk")
    row = deliver_link(harness, client, patient)
    assert AuditEntry.objects.filter(object_type="connection.link", action="change").count() == 1
    show_link(client, patient)
    entry = AuditEntry.objects.get(object_type="connection.link shown")
    assert entry.object_ids == [str(row.pk), str(patient)] and entry.patient_ids == [patient]
    show_link(client, patient)
    assert AuditEntry.objects.filter(object_type="connection.link shown").count() == 1


def test_link_is_in_no_table_log_or_address(
    harness: OutboxHarness, patient: UUID, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    client = harness.client("front desk")
    row = deliver_link(harness, client, patient)
    token = token_of(row)
    assert token not in repr(CommandRecord.objects.filter(pk=row.pk).values().get())
    encrypted_columns = {(field.model._meta.db_table, field.column) for field in encrypted_fields()}
    assert ("patients_connectlink", "url") in encrypted_columns
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            count = f'SELECT count(*) FROM "{table}" t WHERE t::text LIKE %s'
            cursor.execute(count, [f"%{token}%"])
            assert cursor.fetchone() == (0,), table
    command_page = client.get(reverse("commands:detail", args=[row.pk])).content.decode()
    assert token not in command_page
    link = show_link(client, patient)
    assert token in link
    assert token not in caplog.text and token not in link_address(patient)


def test_expired_link_is_not_shown(harness: OutboxHarness, patient: UUID) -> None:
    client = harness.client("front desk")
    row = deliver_link(harness, client, patient)
    link = ConnectLink.objects.get(pk=row.pk)
    assert timedelta(minutes=9) < link.expires_at - timezone.now() <= timedelta(minutes=10)
    ConnectLink.objects.update(expires_at=timezone.now())
    assert show_link(client, patient) == ""
    page = client.get(link_address(patient)).content.decode()
    assert "has expired" in page and form_address(patient) in page


def test_expired_links_are_deleted(harness: OutboxHarness, patient: UUID) -> None:
    row = deliver_link(harness, harness.client("front desk"), patient)
    ConnectLink.objects.update(expires_at=timezone.now() - timedelta(minutes=1))
    delete_old_drafts_and_links()
    assert ConnectLink.objects.get(pk=row.pk).url == ""
    ConnectLink.objects.update(expires_at=timezone.now() - timedelta(days=2))
    delete_old_drafts_and_links()
    assert not ConnectLink.objects.exists()


def test_new_link_is_created_after_one_was_shown(harness: OutboxHarness, patient: UUID) -> None:
    client = harness.client("front desk")
    deliver_link(harness, client, patient)
    first_link = show_link(client, patient)
    deliver_link(harness, client, patient)
    assert show_link(client, patient) not in ("", first_link)


def test_two_clicks_create_one_link(harness: OutboxHarness, patient: UUID) -> None:
    client = harness.client("front desk")
    form_id = str(client.get(form_address(patient)).context["form"]["form_id"].value())
    for _ in range(2):
        assert client.post(form_address(patient), {"form_id": form_id}).status_code == 302
    assert CommandRecord.objects.count() == 1


def test_second_request_for_a_link_is_refused(harness: OutboxHarness, patient: UUID) -> None:
    request_link(harness, harness.client("front desk"), patient)
    response = harness.submit_form(harness.client("clinician"), form_address(patient))
    assert response.status_code == 422
    assert "already sent a request about this" in response.content.decode()


def test_lost_answer_creates_another_link_in_time(harness: OutboxHarness, patient: UUID) -> None:
    client = harness.client("front desk")
    row = request_link(harness, client, patient)
    harness.add_fault("drop_after", PATH)
    harness.deliver()
    row.refresh_from_db()
    assert row.state == State.UNCERTAIN
    harness.pass_time()
    row.refresh_from_db()
    assert (row.state, row.attempts) == (State.DONE, 2)
    assert token_of(row) in show_link(client, patient)


def expire_request(row: CommandRecord) -> None:
    """Date the request 11 minutes back, so that it has expired."""
    asked_at = timezone.now() - timedelta(minutes=11)
    row.payload = {**row.payload, "asked_at": asked_at.isoformat()}
    row.save(update_fields=["payload"])


def test_link_is_not_created_after_the_request_expired(
    harness: OutboxHarness, patient: UUID
) -> None:
    client = harness.client("front desk")
    row = request_link(harness, client, patient)
    expire_request(row)
    harness.deliver()
    row.refresh_from_db()
    assert (row.state, row.attempts) == (State.REFUSED, 0) and "in time" in row.refusal
    assert "There is no link to show" in client.get(link_address(patient)).content.decode()


def test_lost_answer_of_expired_request_is_refused(harness: OutboxHarness, patient: UUID) -> None:
    row = request_link(harness, harness.client("front desk"), patient)
    harness.add_fault("drop_after", PATH)
    harness.deliver()
    row.refresh_from_db()
    expire_request(row)
    harness.pass_time()
    row.refresh_from_db()
    assert (row.state, row.attempts) == (State.REFUSED, 1) and "in time" in row.refusal


def test_refused_link_shows_why(harness: OutboxHarness, patient: UUID) -> None:
    client = harness.client("front desk")
    request_link(harness, client, patient)
    harness.add_fault("status", PATH, statuses=[403])
    harness.deliver()
    row = harness.newest_command()
    assert row.state == State.REFUSED
    page = client.get(link_address(patient)).content.decode()
    assert row.refusal in page and "There is no link to show" in page


def test_missing_patient_gets_no_link(harness: OutboxHarness, patient: UUID) -> None:
    Patient.objects.filter(pk=patient).update(missing_since=timezone.now())
    response = harness.submit_form(harness.client("front desk"), form_address(patient))
    assert response.status_code == 422
    assert "no longer has this patient" in response.content.decode()
    assert not CommandRecord.objects.exists()


def test_links_require_permission_to_change_patients(harness: OutboxHarness, patient: UUID) -> None:
    client = harness.client("viewer")
    for address in (form_address(patient), link_address(patient)):
        assert client.get(address).status_code == 403
        assert client.post(address).status_code == 403
    assert not CommandRecord.objects.exists()


def test_qr_code_contains_every_dark_module() -> None:
    text = "https://link.service.invalid/?token=made-up&env=sandbox"
    code = QRCode(border=QUIET_ZONE)
    code.add_data(text)
    code.make(fit=True)
    image = qr_image(text)
    dark = set()
    for x, y, length in re.findall(r"M(\d+) (\d+)h(\d+)v1h-\d+z", image.path):
        dark |= {(int(x) + step, int(y)) for step in range(int(length))}
    rows = code.get_matrix()
    assert image.size == len(rows) == len(rows[0])
    assert dark == {(x, y) for y, row in enumerate(rows) for x, is_on in enumerate(row) if is_on}
