"""Orders and order transactions as received. Interface: orders, chapters 3, 4, 8.5, 11.

A dotted status is ``<bucket>.<method>.<low level>``. Store it as received, and read it with
:func:`bucket`, :func:`method` and :func:`low_level`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from functools import lru_cache
from uuid import UUID

import msgspec
from msgspec import field

from backoffice.service.field_by_field import NULL
from backoffice.service.labs import LabPayload, MarkerPayload, PhysicianPayload
from backoffice.service.payload import Instant, Payload, Reader, Word, either, parse_day
from backoffice.service.users import Guarantor

_SAME_STATUS = {"testkit_registered": "registered"}


def bucket(status: str) -> str:
    """Return the first part of a dotted status, such as ``sample_with_lab`` (differences.md 57)."""
    return status.partition(".")[0]


def method(status: str) -> str | None:
    """Return the second part of a dotted status, such as ``testkit``; None without dots."""
    parts = status.split(".", 2)
    return parts[1] if len(parts) > 1 else None


@lru_cache(maxsize=1024)
def low_level(status: str) -> str:
    """Return the last part of a dotted status in one spelling.

    ``testkit_registered`` becomes ``registered`` (differences.md 58). A status without dots is its
    own low level.
    """
    last = status.split(".", 2)[-1]
    return _SAME_STATUS.get(last, last)


class OrderEventPayload(Payload):
    """One step of an order's history; ``status`` is dotted, as received."""

    id: int
    created_at: Instant
    status: str
    status_detail: str | None = None


class OrderAddress(Payload):
    """Patient or shipping address; ``zip`` and ``zip_code`` read both spellings."""

    receiver_name: str | None = None
    first_line: str | None = None
    second_line: str | None = None
    city: str | None = None
    state: str | None = None
    zip_sent: str | None = field(default=None, name="zip")
    zip_code_sent: str | None = field(default=None, name="zip_code")
    country: str | None = None
    access_notes: str | None = None
    phone_number: str | None = None

    @property
    def zip(self) -> str | None:
        return either(self.zip_sent, self.zip_code_sent)

    @property
    def zip_code(self) -> str | None:
        return self.zip


class PatientDetails(Payload):
    """The patient details of the order; income in USD."""

    first_name: str | None = None
    last_name: str | None = None
    dob_sent: str | None = field(default=None, name="dob")
    gender: str | None = None
    phone_number: str | None = None
    email: str | None = None
    medical_proxy: Guarantor | None = None
    race: str | None = None
    ethnicity: str | None = None
    sexual_orientation: str | None = None
    gender_identity: str | None = None
    household_income: float | None = None
    household_size: int | None = None

    @property
    def dob(self) -> date | None:
        """Return the date part of a value sent as date or date-time (differences.md 16)."""
        return parse_day(self.dob_sent)


class OrderLabTest(Payload):
    """The lab test of an order: all fields of a LabTest, or only name and method."""

    id: UUID | None = None
    slug: str | None = None
    name: str = ""
    description: str | None = None
    sample_type: str | None = None
    method: str = ""
    price: float | None = None
    is_active: bool | None = None
    status: str | None = None
    fasting: bool | None = None
    lab: LabPayload | None = None
    markers_sent: msgspec.Raw = field(default=NULL, name="markers")
    is_delegated: bool | None = None
    auto_generated: bool | None = None
    has_collection_instructions: bool | None = None
    common_tat_days: int | None = None
    worst_case_tat_days: int | None = None

    @property
    def markers(self) -> list[MarkerPayload]:
        """Return the markers; raises ValueError when they are malformed.

        They are decoded on demand, so that a page of orders does not spend time on them.
        """
        return _MARKERS.value(bytes(self.markers_sent)) or []


class Shipment(Payload):
    id: UUID | None = None
    outbound_tracking_number: str | None = None
    outbound_tracking_url: str | None = None
    inbound_tracking_number: str | None = None
    inbound_tracking_url: str | None = None
    outbound_courier: str | None = None
    inbound_courier: str | None = None
    notes: str | None = None
    created_at: Instant | None = None
    updated_at: Instant | None = None


