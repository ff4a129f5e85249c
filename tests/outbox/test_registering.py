"""A registration is several writes: a worker that dies between two of them loses none of the rest,
and what the service refuses, or what others changed meanwhile, can be corrected and sent."""

from __future__ import annotations

import uuid
from datetime import date
from pathlib import Path
from typing import Any

import msgspec
from django.test import RequestFactory
from django.urls import reverse
from msgspec.structs import replace

from backoffice.models import CommandRecord, User
from backoffice.outbox import Command, enqueue
from backoffice.service.insurance import NewPayor
from backoffice.service.users import NewAddress, NewGuarantor, NewUserInfo
from patients.commands import AddInsurance, CreatePayor, InsuranceRequest, SetUserInfo
from patients.commands.patients import insured_person
from patients.models import Insurance, Patient
from patients.record_comparison import person_digest
from patients.registration_forms import InsuranceForm, PersonForm
from tests.api.rows import staff
from tests.outbox import workers
from tests.outbox.desk import Desk
from tests.outbox.test_people import (
    CARD,
    PERSON,
    REGISTER,
    State,
    at_desk,
    insurances,
    phone,
    reference,
    register,
    somebody,
    street,
    told,
    unlike,
    users,
)

KINDS = ["patient.create", "patient.info", "insurance.create"]


def test_a_worker_that_dies_between_the_steps_loses_none(desk: Desk, tmp_path: Path) -> None:
    settings = {**workers.environment(), "SERVICE_BASE_URL": desk.sandbox.url}
    with workers.ready(settings, tmp_path / "log") as crew:
        for moment in (workers.ANSWERED, workers.STORED, workers.CLOSED):
            mine = reference()
            given = {"client_user_id": mine, "last_name": unlike(), **CARD}
            assert register(desk, None, **given).status_code == 302
            before = CommandRecord.objects.count()
            assert crew.killed(moment), moment
            desk.later()
            assert CommandRecord.objects.count() == before + 2, moment
            patient = Patient.objects.get(client_user_id=mine)
            rows = CommandRecord.objects.filter(patient_id=patient.pk).order_by("requested_at")
            assert [(row.kind, row.state) for row in rows] == [
                (kind, "done") for kind in KINDS[1:]
            ], moment
            assert users(desk, mine) == 1 and insurances(desk, patient) == 1, moment


def refused(desk: Desk, command: Command) -> tuple[CommandRecord, dict[str, str]]:
    """A command that our own forms would not let pass, and where the service's words land."""
    request = RequestFactory().post("/")
    request.user = User.objects.filter(username="front-desk").first() or staff("front desk")
    row = enqueue(request, command, uuid.uuid4())
    desk.deliver()
    row.refresh_from_db()
    assert (row.state, row.status) == (CommandRecord.State.REFUSED, 422), row.refusal
    return row, {told["path"]: told["field"] for told in row.refusal_fields}


def test_every_refusal_of_the_service_lands_on_its_field(desk: Desk) -> None:
    mine = reference()
    assert register(desk, None, client_user_id=mine, last_name=unlike()).status_code == 302
    desk.deliver()
    patient = Patient.objects.get(client_user_id=mine)
    given = SetUserInfo.read(CommandRecord.objects.get(kind="patient.info").payload).info
    info = msgspec.convert(given, NewUserInfo)
    nowhere = NewAddress(first_line="", city="", state="", zip="", country="US")
    nobody = NewGuarantor(
        first_name="", last_name="", phone_number="+15550100100",
        address=NewAddress(first_line="", city="", state="", zip="", country="US"),
    )  # fmt: skip
    bad = replace(
        info, first_name="@", last_name="@", email="x", phone_number="", gender="",
        dob=date(2999, 1, 1), address=nowhere, medical_proxy=nobody, race="x", ethnicity="x",
        sexual_orientation="x", gender_identity="x",
    )  # fmt: skip
    seen = person_digest(info)
    row, told = refused(
        desk, SetUserInfo(user_id=patient.pk, info=msgspec.to_builtins(bad), seen=seen)
    )
    assert len(told) > 15 and all(told.values()), told
    assert set(told.values()) <= PersonForm.base_fields.keys()
    assert told["address.zip"] == "zip" and told["medical_proxy.first_name"] == "proxy_first_name"
    shown = at_desk().get(f"{row.form_url}?again={row.pk}").context["form"]
    assert set(told.values()) <= shown.errors.keys()

    card = InsuranceRequest(
        payor_code="", payor_name="", member_id="", relationship="Cousin", guarantor=nobody
    )
    add = AddInsurance(user_id=patient.pk, insuring=card, insured=insured_person(info))
    row, told = refused(desk, add)
    assert len(told) > 7 and all(told.values()), told
    assert set(told.values()) <= InsuranceForm.base_fields.keys()
    assert told["guarantor.address.zip"] == "guarantor_zip" and told["payor_code"] == "payor"

    payor = NewPayor(name="", address=nowhere)
    make = CreatePayor(payor=payor, user_id=patient.pk, insuring=card, insured=insured_person(info))
    row, told = refused(desk, make)
    assert set(told.values()) == {
        "payor_name", "payor_first_line", "payor_city", "payor_state", "payor_zip",
    }  # fmt: skip


