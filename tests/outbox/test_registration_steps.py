"""A registration is several writes. A worker killed between two of them loses none.

Values that the service refuses, or that others changed meanwhile, can be corrected and sent.
"""

from __future__ import annotations

import uuid
from datetime import date
from pathlib import Path
from typing import Any

import msgspec
from django.test import RequestFactory
from django.urls import reverse
from msgspec.structs import replace

from backoffice.accounts.models import User
from backoffice.outbox.command import Command
from backoffice.outbox.enqueueing import enqueue
from backoffice.outbox.models import CommandRecord
from backoffice.service.insurance import NewPayor
from backoffice.service.users import NewAddress, NewGuarantor, NewUserInfo
from patients.commands import AddInsurance, CreatePayor, InsuranceRequest, SetUserInfo
from patients.commands.patients import insured_person
from patients.models import Insurance, Patient
from patients.record_comparison import person_digest
from patients.registration_forms import InsuranceForm, PersonForm
from tests.api.rows import staff
from tests.outbox import workers
from tests.outbox.harness import OutboxHarness
from tests.outbox.patient_forms import (
    CARD,
    PERSON,
    REGISTER,
    State,
    client_of_role,
    count_insurances,
    count_users,
    new_reference,
    page_text,
    register_patient,
    sandbox_street,
    submit_registration,
    unique_name,
    unique_phone,
)

KINDS = ["patient.create", "patient.info", "insurance.create"]


def test_worker_killed_between_steps_loses_none(harness: OutboxHarness, tmp_path: Path) -> None:
    settings = {**workers.environment(), "SERVICE_BASE_URL": harness.sandbox.url}
    with workers.start_workers(settings, tmp_path / "log") as running_workers:
        for moment in (workers.ANSWERED, workers.STORED, workers.CLOSED):
            reference = new_reference()
            values = {"client_user_id": reference, "last_name": unique_name(), **CARD}
            assert submit_registration(harness, None, **values).status_code == 302
            before = CommandRecord.objects.count()
            assert running_workers.kill_at(moment), moment
            harness.pass_time()
            assert CommandRecord.objects.count() == before + 2, moment
            patient = Patient.objects.get(client_user_id=reference)
            rows = CommandRecord.objects.filter(patient_id=patient.pk).order_by("requested_at")
            assert [(row.kind, row.state) for row in rows] == [
                (kind, "done") for kind in KINDS[1:]
            ], moment
            assert (
                count_users(harness, reference) == 1 and count_insurances(harness, patient) == 1
            ), moment


def enqueue_refused(
    harness: OutboxHarness, command: Command
) -> tuple[CommandRecord, dict[str, str]]:
    """Enqueue a command that our forms would refuse. Return its row and the field of each error."""
    request = RequestFactory().post("/")
    request.user = User.objects.filter(username="front-desk").first() or staff("front desk")
    row = enqueue(request, command, uuid.uuid4())
    harness.deliver()
    row.refresh_from_db()
    assert (row.state, row.status) == (CommandRecord.State.REFUSED, 422), row.refusal
    return row, {
        refusal_field["path"]: refusal_field["field"] for refusal_field in row.refusal_fields
    }


def test_every_refusal_is_shown_at_its_field(harness: OutboxHarness) -> None:
    reference = new_reference()
    assert (
        submit_registration(
            harness, None, client_user_id=reference, last_name=unique_name()
        ).status_code
        == 302
    )
    harness.deliver()
    patient = Patient.objects.get(client_user_id=reference)
    values = SetUserInfo.read(CommandRecord.objects.get(kind="patient.info").payload).info
    info = msgspec.convert(values, NewUserInfo)
    empty_address = NewAddress(first_line="", city="", state="", zip="", country="US")
    empty_guarantor = NewGuarantor(
        first_name="", last_name="", phone_number="+15550100100",
        address=NewAddress(first_line="", city="", state="", zip="", country="US"),
    )  # fmt: skip
    invalid_info = replace(
        info, first_name="@", last_name="@", email="x", phone_number="", gender="",
        dob=date(2999, 1, 1), address=empty_address, medical_proxy=empty_guarantor, race="x",
        ethnicity="x", sexual_orientation="x", gender_identity="x",
    )  # fmt: skip
    seen_digest = person_digest(info)
    row, field_by_path = enqueue_refused(
        harness,
        SetUserInfo(user_id=patient.pk, info=msgspec.to_builtins(invalid_info), seen=seen_digest),
    )
    assert len(field_by_path) > 15 and all(field_by_path.values()), field_by_path
    assert set(field_by_path.values()) <= PersonForm.base_fields.keys()
    assert (
        field_by_path["address.zip"] == "zip"
        and field_by_path["medical_proxy.first_name"] == "proxy_first_name"
    )
    form = client_of_role().get(f"{row.form_url}?again={row.pk}").context["form"]
    assert set(field_by_path.values()) <= form.errors.keys()

    card = InsuranceRequest(
        payor_code="", payor_name="", member_id="", relationship="Cousin", guarantor=empty_guarantor
    )
    add = AddInsurance(user_id=patient.pk, insuring=card, insured=insured_person(info))
    row, field_by_path = enqueue_refused(harness, add)
    assert len(field_by_path) > 7 and all(field_by_path.values()), field_by_path
    assert set(field_by_path.values()) <= InsuranceForm.base_fields.keys()
    assert (
        field_by_path["guarantor.address.zip"] == "guarantor_zip"
        and field_by_path["payor_code"] == "payor"
    )

    payor = NewPayor(name="", address=empty_address)
    make = CreatePayor(payor=payor, user_id=patient.pk, insuring=card, insured=insured_person(info))
    row, field_by_path = enqueue_refused(harness, make)
    assert set(field_by_path.values()) == {
        "payor_name", "payor_first_line", "payor_city", "payor_state", "payor_zip",
    }  # fmt: skip


