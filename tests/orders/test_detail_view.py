"""The page of one order: contents, permissions and query count."""

from __future__ import annotations

import re
from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from django.utils.html import escape

from backoffice.accounts.models import User
from backoffice.audit.models import AuditEntry
from orders.models import (
    Appointment,
    Order,
    Result,
    ResultMarker,
)
from tests.api.rows import envelope, staff, uid
from tests.orders.order_pages import create_events, create_order, get_page

pytestmark = pytest.mark.django_db


RANDOM_VALUES = re.compile(
    r'(?:datetime|data-since)="[^"]*"|name="(?:csrfmiddlewaretoken|form_id)" value="[^"]*"'
)
"""Attributes whose values may contain any digits or letters by chance."""


def test_page_shows_order_with_progress_and_record(client: Client, clinician: User) -> None:
    row = create_order()
    create_events(row, "ordered", "requisition_created", "transit_customer", "with_customer")
    page = get_page(client, row).content.decode()
    for words in ("Made-up panel", "Maria Testperson", "Kit with patient",
                  "Waiting on the patient.",
                  "Kit has been with the patient 9 days (usually 7). 2 days overdue.",
                  "learned from 30 of our orders (0 so far)", "Overdue", "courier-east",
                  "TRK-1", "Pat Madeup", "E11.9", "Canary note &lt;b&gt;", "1 Sample Street",
                  "(555) 010-0123", "Lab service data as of"):  # fmt: skip
        assert words in page, words


def test_unknown_values_are_shown_as_received(client: Client, clinician: User) -> None:
    row = create_order(low_level_status="teleported", bucket="unknown", method="by_drone",
               status_detail="wormhole", billing_type="barter", origin="dream")  # fmt: skip
    create_events(row, "ordered", "teleported")
    page = get_page(client, row).content.decode()
    for words in ("teleported", "by_drone", "wormhole", "barter", "dream"):
        assert words in page, words


def test_record_of_another_shape_does_not_fail(client: Client, clinician: User) -> None:
    for text in ("{}", "[]", "null", "not json", '{"details": 7, "patient_address": "x"}'):
        row = create_order(**envelope(text))
        create_events(row, "ordered")
        get_page(client, row)


def test_only_web_addresses_become_links(client: Client, clinician: User) -> None:
    page = get_page(client, create_order()).content.decode()
    assert 'href="https://example.com/track/1"' in page
    assert "javascript:" not in page


def test_visits_show_both_clocks_and_conflicting_states(client: Client, clinician: User) -> None:
    User.objects.filter(pk=clinician.pk).update(time_zone="America/New_York")
    row = create_order(method="at_home_phlebotomy", low_level_status="appointment_scheduled")
    start = timezone.now().replace(month=1, day=5, hour=6, minute=30) + timedelta(days=365)
    visit = {"user_id": row.user_id, "order_id": row.pk, "type": "phlebotomy", "provider": "p"}
    path = {"city": "Phoenix", "first_line": "5 Sample Road", "external_id": "A-22"}
    Appointment(
        id=uid("appointment", 1), status="pending", event_status="scheduled", start_at=start,
        iana_timezone="America/Phoenix", **visit, **path, **envelope(),
    ).save()  # fmt: skip
    Appointment(
        id=uid("appointment", 2), status="cancelled", event_status="cancelled",
        superseded_at=timezone.now(), **visit, **envelope(),
    ).save()  # fmt: skip
    answer = get_page(client, row)
    page = answer.content.decode()
    assert [one.pk for one in answer.context["visits"]] == [
        uid("appointment", 1),
        uid("appointment", 2),
    ]
    assert "11:30 PM MST" in page
    assert "1:30 AM EST" in page
    assert "The lab service also reports: Booked" in page
    assert "A-22" in page
    assert "No time was set." in page, "a canceled visit does not wait for a time"


@pytest.fixture
def result() -> Order:
    row = create_order(low_level_status="completed", bucket="result-in", interpretation="critical")
    Result(order_id=row.pk, interpretation="critical", returned=3, missing=1, **envelope()).save()
    numeric = {"result_id": row.pk, "type": "numeric"}
    ResultMarker(position=0, name="Glucose", text="80", value=80, interpretation="normal",
                 min_range_value=70, max_range_value=99, **numeric).save()  # fmt: skip
    ResultMarker(position=1, name="LDL", text="161", value=161, interpretation="abnormal",
                 max_range_value=100, is_above_max_range=True, **numeric).save()  # fmt: skip
    ResultMarker(position=2, name="Potassium", text="6.913", value=6.913, unit="mmol/L",
                 interpretation="critical", **numeric).save()  # fmt: skip
    ResultMarker(position=3, name="Insulin", is_missing=True, result_id=row.pk,
                 failure_type="quantity_not_sufficient_failure").save()  # fmt: skip
    return row


def test_results_are_sorted_worst_first_with_missing_ones(
    client: Client, clinician: User, result: Order
) -> None:
    answer = get_page(client, result)
    assert [one.name for one in answer.context["markers"]] == ["Potassium", "LDL", "Glucose"]
    page = answer.content.decode()
    for words in ("6.913", "mmol/L", "High", "3 of 4 received", "Insulin", "Not enough sample"):
        assert words in page, words


@pytest.mark.parametrize("text", ["<5", "1e-3", "3-7", "100.20", "0.10", ">1,000", "Not Detected"])
def test_result_value_is_shown_as_received(
    client: Client, clinician: User, result: Order, text: str
) -> None:
    ResultMarker.objects.filter(name="Glucose").update(text=text, value=None)
    assert f">{escape(text)} <span" in get_page(client, result).content.decode()


