"""The collection day around which device data is shown."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.test import Client

from orders.models import Appointment, Result
from orders.template_functions.draw_days import collection_day
from tests.api.rows import NOW, envelope, order, patient, staff, uid

PHOENIX = "America/Phoenix"
VISIT = datetime(2026, 11, 20, 18, tzinfo=ZoneInfo(PHOENIX))


def visit(**values: Any) -> Appointment:
    defaults = {"start_at": VISIT, "iana_timezone": PHOENIX, "draw_day": VISIT.date(),
             "status": "confirmed", "event_status": "scheduled"}  # fmt: skip
    return Appointment(**{**defaults, **values})


@pytest.mark.parametrize(
    ("collected", "visits", "day"),
    [
        (None, [], None),
        ("soon", [], None),
        ("", [visit()], date(2026, 11, 20)),
        (None, [visit(event_status="cancelled")], None),
        (None, [visit(superseded_at=NOW), visit(draw_day=date(2026, 11, 22))], date(2026, 11, 22)),
        ("2026-11-21T01:00:00Z", [visit()], date(2026, 11, 20)),
        ("2026-11-21T01:00:00Z", [], date(2026, 11, 21)),
        ("2026-11-21T01:00:00", [visit()], date(2026, 11, 21)),
    ],
)
def test_collection_day_is_sample_day_or_visit_day(
    collected: str | None, visits: list[Appointment], day: date | None
) -> None:
    assert collection_day(visits, Result(date_collected=collected)) == day
    if collected is None:
        assert collection_day(visits, None) == day


@pytest.mark.django_db
def test_order_page_requests_device_data_around_draw(client: Client) -> None:
    patient(1).save()
    order(1, user_id=uid("patient", 1), patient_first_name="Testa").save()
    Result(order_id=uid("order", 1), date_collected="2026-11-18T09:00:00Z", **envelope()).save()
    address = f"/patients/{uid('patient', 1)}/devices/strip/?day=2026-11-18"
    client.force_login(staff("front desk"))
    assert address in client.get(f"/orders/{uid('order', 1)}/").content.decode()
    client.force_login(staff("viewer"))
    assert "devices" not in client.get(f"/orders/{uid('order', 1)}/").content.decode()
