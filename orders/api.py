"""JSON API of lab testing: orders, transactions, appointments, results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import MappingProxyType
from typing import Any, ClassVar
from uuid import UUID

from rest_framework import serializers
from rest_framework.request import Request

from backoffice.accounts.access import requires
from backoffice.api.resources import ChildRows, Resource, exactly
from orders.appointment_zones import Basis, visit_zone
from orders.models import (
    Appointment,
    AppointmentEvent,
    Order,
    OrderEvent,
    Result,
    ResultMarker,
    Review,
    Transaction,
)
from orders.results import unreadable_versions
from patients.api import USER_FILTER


@requires("orders.view", "patients.view")
class Orders(Resource):
    """An order with its status history (orders.md 3, 4)."""

    model = Order
    patient = "user_id"
    guarded: ClassVar = dict.fromkeys(("interpretation", "interpretation_received"), "results.view")
    columns = (
        "team_id",
        "user_id",
        "order_transaction_id",
        "parent_id",
        "created_at",
        "updated_at",
        "last_event_id",
        "last_event_at",
        "last_status",
        "status",
        "low_level_status",
        "status_detail",
        "method",
        "origin",
        "priority",
        "activate_by",
        "sample_id",
        "lab_test_id",
        "lab_test_name",
        "lab_slug",
        "billing_type",
        "interpretation",
        "interpretation_received",
        "has_missing_results",
        "has_abn",
        "expected_result_by_date",
        "worst_case_result_by_date",
        "passthrough",
        "patient_first_name",
        "patient_last_name",
        "patient_dob",
        "patient_gender",
    )
    children = (
        ChildRows(
            "events",
            OrderEvent,
            "order_id",
            ("event_id", "created_at", "status", "low_level_status", "status_detail"),
            order=("order_id", "event_id"),
        ),
    )
    filters = (
        USER_FILTER,
        exactly("status", str, "First part of the dotted status, such as collecting_sample"),
        exactly("low_level_status", str, "Last part of the dotted status, such as transit_lab"),
        exactly("order_transaction_id", UUID, "Only orders of this transaction"),
    )


@requires("orders.view", "patients.view")
class Transactions(Resource):
    """Orders that belong together (orders.md 8.5), each with its user."""

    model = Transaction
    patient = "orders"
    columns = ("status",)
    children = (
        ChildRows(
            "orders",
            Order,
            "order_transaction_id",
            ("id", "user_id", "parent_id", "origin", "low_level_status", "created_at"),
            order=("order_transaction_id", "created_at", "id"),
        ),
    )
    filters = (exactly("status", str, "Such as active, completed or cancelled"),)

    def patients_of(self, items: Iterable[dict[str, Any]]) -> Iterable[UUID | None]:
        return (order["user_id"] for item in items for order in item["orders"])


@requires("appointments.view", "patients.view")
class Appointments(Resource):
    """An appointment with its history (appointments.md 5).

    The service shows only the active one of an order; `superseded_at` is set on earlier ones.
    """

    model = Appointment
    patient = "user_id"
    added = MappingProxyType(
        {
            "time_zone": lambda: serializers.CharField(
                help_text="The zone to show its times in: `iana_timezone` where that is usable, "
                "else that of the state, else UTC"
            ),
            "time_zone_basis": lambda: serializers.ChoiceField(
                [basis.value for basis in Basis], help_text="How `time_zone` is known"
            ),
        }
    )
    columns = (
        "user_id",
        "order_id",
        "order_transaction_id",
        "type",
        "provider",
        "provider_id",
        "external_id",
        "status",
        "event_status",
        "start_at",
        "end_at",
        "iana_timezone",
        "can_reschedule",
        "appointment_notes",
        "first_line",
        "second_line",
        "city",
        "state",
        "zip_code",
        "lng",
        "lat",
        "superseded_at",
    )
    children = (
        ChildRows(
            "events",
            AppointmentEvent,
            "appointment_id",
            ("created_at", "status"),
            order=("appointment_id", "position"),
        ),
    )
    filters = (
        USER_FILTER,
        exactly("order_id", UUID, "Only appointments of this order"),
        exactly("status", str, "Such as pending, confirmed or cancelled"),
    )

    def _items(self, request: Request, rows: Sequence[tuple[Any, ...]]) -> list[dict[str, Any]]:
        items = super()._items(request, rows)
        for item in items:
            zone = visit_zone(item["iana_timezone"], item["state"])
            item |= {"time_zone": zone.name, "time_zone_basis": zone.basis.value}
        return items


@requires("results.view", "patients.view")
class Results(Resource):
    """The result of an order with its lines (orders.md 8); `id` is the order's."""

    model = Result
    patient = "user_id"
    added = MappingProxyType(
        {
            "newer_version_unreadable": lambda: serializers.BooleanField(
                help_text="A newer version of this result came and could not be read"
            )
        }
    )
    columns = (
        "order_id",
        "status",
        "interpretation",
        "interpretation_received",
        "laboratory",
        "specimen_number",
        "date_collected",
        "date_received",
        "date_reported",
        "returned",
        "missing",
        "unreadable_lines",
        "unreadable_fields",
    )
    children = (
        # Not a join: the mirror may have a result before it has the order.
        ChildRows("user_id", Order, "id", ("user_id",), many=False),
        # Whether the result names the patient of the order: same, different or unknown.
        ChildRows("identity", Review, "order_id", ("identity",), many=False),
        ChildRows(
            "markers",
            ResultMarker,
            "result_id",
            (
                "is_missing",
                "name",
                "slug",
                "text",
                "value",
                "type",
                "unit",
                "timestamp",
                "timestamp_written",
                "reference_range",
                "min_range_value",
                "max_range_value",
                "is_above_max_range",
                "is_below_min_range",
                "interpretation",
                "interpretation_received",
                "source_interpretation",
                "side",
                "loinc",
                "loinc_slug",
                "provider_id",
                "notes",
                "failure_type",
                "is_unreadable",
                "unreadable_fields",
            ),
            order=("result_id", "position"),
        ),
    )
    filters = (
        exactly("user_id", UUID, "Only results of this user", "order__user_id"),
        exactly("order_id", UUID, "Only the result of this order"),
        exactly("status", str, "Such as partial or final"),
    )

    def _items(self, request: Request, rows: Sequence[tuple[Any, ...]]) -> list[dict[str, Any]]:
        items = super()._items(request, rows)
        unreadable = unreadable_versions.unreadable_among([item["order_id"] for item in items])
        for item in items:
            item["newer_version_unreadable"] = item["order_id"] in unreadable
        return items
