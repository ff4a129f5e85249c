"""States of orders and their parts: plain records, filled from rows or made by seeding.

Attribute names are the column names of `sandbox.models`: `order_store` copies them one by one.
"""

from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any


@dataclass(slots=True)
class EventState:
    """An order event; `id` 0 until it is stored."""

    created_at: datetime
    status: str
    status_detail: str | None = None
    id: int = 0
    stored: bool = False


@dataclass(slots=True)
class AppointmentEventState:
    created_at: datetime
    status: str
    data: dict[str, Any] | None = None
    stored: bool = False


@dataclass(slots=True)
class AppointmentState:
    id: str
    user_id: str
    type: str
    provider: str
    provider_id: str
    first_line: str
    second_line: str | None
    city: str
    state: str
    zip_code: str
    access_notes: str | None
    lng: float
    lat: float
    iana_timezone: str | None
    is_current: bool = True
    external_id: str | None = None
    site_id: int | None = None
    start_at: datetime | None = None
    end_at: datetime | None = None
    status: str = "pending"
    event_status: str = "pending"
    event_data: dict[str, Any] | None = None
    can_reschedule: bool = True
    appointment_notes: str | None = None
    events: list[AppointmentEventState] = field(default_factory=list)
    changed: bool = True


@dataclass(slots=True)
class ShipmentState:
    id: str
    created_at: datetime
    updated_at: datetime
    outbound_tracking_number: str | None = None
    outbound_tracking_url: str | None = None
    inbound_tracking_number: str | None = None
    inbound_tracking_url: str | None = None
    outbound_courier: str | None = None
    inbound_courier: str | None = None
    notes: str | None = None


@dataclass(slots=True)
class SiblingState:
    """Another order of the same transaction (orders.md 3, `order_transaction`)."""

    id: str
    low_level_status: str
    low_level_status_created_at: datetime
    origin: str
    parent_id: str | None
    created_at: datetime
    updated_at: datetime


@dataclass(slots=True)
class OrderState:
    """An order with everything its record shows. `siblings` are the other orders of the group."""

    number: int
    id: str
    team_id: str
    seq: int
    user_id: str
    lab_test_id: str
    lab_account_id: str | None
    transaction_id: str
    origin: str
    parent_id: str | None
    method: str
    registrable: bool
    imported: bool
    created_at: datetime
    updated_at: datetime
    status: str
    low_level_status: str
    status_detail: str | None
    last_event_at: datetime
    next_at: datetime | None
    step: int
    patient_name: str
    patient_dob: date | None
    recipient_name: str
    zip_code: str
    billing_type: str
    activate_by: date | None
    sample_id: str | None
    has_requisition: bool
    has_abn: bool
    sms_enabled: bool
    details_id: str
    details_updated_at: datetime
    collected_at: datetime | None = None
    interpretation: str | None = None
    has_missing_results: bool | None = None
    result_status: str | None = None
    result_version: int = 0
    expected_result_by_date: date | None = None
    worst_case_result_by_date: date | None = None
    fixed_part: str = ""
    moving_part: str = ""
    transaction_status: str = "active"
    events: list[EventState] = field(default_factory=list)
    siblings: list[SiblingState] = field(default_factory=list)
    appointment: AppointmentState | None = None
    past_appointments: list[AppointmentState] = field(default_factory=list)
    shipment: ShipmentState | None = None
    planned: str | None = None
    """The next step, if it was just chosen; None: choose it again, with the same outcome."""

    def as_sibling(self) -> SiblingState:
        return SiblingState(
            self.id,
            self.low_level_status,
            self.last_event_at,
            self.origin,
            self.parent_id,
            self.created_at,
            self.updated_at,
        )


ORDER_COLUMNS = tuple(OrderState.__dataclass_fields__)[:42]
APPOINTMENT_COLUMNS = tuple(AppointmentState.__dataclass_fields__)[:-2]
SHIPMENT_COLUMNS = tuple(ShipmentState.__dataclass_fields__)
assert ORDER_COLUMNS[-1] == "moving_part"
