"""A link to connect a device: made as a command, shown once to whoever asked, and never written."""

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

from backoffice.core.encryption.encrypted_fields import encrypted_fields
from backoffice.core.service_client import service
from backoffice.models import AuditEntry, CommandRecord
from patients.models import ConnectLink, Patient, Provider
from patients.qr_code import QUIET_ZONE, qr_image
from patients.tasks import forget
from tests.api.rows import envelope
from tests.outbox.cases_people import new_user
from tests.outbox.desk import Desk

State = CommandRecord.State
PATH = "/v2/link/token$"


@pytest.fixture
def patient(desk: Desk) -> UUID:
    return new_user()


def form_of(patient: UUID) -> str:
    return reverse("patients:connect", args=[patient])


def page_of(patient: UUID) -> str:
    return reverse("patients:connect-link", args=[patient])


def asked(desk: Desk, client: Client, patient: UUID) -> CommandRecord:
    answer = desk.fill(client, form_of(patient))
    assert answer.status_code == 302 and answer["Location"] == page_of(patient)
    return desk.newest()


def ready(desk: Desk, client: Client, patient: UUID) -> CommandRecord:
    row = asked(desk, client, patient)
    desk.deliver()
    row.refresh_from_db()
    assert (row.state, row.done_url) == (State.DONE, page_of(patient)), row.refusal
    return row


def shown(client: Client, patient: UUID) -> str:
    """The link, from the page that shows it; empty where it shows none."""
    answer: Any = client.post(page_of(patient), follow=True)
    assert answer.status_code == 200
    return str(answer.context["url"])


def token_of(row: CommandRecord) -> str:
    """What is secret of the link that waits to be shown."""
    found = re.search(r"token=([^&]{20,})", ConnectLink.objects.get(pk=row.pk).url)
    assert found
    return found[1]


def test_link_is_made_and_shown_once(desk: Desk, patient: UUID) -> None:
    client = desk.client("front desk")
    assert form_of(patient) in client.get(f"/patients/{patient}/").content.decode()
    row = asked(desk, client, patient)
    waiting = client.get(page_of(patient)).content.decode()
    assert "as soon as the service has made it" in waiting and "Show the link" not in waiting
    desk.deliver()
    before = client.get(page_of(patient)).content.decode()
    token = token_of(row)
    assert "Show the link" in before and token not in before
    answer: Any = client.post(page_of(patient))
    page = answer.content.decode()
    url = answer.context["url"]
    assert token in url and f'data-copy="{escape(url)}"' in page
    assert "no-store" in answer["Cache-Control"] and 'class="qr"' in page
    assert shown(client, patient) == ""
    after = client.get(page_of(patient)).content.decode()
    assert token not in after and "is not shown again" in after
    assert ConnectLink.objects.get(pk=row.pk).url == ""


def provider(slug: str, auth_type: str, **more: Any) -> None:
    values = {"name": slug.capitalize(), "auth_type": auth_type, **envelope(), **more}
    Provider.objects.update_or_create(slug=slug, defaults=values)


def test_link_leads_straight_to_the_chosen_provider(desk: Desk, patient: UUID) -> None:
    slug = service().wearables.providers().records[0].data.slug
    provider(slug, "oauth")
    client = desk.client("front desk")
    assert f'value="{slug}"' in client.get(form_of(patient)).content.decode()
    assert desk.fill(client, form_of(patient), provider=slug).status_code == 302
    desk.deliver()
    row = desk.newest()
    assert (row.state, row.title) == (State.DONE, f"Make a link to connect {slug.capitalize()}")
    assert shown(client, patient).endswith(f"&provider={slug}")


def test_link_leads_nowhere_in_particular_without_a_choice(desk: Desk, patient: UUID) -> None:
    client = desk.client("front desk")
    assert ready(desk, client, patient).title == "Make a link to connect a device"
    assert "&provider=" not in shown(client, patient)


def test_providers_that_a_browser_cannot_connect_are_not_offered(desk: Desk, patient: UUID) -> None:
    provider("made-up-sdk", "sdk")
    provider("made-up-gone", "oauth", missing_since=timezone.now())
    client = desk.client("front desk")
    page = client.get(form_of(patient)).content.decode()
    for slug in ("made-up-sdk", "made-up-gone", "nobody"):
        assert f'value="{slug}"' not in page
        answer: Any = desk.fill(client, form_of(patient), provider=slug)
        assert answer.status_code == 422
        assert "is not one of the available choices" in answer.content.decode()


def test_link_is_shown_to_nobody_else(desk: Desk, patient: UUID) -> None:
    client, other = desk.client("front desk"), desk.client("administrator")
    token = token_of(ready(desk, client, patient))
    assert other.get(page_of(patient)).status_code == 302
    answer: Any = other.post(page_of(patient))
    assert (answer.status_code, answer["Location"]) == (302, f"/patients/{patient}/")
    assert token in shown(client, patient)


def test_showing_a_link_is_audited_without_it(desk: Desk, patient: UUID) -> None:
    client = desk.client("front desk")
    row = ready(desk, client, patient)
    assert AuditEntry.objects.filter(object_type="connection.link", action="change").count() == 1
    shown(client, patient)
    entry = AuditEntry.objects.get(object_type="connection.link shown")
    assert entry.object_ids == [str(row.pk), str(patient)] and entry.patient_ids == [patient]
    shown(client, patient)
    assert AuditEntry.objects.filter(object_type="connection.link shown").count() == 1


