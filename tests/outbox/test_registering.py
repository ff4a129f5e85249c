"""A registration is several writes: a worker that dies between two of them loses none of the rest,
and what the service refuses lands where it can be corrected."""

from __future__ import annotations

import uuid
from datetime import date
from pathlib import Path

from django.test import RequestFactory
from msgspec.structs import replace

from backoffice.models import CommandRecord, User
from backoffice.outbox import Command, ask
from backoffice.service.insurance import NewPayor
from backoffice.service.users import NewAddress, NewGuarantor
from patients.alike import mark_of_person
from patients.commands import AddInsurance, CreatePayor, Insuring, SetUserInfo
from patients.commands.people import insured_of
from patients.models import Patient
from patients.registering_forms import InsuranceForm, PersonForm
from tests.api.rows import staff
from tests.outbox import workers
from tests.outbox.desk import Desk
from tests.outbox.test_people import (
    CARD,
    at_desk,
    insurances,
    reference,
    register,
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
    row = ask(request, command, uuid.uuid4())
    desk.deliver()
    row.refresh_from_db()
    assert (row.state, row.status) == (CommandRecord.State.REFUSED, 422), row.refusal
    return row, {told["path"]: told["field"] for told in row.refusal_fields}


def test_every_refusal_of_the_service_lands_on_its_field(desk: Desk) -> None:
    mine = reference()
    assert register(desk, None, client_user_id=mine, last_name=unlike()).status_code == 302
    desk.deliver()
    patient = Patient.objects.get(client_user_id=mine)
    info = SetUserInfo.read(CommandRecord.objects.get(kind="patient.info").payload).info
    nowhere = NewAddress(first_line="", city="", state="Nowhere", zip="", country="US")
    nobody = NewGuarantor(
        first_name="", last_name="", phone_number="+15550100100",
        address=NewAddress(first_line="", city="", state="", zip="", country="US"),
    )  # fmt: skip
    bad = replace(
        info, first_name="@", last_name="@", email="x", phone_number="", gender="",
        dob=date(2999, 1, 1), address=nowhere, medical_proxy=nobody, race="x", ethnicity="x",
        sexual_orientation="x", gender_identity="x",
    )  # fmt: skip
    seen = mark_of_person(info)
    row, told = refused(desk, SetUserInfo(user_id=patient.pk, info=bad, seen=seen))
    assert len(told) > 15 and all(told.values()), told
    assert set(told.values()) <= PersonForm.base_fields.keys()
    assert told["address.zip"] == "zip" and told["medical_proxy.first_name"] == "proxy_first_name"
    shown = at_desk().get(f"{row.form_url}?again={row.pk}").context["form"]
    assert set(told.values()) <= shown.errors.keys()

    card = Insuring(
        payor_code="", payor_name="", member_id="", relationship="Cousin", guarantor=nobody
    )
    add = AddInsurance(user_id=patient.pk, insuring=card, insured=insured_of(info))
    row, told = refused(desk, add)
    assert len(told) > 7 and all(told.values()), told
    assert set(told.values()) <= InsuranceForm.base_fields.keys()
    assert told["guarantor.address.zip"] == "guarantor_zip" and told["payor_code"] == "payor"

    payor = NewPayor(name="", address=nowhere)
    make = CreatePayor(payor=payor, user_id=patient.pk, insuring=card, insured=insured_of(info))
    row, told = refused(desk, make)
    assert set(told.values()) == {
        "payor_name", "payor_first_line", "payor_city", "payor_state", "payor_zip",
    }  # fmt: skip
