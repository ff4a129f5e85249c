"""What the card of an exception shows."""

from __future__ import annotations

import json
import re
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.test import Client
from django.utils import timezone

from backoffice.accounts.models import User
from backoffice.team.models import Contact
from orders.local_time import local_clock_of
from orders.models import Appointment, Handling, Order, OrderEvent
from tests.api.rows import envelope, order, patient, uid
from tests.orders.exceptions import GROUP_OF, PHOENIX, create_order, keys_in_group, send_outcome

pytestmark = pytest.mark.django_db


def test_viewing_cards_changes_nothing(client: Client, coordinator: User) -> None:
    row = create_order(1)
    for path in ("", "?group=lost", f"lost/{row.pk}/", f"quiet/{row.pk}/"):
        assert client.get(f"/exceptions/{path}").status_code == 200
    client.post(f"/exceptions/lost/{row.pk}/check/")
    client.post(f"/exceptions/lost/{row.pk}/take/")
    assert keys_in_group("lost") == [row.pk]
    assert client.post(f"/exceptions/lost/{row.pk}/", {}).status_code == 400
    assert keys_in_group("lost") == [row.pk]


def test_card_shows_reason_phone_and_local_time(client: Client, coordinator: User) -> None:
    row = create_order(1, "sample_error", status_detail="sample_hemolyzed")
    OrderEvent(order_id=row.pk, event_id=1, created_at=row.updated_at, status="x.y.sample_error",
               low_level_status="sample_error").save()  # fmt: skip
    page = client.get(f"/exceptions/lost/{row.pk}/").content.decode()
    patient_time = timezone.now().astimezone(PHOENIX)
    for words in ("Sample unusable, 4 days ago", "Sample hemolyzed", "(555) 010-0123",
                  f" {patient_time.hour % 12 or 12}:", "MST in Phoenix", "Order again",
                  "The lab could not use your sample"):  # fmt: skip
        assert words in page, words
    assert ("Too early" in page) is (patient_time.hour < 8)
    assert ("Too late" in page) is (patient_time.hour >= 20)


def card_text(client: Client, row: Order, group: str = "lost") -> str:
    """Return the card without the rest of the page."""
    page = client.get(f"/exceptions/{group}/{row.pk}/").content.decode()
    return page[page.index("callcard") :]


def test_card_shows_address_to_confirm(client: Client, coordinator: User) -> None:
    row = create_order(1, "failure_to_deliver_to_customer")
    page = card_text(client, row, "delivery")
    assert "Is this address still correct?" in page
    assert "1 Sample Street" in page and "Phoenix, AZ" in page
    blocked = create_order(2, "lab_processing_blocked", **envelope("{}"))
    assert "No address on file" in card_text(client, blocked, "stuck")


def test_card_shows_address_of_home_visit(client: Client, coordinator: User) -> None:
    row = create_order(1, "sample_error", method="at_home_phlebotomy")
    visit_address = {
        "first_line": "5 Other Road",
        "city": "Tucson",
        "state": "AZ",
        "zip_code": "85701",
    }
    visit = Appointment(
        id=uid("appointment", 1), user_id=row.user_id, order_id=row.pk, type="phlebotomy",
        provider="p", status="confirmed", event_status="scheduled", **visit_address, **envelope(),
    )  # fmt: skip
    visit.save()
    page = card_text(client, row)
    assert "Visit address" in page and "5 Other Road" in page and "1 Sample Street" not in page
    visit.type = "patient_service_center"
    visit.save()
    page = card_text(client, row)
    assert "1 Sample Street" in page and "5 Other Road" not in page, (
        "the address of a center is not to confirm"
    )


def test_kit_in_transit_to_lab_shows_no_address_to_confirm(
    client: Client, coordinator: User
) -> None:
    page = card_text(client, create_order(1, "problem_in_transit_lab"), "delivery")
    assert "When did you send it" in page and "Is this address still correct?" not in page


NO_PATIENT: dict[str, Any] = {
    "patient_first_name": "",
    "patient_last_name": "",
    **envelope(
        json.dumps(
            {
                "patient_details": None,
                "patient_address": None,
                "shipping_details": {"receiver_name": "Clinic", "first_line": "9 Depot Way"},
            }
        )
    ),
}


def test_card_without_patient_offers_no_call(client: Client, coordinator: User) -> None:
    User.objects.update(time_zone="America/Denver")
    row = create_order(1, "problem_in_transit_customer", **NO_PATIENT)
    page = re.sub(
        r'name="(csrfmiddlewaretoken|about)" value="[^"]*"', "", card_text(client, row, "delivery")
    )
    for words in ("Hello", "What to say", "Spoke", "Voicemail", "Wrong number", "UTC", "Local time",
                  "time zone unknown", "Patient’s local time"):  # fmt: skip
        assert words not in page, words
    for words in ("No one to call", "9 Depot Way", "Re-ship requested", "Snooze", "Mark as handled",
                  "Your local time"):  # fmt: skip
        assert words in page, words
    refused = send_outcome(client, row, "spoke")
    assert refused.status_code == 400 and not Contact.objects.exists()
    assert send_outcome(client, row, "reship_asked").status_code == 302
    until = Handling.objects.get().until
    assert until is not None and until.astimezone(ZoneInfo("America/Denver")).hour == 10


@pytest.mark.parametrize("method", ["walk_in_test", "on_site_collection", "at_home_phlebotomy"])
@pytest.mark.parametrize("low", ["sample_error", "redraw_available", "lost", "teleported"])
def test_order_without_kit_offers_no_kit(
    client: Client, coordinator: User, method: str, low: str
) -> None:
    row = create_order(1, low, method=method)
    group = GROUP_OF[low]
    page = card_text(client, row, group)
    assert "Hello, this is the clinic" in page and "Spoke" in page
    assert " kit" not in page and "Re-ship" not in page
    assert send_outcome(client, row, "reship_asked").status_code == 400
    assert not Handling.objects.exists()
    assert send_outcome(client, row, "spoke").status_code == 302


def test_kit_can_be_reshipped(client: Client, coordinator: User) -> None:
    page = card_text(client, create_order(1, "sample_error"))
    assert "May we send you a new kit" in page and "Re-ship requested" in page


def test_local_clock_is_found_or_unknown() -> None:
    def zone(record: str, fallback: str | None = None) -> tuple[str, bool, bool]:
        someone = patient(1, fallback_time_zone=fallback)
        place = local_clock_of(order(1, user=someone, user_id=someone.pk, **envelope(record)))
        return place.name, place.sure, place.known

    def state(name: str) -> str:
        return json.dumps({"patient_address": {"state": name}})

    assert zone(state("az")) == ("America/Phoenix", True, True)
    assert zone(state("TX")) == ("America/Chicago", False, True)
    assert zone(state("TX"), "America/Denver") == ("America/Denver", True, True)
    assert zone(state("AZ"), "America/Denver") == ("America/Phoenix", True, True)
    assert zone("{}", "Europe/Paris") == ("Europe/Paris", True, True)
    for record in ("{}", "null", state("??"), '{"patient_address": {"state": 7}}'):
        assert zone(record, "Not/AZone") == ("UTC", False, False)