def test_details_can_be_saved_after_comparing(harness: OutboxHarness) -> None:
    client, patient = client_of_role(), register_patient(harness)
    address = reverse("patients:edit", args=[patient.pk])
    seen_digest = client.get(address).context["form"]["seen"].value()
    other_values = {**PERSON, "first_line": "8 Their Street", "seen": seen_digest}
    assert (
        harness.submit_form(client_of_role("clinician"), address, **other_values).status_code == 302
    )
    harness.deliver()
    own_values = {
        **PERSON,
        "first_line": "7 My Street",
        "access_notes": "Ring twice",
        "seen": seen_digest,
    }
    response: Any = harness.submit_form(client, address, **own_values)
    page, form = page_text(response), response.context["form"]
    assert response.status_code == 422 and "Compare them, then save again" in page
    assert "8 Their Street" in page and 'value="7 My Street"' in page and "Ring twice" in page
    new_hidden_values = {name: form[name].value() for name in ("form_id", "seen")}
    assert client.post(address, {**own_values, **new_hidden_values}).status_code == 302
    harness.deliver()
    assert (
        harness.newest_command().state == State.DONE
        and sandbox_street(harness, patient) == "7 My Street"
    )


def test_invalid_field_does_not_hide_changed_details(harness: OutboxHarness) -> None:
    client, patient = client_of_role(), register_patient(harness)
    address = reverse("patients:edit", args=[patient.pk])
    seen_digest = client.get(address).context["form"]["seen"].value()
    other_values = {**PERSON, "first_line": "8 Their Street", "seen": seen_digest}
    assert (
        harness.submit_form(client_of_role("clinician"), address, **other_values).status_code == 302
    )
    harness.deliver()
    response: Any = harness.submit_form(
        client, address, **{**PERSON, "zip": "1", "seen": seen_digest}
    )
    assert response.status_code == 422 and response.context["form"]["seen"].value() == seen_digest


def test_insurance_can_be_added_after_seeing_another(harness: OutboxHarness) -> None:
    client, patient = client_of_role(), register_patient(harness)
    address = reverse("patients:insure", args=[patient.pk])
    form = client.get(address).context["form"]
    seen_insurances = {name: form[name].value() for name in ("before_primary", "before_secondary")}
    other_values = {**PERSON, **CARD, **seen_insurances, "member_id": "THEIRS-1"}
    assert (
        harness.submit_form(client_of_role("clinician"), address, **other_values).status_code == 302
    )
    harness.deliver()
    own_values = {**PERSON, **CARD, **seen_insurances, "member_id": "MINE-1"}
    response: Any = harness.submit_form(client, address, **own_values)
    page, form = page_text(response), response.context["form"]
    assert response.status_code == 422 and "Another insurance was added in the meantime" in page
    assert "THEIRS-1" in page and 'value="MINE-1"' in page
    new_hidden_values = {name: form[name].value() for name in ("form_id", *seen_insurances)}
    assert client.post(address, {**own_values, **new_hidden_values}).status_code == 302
    harness.deliver()
    assert Insurance.objects.get(user_id=patient.pk, superseded_at=None).member_id == "MINE-1"
    assert count_insurances(harness, patient) == 2


def test_second_click_after_registration_leads_to_patient(harness: OutboxHarness) -> None:
    client, reference, form_id = client_of_role(), new_reference(), str(uuid.uuid4())
    values = {
        **PERSON,
        "client_user_id": reference,
        "last_name": unique_name(),
        "phone_number": unique_phone(),
        "email": f"{unique_name()}@example.invalid",
        "form_id": form_id,
    }
    first = client.post(REGISTER, values)
    assert first.status_code == 302, page_text(first)
    harness.deliver()
    patient = Patient.objects.get(client_user_id=reference)
    # The patient is now a possible duplicate of the same form, and the panel may show it.
    for more in ({}, {"shown": str(patient.pk)}):
        second = client.post(REGISTER, {**values, **more})
        assert second.status_code == 302, page_text(second)
        assert second.headers["Location"] == first.headers["Location"]
    done = client.get(first.headers["Location"]).headers["Location"]
    assert done == reverse("patients:detail", args=[patient.pk])

    response: Any = client.post(REGISTER, {**values, "first_line": "9 Other Street"})
    page, form = page_text(response), response.context["form"]
    assert response.status_code == 422 and "This form was already submitted" in page
    assert first.headers["Location"] in page and 'value="9 Other Street"' in page
    assert "Another patient has this reference" not in page
    assert form["form_id"].value() not in ("", form_id)
    assert CommandRecord.objects.filter(kind="patient.create").count() == 1
    assert count_users(harness, reference) == 1