def test_front_desk_sees_result_state_without_values(client: Client, result: Order) -> None:
    client.force_login(staff("front desk"))
    page = get_page(client, result).content.decode()
    assert "The result is in." in page
    assert "6.913" not in RANDOM_VALUES.sub("", page)
    assert "Potassium" not in page


def test_sibling_orders_are_linked_and_recorded(client: Client, clinician: User) -> None:
    first = create_order(1, low_level_status="redraw_available", bucket="needs-action")
    second = create_order(2, origin="redraw", user_id=uid("patient", 1))
    answer = get_page(client, first)
    assert f'href="/orders/{second.pk}/"' in answer.content.decode()
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.object_type) == ("view", "order")
    assert set(entry.object_ids) == {str(first.pk), str(second.pk)}
    assert entry.patient_ids == [uid("patient", 1)]


def test_order_without_patient_or_transaction_has_a_page(client: Client, clinician: User) -> None:
    get_page(client, create_order(user_id=None, order_transaction_id=None, patient_name=""))


def test_missing_order_is_reported(client: Client, clinician: User) -> None:
    page = get_page(client, create_order(missing_since=timezone.now())).content.decode()
    assert "The lab service no longer has this order" in page


@pytest.mark.parametrize(("role", "is_visible"), [("clinician", False), ("lab admin", True)])
def test_received_record_requires_permission(client: Client, role: str, is_visible: bool) -> None:
    client.force_login(staff(role))
    page = get_page(client, create_order()).content.decode()
    assert ("Data as received" in page) is is_visible
    assert ("&#34;shipment&#34;" in page) is is_visible


def test_viewer_sees_order_without_patient(client: Client) -> None:
    client.force_login(staff("viewer"))
    row = create_order(interpretation="critical", passthrough="Canary of ours")
    page = RANDOM_VALUES.sub(
        "", get_page(client, row).content.decode().replace('id="critical"', "")
    )
    for words in (
        *("Maria", "Testperson", "Canary note", "Sample Street", "555", "E11.9"),
        *("Canary parcel", "Canary of ours", "TRK-1", "example.com/track", "ritical"),
    ):
        assert words not in page, words
    assert "courier-east" in page
    client.force_login(staff("front desk"))
    page = get_page(client, row).content.decode().replace('id="critical"', "")
    for words in ("Canary parcel", "Canary of ours", "TRK-1", "example.com/track"):
        assert words in page, words
    assert "ritical" not in page
    client.force_login(staff("clinician"))
    assert "Critical" in get_page(client, row).content.decode()


def test_page_requires_permission_and_existing_order(client: Client) -> None:
    row = create_order()
    client.force_login(staff("auditor"))
    assert client.get(f"/orders/{row.pk}/").status_code == 403
    client.force_login(staff("clinician"))
    assert client.get(f"/orders/{uuid4()}/").status_code == 404
    assert client.get("/orders/not-an-id/").status_code == 404
    assert client.post(f"/orders/{row.pk}/").status_code == 405


def test_query_count_is_fixed(client: Client, clinician: User, result: Order) -> None:
    def count_queries() -> int:
        with CaptureQueriesContext(connection) as seen:
            get_page(client, result)
        return len(seen)

    count_queries()  # the first page of a session also stores its CSRF secret
    few = count_queries()
    create_events(result, "ordered", "requisition_created", "transit_customer", "with_customer")
    for n in range(2, 6):
        create_order(n)
    assert count_queries() == few <= 24


@pytest.mark.parametrize("low_level", ["sample_error", "do_not_process", "with_customer"])
def test_failed_order_shows_no_expected_date(
    client: Client, clinician: User, low_level: str
) -> None:
    bucket = {"sample_error": "needs-action", "do_not_process": "closed"}.get(
        low_level, "with-patient"
    )
    status = "received" if low_level == "with_customer" else "failed"
    day = timezone.now().date() + timedelta(days=3)
    row = create_order(
        low_level_status=low_level,
        bucket=bucket,
        status=status,
        expected_result_by_date=day,
        **envelope("{}"),
    )
    page = client.get(f"/orders/{row.pk}/").content.decode()
    is_active = low_level == "with_customer"
    assert ("Result expected by" in page) is is_active
    assert ("same business day" in page) is is_active


def test_corrected_result_is_not_labeled_final(client: Client, clinician: User) -> None:
    row = create_order(low_level_status="corrected", bucket="result-in")
    Result(
        order=row,
        status="final",
        date_collected="2026-10-15T17:56:52.743912+00:00",
        **envelope(),
    ).save()
    page = client.get(f"/orders/{row.pk}/").content.decode()
    assert "Corrected</span>" in page
    assert "Final</span>" not in page
    assert "Collected 2026" not in page


def test_unregistered_kit_is_shown_without_patient(client: Client, clinician: User) -> None:
    row = create_order(
        low_level_status="awaiting_registration",
        bucket="preparing",
        patient_first_name="",
        patient_last_name="",
        **envelope("{}"),
    )
    for path in ("", "why/", "cancel/"):
        page = client.get(f"/orders/{row.pk}/{path}").content.decode()
        assert "Kit without patient" in page, path
        assert "<bdi> </bdi>" not in page, path
    assert "no patient to notify" in page and "Call the patient" not in page