def test_after_comparing_the_details_can_be_saved(desk: Desk) -> None:
    client, patient = at_desk(), somebody(desk)
    address = reverse("patients:edit", args=[patient.pk])
    seen = client.get(address).context["form"]["seen"].value()
    theirs = {**PERSON, "first_line": "8 Their Street", "seen": seen}
    assert desk.fill(at_desk("clinician"), address, **theirs).status_code == 302
    desk.deliver()
    mine = {**PERSON, "first_line": "7 My Street", "access_notes": "Ring twice", "seen": seen}
    told_so: Any = desk.fill(client, address, **mine)
    page, form = told(told_so), told_so.context["form"]
    assert told_so.status_code == 422 and "Compare them, then save again" in page
    assert "8 Their Street" in page and 'value="7 My Street"' in page and "Ring twice" in page
    again = {name: form[name].value() for name in ("form_id", "seen")}
    assert client.post(address, {**mine, **again}).status_code == 302
    desk.deliver()
    assert desk.newest().state == State.DONE and street(desk, patient) == "7 My Street"


def test_a_fault_of_another_kind_does_not_hide_that_details_changed(desk: Desk) -> None:
    client, patient = at_desk(), somebody(desk)
    address = reverse("patients:edit", args=[patient.pk])
    seen = client.get(address).context["form"]["seen"].value()
    theirs = {**PERSON, "first_line": "8 Their Street", "seen": seen}
    assert desk.fill(at_desk("clinician"), address, **theirs).status_code == 302
    desk.deliver()
    wrong: Any = desk.fill(client, address, **{**PERSON, "zip": "1", "seen": seen})
    assert wrong.status_code == 422 and wrong.context["form"]["seen"].value() == seen


def test_after_looking_at_another_insurance_this_one_can_be_added(desk: Desk) -> None:
    client, patient = at_desk(), somebody(desk)
    address = reverse("patients:insure", args=[patient.pk])
    shown = client.get(address).context["form"]
    marks = {name: shown[name].value() for name in ("before_primary", "before_secondary")}
    theirs = {**PERSON, **CARD, **marks, "member_id": "THEIRS-1"}
    assert desk.fill(at_desk("clinician"), address, **theirs).status_code == 302
    desk.deliver()
    mine = {**PERSON, **CARD, **marks, "member_id": "MINE-1"}
    told_so: Any = desk.fill(client, address, **mine)
    page, form = told(told_so), told_so.context["form"]
    assert told_so.status_code == 422 and "Another insurance was recorded meanwhile" in page
    assert "THEIRS-1" in page and 'value="MINE-1"' in page
    again = {name: form[name].value() for name in ("form_id", *marks)}
    assert client.post(address, {**mine, **again}).status_code == 302
    desk.deliver()
    assert Insurance.objects.get(user_id=patient.pk, superseded_at=None).member_id == "MINE-1"
    assert insurances(desk, patient) == 2


def test_a_second_click_after_the_first_is_done_leads_to_its_page(desk: Desk) -> None:
    client, mine, form_id = at_desk(), reference(), str(uuid.uuid4())
    given = {**PERSON, "client_user_id": mine, "last_name": unlike(), "phone_number": phone(),
             "email": f"{unlike()}@example.invalid", "form_id": form_id}  # fmt: skip
    first = client.post(REGISTER, given)
    assert first.status_code == 302, told(first)
    desk.deliver()
    patient = Patient.objects.get(client_user_id=mine)
    # By now the person is a possible duplicate of themselves, and the panel may have said so.
    for more in ({}, {"shown": str(patient.pk)}):
        second = client.post(REGISTER, {**given, **more})
        assert second.status_code == 302, told(second)
        assert second.headers["Location"] == first.headers["Location"]
    done = client.get(first.headers["Location"]).headers["Location"]
    assert done == reverse("patients:detail", args=[patient.pk])

    changed: Any = client.post(REGISTER, {**given, "first_line": "9 Other Street"})
    page, form = told(changed), changed.context["form"]
    assert changed.status_code == 422 and "This form has been sent already" in page
    assert first.headers["Location"] in page and 'value="9 Other Street"' in page
    assert "Another patient has this reference" not in page
    assert form["form_id"].value() not in ("", form_id)
    assert CommandRecord.objects.filter(kind="patient.create").count() == 1
    assert users(desk, mine) == 1