def test_link_stands_in_no_table_log_or_address(
    desk: Desk, patient: UUID, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    client = desk.client("front desk")
    row = ready(desk, client, patient)
    token = token_of(row)
    assert token not in repr(CommandRecord.objects.filter(pk=row.pk).values().get())
    sealed = {(field.model._meta.db_table, field.column) for field in encrypted_fields()}
    assert ("patients_connectlink", "url") in sealed
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            count = f'SELECT count(*) FROM "{table}" t WHERE t::text LIKE %s'
            cursor.execute(count, [f"%{token}%"])
            assert cursor.fetchone() == (0,), table
    command = client.get(reverse("commands:detail", args=[row.pk])).content.decode()
    assert token not in command
    address = shown(client, patient)
    assert token in address
    assert token not in caplog.text and token not in page_of(patient)


def test_expired_link_is_not_shown(desk: Desk, patient: UUID) -> None:
    client = desk.client("front desk")
    row = ready(desk, client, patient)
    link = ConnectLink.objects.get(pk=row.pk)
    assert timedelta(minutes=9) < link.expires_at - timezone.now() <= timedelta(minutes=10)
    ConnectLink.objects.update(expires_at=timezone.now())
    assert shown(client, patient) == ""
    page = client.get(page_of(patient)).content.decode()
    assert "has expired" in page and form_of(patient) in page


def test_expired_links_are_forgotten(desk: Desk, patient: UUID) -> None:
    row = ready(desk, desk.client("front desk"), patient)
    ConnectLink.objects.update(expires_at=timezone.now() - timedelta(minutes=1))
    forget()
    assert ConnectLink.objects.get(pk=row.pk).url == ""
    ConnectLink.objects.update(expires_at=timezone.now() - timedelta(days=2))
    forget()
    assert not ConnectLink.objects.exists()


def test_another_link_is_made_after_one_was_shown(desk: Desk, patient: UUID) -> None:
    client = desk.client("front desk")
    ready(desk, client, patient)
    first = shown(client, patient)
    ready(desk, client, patient)
    assert shown(client, patient) not in ("", first)


def test_two_clicks_make_one_link(desk: Desk, patient: UUID) -> None:
    client = desk.client("front desk")
    form_id = str(client.get(form_of(patient)).context["form"]["form_id"].value())
    for _ in range(2):
        assert client.post(form_of(patient), {"form_id": form_id}).status_code == 302
    assert CommandRecord.objects.count() == 1


def test_second_person_learns_who_asked_first(desk: Desk, patient: UUID) -> None:
    asked(desk, desk.client("front desk"), patient)
    answer = desk.fill(desk.client("clinician"), form_of(patient))
    assert answer.status_code == 422
    assert "asked for something about this already" in answer.content.decode()


def test_lost_answer_makes_another_link_in_time(desk: Desk, patient: UUID) -> None:
    client = desk.client("front desk")
    row = asked(desk, client, patient)
    desk.fault("drop_after", PATH)
    desk.deliver()
    row.refresh_from_db()
    assert row.state == State.UNCERTAIN
    desk.later()
    row.refresh_from_db()
    assert (row.state, row.attempts) == (State.DONE, 2)
    assert token_of(row) in shown(client, patient)


def later_than_wanted(row: CommandRecord) -> None:
    """Whoever asked is gone."""
    asked_at = timezone.now() - timedelta(minutes=11)
    row.payload = {**row.payload, "asked_at": asked_at.isoformat()}
    row.save(update_fields=["payload"])


def test_link_is_not_made_when_nobody_waits(desk: Desk, patient: UUID) -> None:
    client = desk.client("front desk")
    row = asked(desk, client, patient)
    later_than_wanted(row)
    desk.deliver()
    row.refresh_from_db()
    assert (row.state, row.attempts) == (State.REFUSED, 0) and "in time" in row.refusal
    assert "There is no link to show" in client.get(page_of(patient)).content.decode()


def test_lost_answer_nobody_waits_for_ends_as_refused(desk: Desk, patient: UUID) -> None:
    row = asked(desk, desk.client("front desk"), patient)
    desk.fault("drop_after", PATH)
    desk.deliver()
    row.refresh_from_db()
    later_than_wanted(row)
    desk.later()
    row.refresh_from_db()
    assert (row.state, row.attempts) == (State.REFUSED, 1) and "in time" in row.refusal


def test_refusal_of_the_service_is_shown(desk: Desk, patient: UUID) -> None:
    client = desk.client("front desk")
    asked(desk, client, patient)
    desk.fault("status", PATH, statuses=[403])
    desk.deliver()
    row = desk.newest()
    assert row.state == State.REFUSED
    page = client.get(page_of(patient)).content.decode()
    assert row.refusal in page and "There is no link to show" in page


def test_patient_who_is_gone_gets_no_link(desk: Desk, patient: UUID) -> None:
    Patient.objects.filter(pk=patient).update(missing_since=timezone.now())
    answer = desk.fill(desk.client("front desk"), form_of(patient))
    assert answer.status_code == 422
    assert "no longer has this patient" in answer.content.decode()
    assert not CommandRecord.objects.exists()


def test_only_those_who_change_patients_make_links(desk: Desk, patient: UUID) -> None:
    client = desk.client("viewer")
    for address in (form_of(patient), page_of(patient)):
        assert client.get(address).status_code == 403
        assert client.post(address).status_code == 403
    assert not CommandRecord.objects.exists()


def test_qr_code_draws_every_dark_module() -> None:
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
