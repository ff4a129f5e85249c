"""Registering people, changing who they are, insuring them, ending their connections."""

from __future__ import annotations

import re
from typing import Any
from uuid import UUID

import pytest
from django.test import Client
from django.urls import reverse

from backoffice.models import AuditEntry, CommandRecord
from patients.commands import carry_on
from patients.models import Connection, Demographics, DifferentPeople, Insurance, Patient
from tests.outbox.desk import Desk

State = CommandRecord.State
REGISTER = "/patients/register/"

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


def registered(desk: Desk, client: Client | None = None, **more: Any) -> Any:
    client = client or desk.client("front desk")
    return desk.fill(client, REGISTER, client_user_id="p-test-0001", **{**PERSON, **more})


def users(desk: Desk, reference: str = "p-test-0001") -> int:
    return desk.count("SELECT count(*) FROM sandbox_user WHERE client_user_id = %s", reference)


def test_a_person_is_registered(desk: Desk) -> None:
    answer = registered(desk)
    assert answer.status_code == 302, answer.content.decode()
    desk.deliver()
    patient = Patient.objects.get(client_user_id="p-test-0001")
    person = Demographics.objects.get(pk=patient.pk)
    assert (person.first_name, person.gender, person.phone_number) == (
        "Testa",
        "female",
        "+15550100199",
    )
    states = CommandRecord.objects.values_list("kind", "state", "attempts")
    assert sorted(states) == [("patient.create", "done", 1), ("patient.info", "done", 1)]
    assert users(desk) == 1
