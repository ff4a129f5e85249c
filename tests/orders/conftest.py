"""Fixtures for order tests: a lab catalog and signed-in clinicians."""

from __future__ import annotations

import json
from datetime import date

import pytest
from django.test import Client

from backoffice.accounts.models import User
from labs.models import Lab, LabTest, Marker, Physician
from tests.api.rows import demographics, envelope, patient, staff
from tests.orders.placing import ACCOUNT, FAR, KIT, OTHER, PERSON, QUESTION, TEST, create_account


@pytest.fixture
def lab_catalog(transactional_db: None) -> None:
    """Two labs: one has an account of ours and a marker that can be added."""
    for number, slug in ((1, "lab-a"), (2, "lab-b")):
        Lab.objects.create(
            id=number,
            slug=slug,
            name=f"Made-up lab {number}",
            collection_methods=["walk_in_test", "at_home_phlebotomy", "testkit"],
            **envelope(),
        )
    for pk, lab, method in (
        (TEST, 1, "walk_in_test"),
        (OTHER, 1, "at_home_phlebotomy"),
        (FAR, 2, "walk_in_test"),
        (KIT, 2, "testkit"),
    ):
        LabTest.objects.create(
            id=pk,
            lab_id=lab,
            slug=str(pk),
            name=f"Panel {str(pk)[:4]}",
            sample_type="serum",
            method=method,
            status="active",
            **envelope(),
        )
    question = json.dumps({"aoe": {"questions": [QUESTION]}})
    for number, extra in ((1, {}), (2, {"has_questions": True, **envelope(question)})):
        Marker.objects.create(
            id=number,
            lab_id=1,
            name=f"Marker {number}",
            slug=f"marker-{number}",
            a_la_carte_enabled=True,
            is_orderable=True,
            **{**envelope(), **extra},
        )
    create_account(ACCOUNT)
    Physician.objects.create(npi="1900000011", first_name="Pat", last_name="Madeup", **envelope())
    patient(1).save()
    demographics(1, **{**PERSON, "dob": date(1980, 5, 5), "phone_digits": "0"}).save()


@pytest.fixture
def clinician_client(lab_catalog: None) -> Client:
    client = Client()
    client.force_login(staff("clinician"))
    return client


@pytest.fixture
def clinician(client: Client) -> User:
    user = staff("clinician")
    client.force_login(user)
    return user


@pytest.fixture
def coordinator(client: Client) -> User:
    user = staff("lab coordinator", "ana")
    client.force_login(user)
    return user
