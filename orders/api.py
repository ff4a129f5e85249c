"""JSON API of lab testing: orders, transactions, appointments, results."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from types import MappingProxyType
from typing import Any
from uuid import UUID

from django.db.models import Prefetch
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from backoffice.accounts.access import requires
from backoffice.api.filters import FilterSet, TextFilter
from backoffice.api.serializers import MIRROR_FIELDS, ColumnSerializer, MirrorSerializer
from backoffice.api.viewsets import ResourceViewSet
from backoffice.pages.lists.filters import UUIDFilter
from orders.appointment_zones import Basis, visit_zone
from orders.filters import OrderFilterSet
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
from patients.api import UserFilterSet


class OrderEventSerializer(ColumnSerializer):
    class Meta:
        model = OrderEvent
        fields = ("event_id", "created_at", "status", "low_level_status", "status_detail")


class OrderSerializer(MirrorSerializer):
    events = OrderEventSerializer(many=True, read_only=True, source="sorted_events")
    field_permissions = MappingProxyType(
        {
            **MirrorSerializer.field_permissions,
            "interpretation": "results.view",
            "interpretation_received": "results.view",
        }
    )

    class Meta:
        model = Order
        fields = (
            "id", "team_id", "user_id", "order_transaction_id", "parent_id", "created_at",
            "updated_at", "last_event_id", "last_event_at", "last_status", "status",
            "low_level_status", "status_detail", "method", "origin", "priority", "activate_by",
            "sample_id", "outbound_tracking_number", "inbound_tracking_number", "lab_test_id",
            "lab_test_name", "lab_slug", "billing_type", "interpretation",
            "interpretation_received", "has_missing_results", "has_abn",
            "expected_result_by_date", "worst_case_result_by_date", "passthrough",
            "patient_first_name", "patient_last_name", "patient_dob", "patient_gender",
            *MIRROR_FIELDS, "events",
        )  # fmt: skip


class OrderApiFilterSet(OrderFilterSet):
    status = TextFilter(help_text="First part of the dotted status, such as collecting_sample")
    low_level_status = TextFilter(help_text="Last part of the dotted status, such as transit_lab")


@requires("orders.view", "patients.view")
class OrderViewSet(ResourceViewSet):
    """An order with its status history (orders.md 3, 4)."""

    queryset = Order.objects.prefetch_related(
        Prefetch(
            "events", OrderEvent.objects.order_by("order_id", "event_id"), to_attr="sorted_events"
        )
    )
    serializer_class = OrderSerializer
    filterset_class = OrderApiFilterSet
    patient_field = "user_id"


class TransactionOrderSerializer(ColumnSerializer):
    class Meta:
        model = Order
        fields = ("id", "user_id", "parent_id", "origin", "low_level_status", "created_at")


class TransactionSerializer(MirrorSerializer):
    orders = TransactionOrderSerializer(many=True, read_only=True, source="sorted_orders")

    class Meta:
        model = Transaction
        fields = ("id", "status", *MIRROR_FIELDS, "orders")


class TransactionFilterSet(FilterSet):
    status = TextFilter(help_text="Such as active, completed or cancelled")


@requires("orders.view", "patients.view")
class TransactionViewSet(ResourceViewSet):
    """Orders that belong together (orders.md 8.5), each with its user."""

    queryset = Transaction.objects.prefetch_related(
        Prefetch(
            "orders",
            Order.objects.order_by("order_transaction_id", "created_at", "id").only(
                *TransactionOrderSerializer.Meta.fields, "order_transaction_id"
            ),
            to_attr="sorted_orders",
        )
    )
    serializer_class = TransactionSerializer
    filterset_class = TransactionFilterSet
    patient_field = "orders"

    def get_patients(self, items: Iterable[dict[str, Any]]) -> Iterable[UUID | None]:
        return (order["user_id"] for item in items for order in item["orders"])


class AppointmentEventSerializer(ColumnSerializer):
    class Meta:
        model = AppointmentEvent
        fields = ("created_at", "status")


class AppointmentSerializer(MirrorSerializer):
    events = AppointmentEventSerializer(many=True, read_only=True, source="sorted_events")
    time_zone = serializers.SerializerMethodField(
        help_text="The zone to show its times in: `iana_timezone` where that is usable, "
        "else that of the state, else UTC"
    )
    time_zone_basis = serializers.SerializerMethodField(help_text="How `time_zone` is known")

    class Meta:
        model = Appointment
        fields = (
            "id", "user_id", "order_id", "order_transaction_id", "type", "provider", "provider_id",
            "external_id", "status", "event_status", "start_at", "end_at", "iana_timezone",
            "can_reschedule", "appointment_notes", "first_line", "second_line", "city", "state",
            "zip_code", "lng", "lat", "superseded_at", *MIRROR_FIELDS, "events", "time_zone",
            "time_zone_basis",
        )  # fmt: skip

    def get_time_zone(self, appointment: Appointment) -> str:
        return visit_zone(appointment.iana_timezone, appointment.state).name

    @extend_schema_field(serializers.ChoiceField([basis.value for basis in Basis]))
    def get_time_zone_basis(self, appointment: Appointment) -> str:
        return visit_zone(appointment.iana_timezone, appointment.state).basis.value


class AppointmentApiFilterSet(UserFilterSet):
    order_id = UUIDFilter(help_text="Only appointments of this order")
    status = TextFilter(help_text="Such as pending, confirmed or cancelled")


@requires("appointments.view", "patients.view")
class AppointmentViewSet(ResourceViewSet):
    """An appointment with its history (appointments.md 5).

    The service shows only the active one of an order; `superseded_at` is set on earlier ones.
    """

    queryset = Appointment.objects.prefetch_related(
        Prefetch(
            "events",
            AppointmentEvent.objects.order_by("appointment_id", "position"),
            to_attr="sorted_events",
        )
    )
    serializer_class = AppointmentSerializer
    filterset_class = AppointmentApiFilterSet
    patient_field = "user_id"


class ResultMarkerSerializer(ColumnSerializer):
    class Meta:
        model = ResultMarker
        fields = (
            "is_missing", "name", "slug", "text", "value", "type", "unit", "timestamp",
            "timestamp_written", "reference_range", "min_range_value", "max_range_value",
            "is_above_max_range", "is_below_min_range", "interpretation", "interpretation_received",
            "source_interpretation", "side", "loinc", "loinc_slug", "provider_id", "notes",
            "failure_type", "is_unreadable", "unreadable_fields",
        )  # fmt: skip


class ResultSerializer(MirrorSerializer):
    id = serializers.UUIDField(source="order_id", read_only=True)
    # Not a join: the mirror may have a result before it has the order.
    user_id = serializers.ReadOnlyField(source="order.user_id", allow_null=True)
    identity = serializers.SerializerMethodField(
        allow_null=True,
        help_text="same, different or unknown: the person on the result",
    )
    markers = ResultMarkerSerializer(many=True, read_only=True, source="sorted_markers")
    newer_version_unreadable = serializers.SerializerMethodField(
        help_text="A newer version of this result came and could not be read"
    )

    class Meta:
        model = Result
        fields = (
            "id", "order_id", "status", "interpretation", "interpretation_received", "laboratory",
            "specimen_number", "date_collected", "date_received", "date_reported", "returned",
            "missing", "unreadable_lines", "unreadable_fields", *MIRROR_FIELDS, "user_id",
            "identity", "markers", "newer_version_unreadable",
        )  # fmt: skip

    def get_identity(self, result: Result) -> str | None:
        return self._identities.get(result.pk)

    def get_newer_version_unreadable(self, result: Result) -> bool:
        return result.pk in self._unreadable

    @cached_property
    def _identities(self) -> dict[UUID, str]:
        reviews = Review.objects.filter(order_id__in=self.row_keys())
        return dict(reviews.values_list("order_id", "identity"))

    @cached_property
    def _unreadable(self) -> set[UUID]:
        return unreadable_versions.unreadable_among(self.row_keys())


class ResultApiFilterSet(FilterSet):
    user_id = UUIDFilter("order__user_id", help_text="Only results of this user")
    order_id = UUIDFilter(help_text="Only the result of this order")
    status = TextFilter(help_text="Such as partial or final")


@requires("results.view", "patients.view")
class ResultViewSet(ResourceViewSet):
    """The result of an order with its lines (orders.md 8); `id` is the order's."""

    queryset = Result.objects.prefetch_related(
        Prefetch("order", Order.objects.only("user_id")),
        Prefetch(
            "markers",
            ResultMarker.objects.order_by("result_id", "position"),
            to_attr="sorted_markers",
        ),
    )
    serializer_class = ResultSerializer
    filterset_class = ResultApiFilterSet
    patient_field = "user_id"
