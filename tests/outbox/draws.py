"""Orders that wait for a draw: placed at the sandbox for a test, mirrored at once."""

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
from tests.outbox.desk import Desk
from tests.sandboxes import Sandbox

PLACES: Final = {
    "85004": ("Phoenix", "AZ"),
    "85281": ("Tempe", "AZ"),
    "54650": ("Onalaska", "WI"),
    "10001": ("New York", "NY"),
    "98101": ("Seattle", "WA"),
}
TESTS: Final = {
    "at_home_phlebotomy": "Home Visit Wellness",
    "walk_in_test": "Liver Screen",
    "testkit": "Heart Kit",
    "on_site_collection": "Clinic Draw Basic",
}
_NUMBERS = itertools.count(1)


def waiting(
    desk: Desk, method: str = "at_home_phlebotomy", zip_code: str = "85004", **more: Any
) -> Order:
    """An order of a made-up person of its own, or of `user`, as the mirror has it."""
    placed_id = placed(desk.sandbox, method, zip_code, **more)
    with desk.sandbox.service() as service:
        store_orders([service.orders.get(placed_id)])
    return Order.objects.get(pk=placed_id)


def placed(
    sandbox: Sandbox,
    method: str = "at_home_phlebotomy",
    zip_code: str = "85004",
    *,
    low: str = "requisition_created",
    born: date = date(1980, 5, 6),
    user: UUID | None = None,
    test: str = "",
    name: str = "Nora",
) -> UUID:
    """A new order at the sandbox, in the state `low`."""
    with sandbox.service() as service:
        number = next(_NUMBERS)
        reference = f"draw-{number}-{uuid.uuid4().hex[:8]}"
        user = user or service.users.create(NewUser(client_user_id=reference)).data.user_id
        city, state = PLACES[zip_code]
        wanted = sandbox.query(
            "SELECT id::text FROM sandbox_labtest WHERE name = %s", [test or TESTS[method]]
        )
        body: dict[str, Any] = {
            "user_id": str(user),
            "order_set": {"lab_test_ids": [wanted[0][0]]},
            "physician": {"first_name": "Ada", "last_name": "Madeup", "npi": "1900000011"},
            "patient_details": {
                "first_name": name,
                "last_name": "Notreal",
                "dob": born.isoformat(),
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
        if born.year > 2009:
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
        made = service.orders.create(
            msgspec.convert(body, NewOrder), idempotency_key=str(uuid.uuid4())
        )
        if low != "ordered":
            service.orders.simulate(
                made.data.id, f"received.{method}.{low}", flags=SimulationFlags()
            )
    return made.data.id


def booked_there(sandbox: Sandbox, order_id: UUID) -> None:
    """A visit at home on one of its free times, booked behind our back."""
    with sandbox.service() as service:
        there = service.orders.get(order_id).data.patient_address
        assert there is not None
        address = VisitAddress(
            first_line=there.first_line or "",
            city=there.city or "",
            state=there.state or "",
            zip_code=there.zip or "",
            access_notes=there.access_notes,
        )
        found = service.appointments.phlebotomy_availability(address).data
        slots = [slot for day in found.slots for slot in day.slots]
        service.appointments.book_phlebotomy(order_id, slots[len(slots) // 2].booking_key or "")
