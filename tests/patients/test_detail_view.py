"""The page of one patient."""

from __future__ import annotations

import json
from datetime import date, timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from backoffice.accounts.models import User
from backoffice.audit.models import AuditEntry
from orders.models import Transaction
from patients.models import Connection, Insurance
from patients.wearables.models import HistoricalPull
from tests.api.rows import NOW, demographics, envelope, order, patient, staff, uid

pytestmark = pytest.mark.django_db

PATIENT_ID = uid("patient", 1)
ADDRESS = f"/patients/{PATIENT_ID}/"


@pytest.fixture
def clinician(client: Client) -> User:
    user = staff("clinician")
    client.force_login(user)
    return user


@pytest.fixture
def maria(clinician: User) -> None:
    patient(1, fallback_time_zone="America/Phoenix").save()
    proxy = {"medical_proxy": {"first_name": "Pat", "last_name": "Proxy-Sample"}}
    demographics(
        1, first_name="Maria", last_name="Testperson", dob=date(2015, 6, 1), race="asian",
        gender="Female", phone_number="+15550100123", email="maria@example.invalid",
        first_line="1 Sample Street", city="Phoenix", state="AZ", zip="85001",
        gender_identity="never_heard_of", **envelope(json.dumps(proxy)),
    ).save()  # fmt: skip
    card = {
        "user_id": PATIENT_ID,
        "is_primary": True,
        "payor_code": "PAY1",
        "relationship": "Spouse",
    }
    Insurance(id=uuid4(), member_id="M-NOW", company_name="Madeup Mutual", **card,
              **envelope()).save()  # fmt: skip
    Insurance(id=uuid4(), member_id="M-BEFORE", superseded_at=NOW, **card, **envelope()).save()
    Connection(user_id=PATIENT_ID, slug="band-one", name="Band One", created_on=NOW, status="error",
               error_type="token_refresh_failed", errored_at=NOW, **envelope()).save()  # fmt: skip
    pull = {"user_id": PATIENT_ID, **envelope()}
    HistoricalPull(provider="band-one", resource="sleep", status="retrying", days_with_data=12,
                   error_details="provider_unavailable", **pull).save()  # fmt: skip
    HistoricalPull(provider="ring-two", resource="steps", status="not_pulled", **pull).save()


def get_page(client: Client) -> Any:
    answer = client.get(ADDRESS)
    assert answer.status_code == 200
    return answer


def test_page_shows_patient_with_all_sections(client: Client, maria: None) -> None:
    page = get_page(client).content.decode()
    for words in ("Maria Testperson", "Jun 1, 2015", "Female", "Under 18", "(555) 010-0123",
                  "maria@example.invalid", "1 Sample Street", "Asian", "never_heard_of",
                  "Pat Proxy-Sample", "Local time", "MST", "Madeup Mutual", "M-NOW", "Spouse",
                  "Added", "Band One", "Not working", "1 pull failed or retrying",
                  "Permission expired – reconnect", "ring-two",
                  "Account time zone", "All days",
                  "Unassigned", "No notes or calls yet", "Change log"):  # fmt: skip
        assert words in page, words
    assert "Fallback" not in page and "Without bounds" not in page
    assert "M-BEFORE" not in page and "Who viewed this record" not in page
    assert page.count('class="person"') == 1


def test_detail_groups_orders_by_transaction(client: Client, maria: None) -> None:
    for n in (1, 2):
        Transaction(id=uid("transaction", n), status="active", **envelope()).save()
    for n, group, age, origin in [(1, 1, 9, "initial"), (2, 1, 1, "redraw"), (3, 2, 5, "initial")]:
        order(
            n, user_id=PATIENT_ID, order_transaction_id=uid("transaction", group), origin=origin,
            created_at=NOW - timedelta(days=age), bucket="closed" if n == 3 else "at-lab",
        ).save()  # fmt: skip
    order(
        4, user_id=PATIENT_ID, order_transaction_id=None, created_at=NOW - timedelta(days=20)
    ).save()
    order(5, user_id=uid("patient", 2)).save()
    answer = get_page(client)
    groups = [[row.pk for row in group["orders"]] for group in answer.context["transactions"]]
    expected = [[1, 2], [4], [3]]  # open ones first
    assert groups == [[uid("order", n) for n in group] for group in expected]
    assert "3 open orders" in answer.content.decode()


