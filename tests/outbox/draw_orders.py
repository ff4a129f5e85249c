"""Orders that wait for a draw: placed at the sandbox and mirrored."""

from __future__ import annotations

import itertools
import uuid
from datetime import date
from typing import Any, Final
from uuid import UUID

import msgspec

from backoffice.service.appointments import VisitAddress
from backoffice.service.orders import NewOrder, SimulationFlags
from backoffice.service.users import NewUser
from orders.models import Order
from orders.sync import store_orders
from tests.outbox.harness import OutboxHarness
from tests.sandboxes import Sandbox

CITIES_BY_ZIP: Final = {
    "85004": ("Phoenix", "AZ"),
    "85281": ("Tempe", "AZ"),
    "54650": ("Onalaska", "WI"),
    "10001": ("New York", "NY"),
    "98101": ("Seattle", "WA"),
}
TEST_NAMES: Final = {
    "at_home_phlebotomy": "Home Visit Wellness",
    "walk_in_test": "Liver Screen",
    "testkit": "Heart Kit",
    "on_site_collection": "Clinic Draw Basic",
}
_NUMBERS = itertools.count(1)


def order_awaiting_draw(
    harness: OutboxHarness,
    method: str = "at_home_phlebotomy",
    zip_code: str = "85004",
    **options: Any,
) -> Order:
    """Place and mirror an order of a new made-up patient, or of `user`."""
    placed_id = place_order(harness.sandbox, method, zip_code, **options)
    with harness.sandbox.service() as service:
        store_orders([service.orders.get(placed_id)])
    return Order.objects.get(pk=placed_id)


def place_order(
    sandbox: Sandbox,
    method: str = "at_home_phlebotomy",
    zip_code: str = "85004",
    *,
    low_status: str = "requisition_created",
    birth_date: date = date(1980, 5, 6),
    user: UUID | None = None,
    test: str = "",
    name: str = "Nora",
) -> UUID:
    """Place an order at the sandbox, move it to `low_status`, and return its id."""
    with sandbox.service() as service:
        number = next(_NUMBERS)
        reference = f"draw-{number}-{uuid.uuid4().hex[:8]}"
        user = user or service.users.create(NewUser(client_user_id=reference)).data.user_id
        city, state = CITIES_BY_ZIP[zip_code]
        lab_test = sandbox.query(
            "SELECT id::text FROM sandbox_labtest WHERE name = %s", [test or TEST_NAMES[method]]
        )
        body: dict[str, Any] = {
            "user_id": str(user),
            "order_set": {"lab_test_ids": [lab_test[0][0]]},
            "physician": {"first_name": "Ada", "last_name": "Madeup", "npi": "1900000011"},
            "patient_details": {
                "first_name": name,
                "last_name": "Notreal",
                "dob": birth_date.isoformat(),
                "gender": "female",
                "phone_number": "+15550100001",
                "email": "nora@example.invalid",
            },
            "patient_address": {
                "receiver_name": f"{name} Notreal",
                "first_line": f"{100 + number} West Lincoln Street",
                "city": city,
                "state": state,
                "zip": zip_code,
                "country": "US",
                "access_notes": "The bell says Notreal",
            },
        }
        if birth_date.year > 2009:
            body["patient_details"]["medical_proxy"] = {
                "first_name": "Paula",
                "last_name": "Notreal",
                "address": {
                    "first_line": "1 Sample Street",
                    "city": city,
                    "state": state,
                    "zip": zip_code,
                    "country": "US",
                },
                "phone_number": "+15550100001",
            }
        order = service.orders.create(
            msgspec.convert(body, NewOrder), idempotency_key=str(uuid.uuid4())
        )
        if low_status != "ordered":
            service.orders.simulate(
                order.data.id, f"received.{method}.{low_status}", flags=SimulationFlags()
            )
    return order.data.id


def book_visit_at_service(sandbox: Sandbox, order_id: UUID) -> None:
    """Book a home visit at a free time directly at the service, not through our pages."""
    with sandbox.service() as service:
        patient_address = service.orders.get(order_id).data.patient_address
        assert patient_address is not None
        address = VisitAddress(
            first_line=patient_address.first_line or "",
            city=patient_address.city or "",
            state=patient_address.state or "",
            zip_code=patient_address.zip or "",
            access_notes=patient_address.access_notes,
        )
        availability = service.appointments.phlebotomy_availability(address).data
        slots = [slot for day in availability.slots for slot in day.slots]
        service.appointments.book_phlebotomy(order_id, slots[len(slots) // 2].booking_key or "")