class OrderDetailsData(Payload):
    """Details of an order.

    ``shipment`` is for kits, ``appointment_id`` for walk-in and at-home draws.
    """

    id: UUID | None = None
    created_at: Instant | None = None
    updated_at: Instant | None = None
    shipment: Shipment | None = None
    appointment_id: UUID | None = None


class OrderDetails(Payload):
    """Details of an order by collection method.

    ``type``: testkit, walk_in_test, at_home_phlebotomy, on_site_collection.
    """

    type: str = ""
    data: OrderDetailsData | None = None


class TransactionOrder(Payload):
    """An order in the list of its transaction.

    The status is sent as ``low_level_status`` or as ``last_status`` (differences.md 24). Both
    properties read both spellings.
    """

    id: UUID
    low_level_status_sent: str | None = field(default=None, name="low_level_status")
    last_status_sent: str | None = field(default=None, name="last_status")
    low_level_status_created_at_sent: Instant | None = field(
        default=None, name="low_level_status_created_at"
    )
    last_status_created_at_sent: Instant | None = field(default=None, name="last_status_created_at")
    origin: str | None = None
    parent_id: UUID | None = None
    created_at: Instant | None = None
    updated_at: Instant | None = None

    @property
    def last_status(self) -> str | None:
        return either(self.last_status_sent, self.low_level_status_sent)

    @property
    def low_level_status(self) -> str | None:
        return self.last_status

    @property
    def last_status_created_at(self) -> datetime | None:
        return either(self.last_status_created_at_sent, self.low_level_status_created_at_sent)

    @property
    def low_level_status_created_at(self) -> datetime | None:
        return self.last_status_created_at


class TransactionPayload(Payload):
    """Orders that belong together (initial, redraw, recreation).

    The short form inside an order has no ``team_id``.
    """

    id: UUID
    status: str = ""
    team_id: UUID | None = None
    orders: list[TransactionOrder] = field(default_factory=list)


class OrderPayload(Payload):
    """An order from a list, a read, or an event: always the whole record."""

    id: UUID
    user_id: UUID
    team_id: UUID
    created_at: Instant
    updated_at: Instant
    patient_details: PatientDetails | None = None
    patient_address: OrderAddress | None = None
    lab_test: OrderLabTest = field(default_factory=OrderLabTest)
    details: OrderDetails = field(default_factory=OrderDetails)
    sample_id: str | None = None
    notes: str | None = None
    clinical_notes: str | None = None
    events: list[OrderEventPayload] = field(default_factory=list)
    status: str | None = None
    last_event: OrderEventPayload | None = None
    physician: PhysicianPayload | None = None
    health_insurance_id: UUID | None = None
    requisition_form_url: msgspec.Raw = NULL
    priority: bool = False
    shipping_details: OrderAddress | None = None
    activate_by: date | None = None
    passthrough: str | None = None
    billing_type: str | None = None
    icd_codes: list[str] | None = None
    has_abn: bool = False
    interpretation: Word | None = None
    has_missing_results: bool | None = None
    expected_result_by_date: date | None = None
    worst_case_result_by_date: date | None = None
    origin: str | None = None
    order_transaction: TransactionPayload | None = None

    @property
    def volatile(self) -> Sequence[bytes]:
        link = bytes(self.requisition_form_url)
        return [link] if link not in (b"null", b'""') else []

    @property
    def latest_event(self) -> OrderEventPayload | None:
        """Return ``last_event`` or, when it was not sent, the newest event.

        The newest of ``events`` is found by time, then id.
        """
        if self.last_event is not None or not self.events:
            return self.last_event
        return max(self.events, key=lambda event: (event.created_at, event.id))


class CommunicationSettings(Payload):
    """Whether the service sends the patient text messages about an order."""

    order_id: UUID
    sms_enabled: bool


class ResentOrders(Payload):
    """The orders whose latest event will be delivered again."""

    order_ids: list[UUID]


COMMUNICATION: Reader[CommunicationSettings] = Reader(CommunicationSettings)
ORDER: Reader[OrderPayload] = Reader(OrderPayload)
RESENT: Reader[ResentOrders] = Reader(ResentOrders)
TRANSACTION: Reader[TransactionPayload] = Reader(TransactionPayload)
_MARKERS: Reader[list[MarkerPayload] | None] = Reader(list[MarkerPayload] | None)  # type: ignore[arg-type]
