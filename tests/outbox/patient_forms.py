"""Form values of patients, registration through the pages, and counts at the sandbox."""

from __future__ import annotations

import uuid
from typing import Any

from django.http import HttpResponse
from django.test import Client

from backoffice.accounts.models import User
from backoffice.outbox.models import CommandRecord
from patients.models import Patient
from tests.api.rows import staff
from tests.outbox.harness import OutboxHarness

State = CommandRecord.State
REGISTER = "/patients/register/"
FAULTS: dict[str, dict[str, Any]] = {
    "drop_after": {},
    "drop_before": {},
    "status_after": {"statuses": [500]},
    "status": {"statuses": [429]},
}

PERSON = {
    "first_name": "Testa",
    "last_name": "Sampleton",
    "dob": "1980-02-29",
    "gender": "female",
    "phone_number": "(555) 010-0199",
    "email": "testa@example.invalid",
    "first_line": "1 Madeup Street",
    "city": "Phoenix",
    "state": "AZ",
    "zip": "85001",
    "proxy_same_address": "on",
    "guarantor_same_address": "on",
    "relationship": "Self",
}
CARD = {"payor": "MUPLAN1 Made-up Mutual", "member_id": "MEMBER-1", "group_id": "G-1"}
NEW_PAYOR = {
    "payor_new": "on",
    "payor_name": "Village Fund",
    "payor_first_line": "1 Fund Road",
    "payor_city": "Phoenix",
    "payor_state": "AZ",
    "payor_zip": "85001",
}
GUARANTOR = {
    "relationship": "Spouse",
    "guarantor_first_name": "Holder",
    "guarantor_last_name": "Sampleton",
    "guarantor_phone_number": "+15550100198",
}


def client_of_role(role: str = "front desk") -> Client:
    """Return a client of the user with this role, the same user each time."""
    client = Client()
    known = User.objects.filter(username=role.replace(" ", "-")).first()
    client.force_login(known or staff(role))
    return client


def new_reference() -> str:
    return f"p-{uuid.uuid4()}"


def submit_registration(
    harness: OutboxHarness, client: Client | None = None, **values: Any
) -> HttpResponse:
    client = client or client_of_role()
    unique_values = {"phone_number": unique_phone(), "email": f"{unique_name()}@example.invalid"}
    form_values = {**PERSON, "client_user_id": new_reference(), **unique_values, **values}
    return harness.submit_form(client, REGISTER, **form_values)


def register_patient(harness: OutboxHarness, **values: Any) -> Patient:
    """Register a patient with unique values."""
    reference = new_reference()
    response = submit_registration(
        harness, client_user_id=reference, **{"last_name": unique_name(), **values}
    )
    assert response.status_code == 302, page_text(response)
    harness.deliver()
    return Patient.objects.get(client_user_id=reference)


def unique_name() -> str:
    """Return a last name that resembles no other of these tests."""
    return "S" + uuid.uuid4().hex[:12]


def unique_phone() -> str:
    return f"+1555{uuid.uuid4().int % 10**7:07}"


def page_text(response: Any) -> str:
    return str(response.content.decode())


def count_users(harness: OutboxHarness, reference: str) -> int:
    return harness.count("SELECT count(*) FROM sandbox_user WHERE client_user_id = %s", reference)


def count_insurances(harness: OutboxHarness, patient: Patient) -> int:
    return harness.count("SELECT count(*) FROM sandbox_insurance WHERE user_id = %s", patient.pk)


def count_payors(harness: OutboxHarness, name: str) -> int:
    return harness.count("SELECT count(*) FROM sandbox_payor WHERE name = %s", name)


def sandbox_street(harness: OutboxHarness, patient: Patient) -> str:
    rows = harness.sandbox.query(
        "SELECT first_line FROM sandbox_userinfo WHERE user_id = %s", [patient.pk]
    )
    return str(rows[0][0])