def test_detail_records_the_view(client: Client, maria: None, clinician: User) -> None:
    get_page(client)
    entry = AuditEntry.objects.get()
    assert (entry.actor, entry.action, entry.object_type) == (clinician, "view", "patient")
    assert (entry.object_ids, entry.patient_ids) == ([str(PATIENT_ID)], [PATIENT_ID])


def test_detail_works_without_demographics(client: Client, clinician: User) -> None:
    patient(1).save()
    page = get_page(client).content.decode()
    for words in ("No name on file", "The lab service has none for this patient yet",
                  "No insurance on file", "No orders yet",
                  "No device or app is connected"):  # fmt: skip
        assert words in page, words


def test_detail_shows_name_from_order(client: Client, clinician: User) -> None:
    patient(1).save()
    named = {"patient_first_name": "Olga", "patient_last_name": "Madeup", "patient_name": "olga"}
    order(1, user_id=PATIENT_ID, patient_dob=date(1990, 3, 4), **named).save()
    page = get_page(client).content.decode()
    assert "<h1><bdi>Olga Madeup</bdi></h1>" in page and "No name on file" not in page
    assert "No demographics on file" in page and "Mar 4, 1990" in page
    client.force_login(staff("lab admin"))
    sheet = client.get(f"{ADDRESS}viewers/sheet/").content.decode()
    assert "<bdi>Olga Madeup</bdi>, born" in sheet


def test_detail_says_that_patient_is_missing(client: Client, clinician: User) -> None:
    patient(1, missing_since=NOW).save()
    assert "The lab service no longer has this patient" in get_page(client).content.decode()


@pytest.mark.parametrize("text", ["", "null", "[]", "not json", '{"medical_proxy": 7}'])
def test_detail_works_with_malformed_record(client: Client, clinician: User, text: str) -> None:
    patient(1, **envelope(text)).save()
    demographics(1, **envelope(text)).save()
    get_page(client)


@pytest.mark.parametrize(("role", "is_visible"), [("clinician", False), ("lab admin", True)])
def test_raw_records_need_a_permission(
    client: Client, maria: None, role: str, is_visible: bool
) -> None:
    client.force_login(staff(role, f"{role} two"))
    page = get_page(client).content.decode()
    assert ("Data as received from the lab service" in page) is is_visible
    assert ("&#34;medical_proxy&#34;" in page) is is_visible


@pytest.mark.parametrize("role", ["viewer", "auditor"])
def test_roles_without_permission_are_refused(client: Client, maria: None, role: str) -> None:
    client.force_login(staff(role))
    answer = client.get(ADDRESS)
    assert answer.status_code == 403
    assert b"Testperson" not in answer.content


def test_detail_of_unknown_patient_is_404(client: Client, clinician: User) -> None:
    assert client.get(f"/patients/{uuid4()}/").status_code == 404
    assert AuditEntry.objects.count() == 0


def test_query_count_is_fixed(client: Client, maria: None) -> None:
    def count_queries() -> int:
        with CaptureQueriesContext(connection) as seen:
            get_page(client)
        return len(seen)

    order(1, user_id=PATIENT_ID).save()
    count_queries()  # the first page of a session also stores its CSRF secret
    few = count_queries()
    for n in range(2, 30):
        order(n, user_id=PATIENT_ID).save()
        HistoricalPull(user_id=PATIENT_ID, provider=f"p{n}", resource="steps", status="success",
                       **envelope()).save()  # fmt: skip
    assert count_queries() == few <= 27


def test_detail_hides_results_without_permission(client: Client, maria: None) -> None:
    order(90, user_id=uid("patient", 1), interpretation="critical").save()
    assert "Critical" in client.get(ADDRESS).content.decode()
    client.force_login(staff("front desk"))
    page = client.get(ADDRESS).content.decode()
    assert "Critical" not in page and 'data-flag="critical"' not in page
