"""An unfinished registration is stored encrypted for its author until it is sent or expires."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone

from backoffice.accounts.models import User
from backoffice.celery import app
from backoffice.outbox.models import CommandRecord
from patients import drafts
from patients.models import RegistrationDraft
from patients.tasks import delete_old_drafts_and_links
from tests.api.rows import demographics, patient, staff, uid
from tests.patients.test_registering import CARD, PERSON, REGISTER, front_desk_user

pytestmark = pytest.mark.django_db(transaction=True)

__all__ = ["front_desk_user"]
SAVED_STATUS = 204
"""The response to a page that sends its values when it is left."""


def leave_page(client: Client, form_id: str = "", **typed: Any) -> str:
    """Send what the page sends when it is left, and return the ID of its form."""
    form_id = form_id or str(uuid.uuid4())
    sent = {"client_user_id": "5ad4c0de-sample", "form_id": form_id, "do": "leave", **typed}
    assert client.post(REGISTER, sent).status_code == SAVED_STATUS
    return form_id


def values(client: Client) -> dict[str, Any]:
    form = client.get(REGISTER).context["form"]
    return {name: form[name].value() for name in form.fields}


def test_draft_is_restored_after_coming_back(client: Client, front_desk_user: User) -> None:
    form_id = leave_page(client, first_name="Testa", state="AZ", **CARD)
    page = client.get(REGISTER)
    content, form = page.content.decode(), page.context["form"]
    assert "Draft saved" in content and "Start over" in content
    assert not form.is_bound and 'id="wrong"' not in content, (
        "it is not validated before it is sent"
    )
    found = values(client)
    assert (found["first_name"], found["state"], found["form_id"]) == ("Testa", "AZ", form_id)
    assert found["client_user_id"] == "5ad4c0de-sample"
    assert found["proxy_same_address"] == "", "an unticked box stays unticked"
    assert 'value="MUPLAN1 Made-up Mutual" checked' in " ".join(content.split())


def test_older_save_does_not_overwrite_newer_draft(client: Client, front_desk_user: User) -> None:
    form_id = leave_page(client, first_name="Testa", last_name="Sample", written="page.12")
    leave_page(
        client, form_id, first_name="Testa", written="page.9"
    )  # An earlier save that arrives late.
    assert values(client)["last_name"] == "Sample"
    leave_page(client, form_id, first_name="Testa", last_name="Sampleton", written="page.13")
    assert values(client)["last_name"] == "Sampleton"
    for other_marker in ("other.1", "", "page", "page.²", "page.\x001", "page.1" * 9):
        name = f"Sample-{len(other_marker)}"
        leave_page(client, form_id, first_name="Testa", last_name=name, written=other_marker)
        assert values(client)["last_name"] == name
    assert "written" not in RegistrationDraft.objects.get().typed
    leave_page(client, form_id, first_name="Testa", last_name="Sample", written="page.20")
    leave_page(client, form_id, written="page.19")  # The form was empty for a moment.
    assert values(client)["last_name"] == "Sample"


def test_draft_restores_duplicates_and_their_ticks(client: Client, front_desk_user: User) -> None:
    patient(1).save()
    demographics(1, first_name="Testa", last_name="Sampleton", dob="1980-02-29").save()
    known = str(uid("patient", 1))
    leave_page(client, **{**PERSON, "not_same": known, "shown": known})
    page = client.get(REGISTER)
    assert [one.person.pk for one in page.context["candidates"]] == [uid("patient", 1)]
    assert page.context["not_same"] == [uid("patient", 1)]


def test_buttons_save_and_discard_without_scripts(client: Client, front_desk_user: User) -> None:
    sent = {"form_id": str(uuid.uuid4()), "first_name": "Testa"}
    for do, name in (("save", "Testa"), ("discard", None)):
        assert client.post(REGISTER, {**sent, "do": do}, follow=True).status_code == 200
        assert values(client)["first_name"] == name
    assert not RegistrationDraft.objects.exists()


def test_refused_form_and_payor_search_save_the_draft(
    client: Client, front_desk_user: User
) -> None:
    sent = {"form_id": str(uuid.uuid4()), "first_name": "Testa"}
    assert client.post(REGISTER, sent).status_code == 422
    assert values(client)["first_name"] == "Testa"
    client.post(REGISTER, {**sent, "last_name": "Sampleton", "find_payor": "1"})
    assert values(client)["last_name"] == "Sampleton"


def test_draft_is_deleted_once_sent(client: Client, front_desk_user: User) -> None:
    form_id = leave_page(client, first_name="Testa")
    answer = client.post(REGISTER, {**PERSON, "form_id": form_id})
    assert answer.status_code == 302 and CommandRecord.objects.count() == 1
    assert not RegistrationDraft.objects.exists()
    leave_page(client, form_id, **PERSON)  # Sent while the page was left for the response.
    assert not RegistrationDraft.objects.exists()


def test_draft_saved_during_submission_is_deleted(client: Client, front_desk_user: User) -> None:
    form_id = leave_page(client, first_name="Testa")
    typed = RegistrationDraft.objects.get().typed
    client.post(REGISTER, {**PERSON, "form_id": form_id})
    RegistrationDraft.save_inputs(typed, user=front_desk_user)
    assert drafts.load(front_desk_user) is None and not RegistrationDraft.objects.exists()


def test_sending_another_form_keeps_the_draft(client: Client, front_desk_user: User) -> None:
    leave_page(client, first_name="Other")
    assert client.post(REGISTER, {**PERSON, "form_id": str(uuid.uuid4())}).status_code == 302
    assert values(client)["first_name"] == "Other"


def test_empty_form_makes_no_draft(client: Client, front_desk_user: User) -> None:
    empty = {"relationship": "Self", "proxy_same_address": "on", "guarantor_same_address": "on"}
    leave_page(client, **empty)
    assert not RegistrationDraft.objects.exists()
    form_id = leave_page(client, **empty, first_name="Testa")
    leave_page(client, form_id, **empty)
    assert not RegistrationDraft.objects.exists()
    assert b"Draft saved" not in client.get(REGISTER).content


def test_draft_is_only_for_its_user(client: Client, front_desk_user: User) -> None:
    leave_page(client, first_name="Testa")
    colleague = Client()
    colleague.force_login(staff("front desk", "colleague"))
    assert values(colleague)["first_name"] is None
    viewer = Client()
    viewer.force_login(staff("viewer", "reader"))
    assert viewer.post(REGISTER, {"do": "leave", "first_name": "Testa"}).status_code == 403


def test_draft_is_encrypted_in_the_database(client: Client, front_desk_user: User) -> None:
    leave_page(client, first_name="Testa", member_id="MEMBER-1")
    with connection.cursor() as cursor:
        cursor.execute("SELECT typed::text FROM patients_registrationdraft")
        (text,) = cursor.fetchone()
    assert "Testa" not in text and "MEMBER-1" not in text


def test_old_draft_is_deleted_by_the_task(client: Client, front_desk_user: User) -> None:
    leave_page(client, first_name="Testa")
    RegistrationDraft.save_inputs({"first_name": ["Old"]}, user=staff("front desk", "colleague"))
    long_ago = timezone.now() - timedelta(days=15)
    RegistrationDraft.objects.exclude(user=front_desk_user).update(saved_at=long_ago)
    delete_old_drafts_and_links()
    assert [row.user_id for row in RegistrationDraft.objects.all()] == [front_desk_user.pk]
    assert "patients.tasks.delete_old_drafts_and_links" in {
        entry["task"] for entry in app.conf.beat_schedule.values()
    }
