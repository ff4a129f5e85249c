"""Admin pages of orders and their records, as the service sent them."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from django.contrib.admin import register
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.translation import gettext, gettext_noop

from backoffice.admin import RecordAdmin, site
from backoffice.admin.records import MAX_FETCHED, LookupKeys
from backoffice.pages.paging.pages import Sort
from orders.handlers import LOOKUP_KIND_BY_TYPE
from orders.models import Appointment, Order, Result, Transaction, UnmatchedResult
from orders.sync.orders import LOOKUP_KIND_BY_METHOD


@register(Order, site=site)
class OrderAdmin(RecordAdmin):
    words = gettext_noop("Newest first")
    topic = "order"
    patient = "user_id"
    needs = ("orders.view", "patients.view", "records.view")
    sort = Sort(("created_at", "id"), descending=True)
    list_display = (
        "id",
        "created_at",
        "low_level_status",
        "bucket",
        "lab_test_name",
        "missing_since",
    )
    searched = ("pk", "sample_id")
    identifiers = ("sample_id",)
    search_hint = gettext_noop("Full ID or sample ID")

    def reasons(self, row: Order) -> LookupKeys:
        return {"orders": [row.pk]}

    def lead(self, row: Order) -> tuple[str, str]:
        return reverse("orders:detail", args=[row.pk]), gettext("Open order")


@register(Transaction, site=site)
class TransactionAdmin(RecordAdmin):
    words = gettext_noop("Orders that belong together")
    topic = "transaction"
    needs = ("orders.view", "records.view")
    list_display = ("id", "status", "as_of", "missing_since")

    def reasons(self, row: Transaction) -> LookupKeys:
        """Return lookups of its orders: the service sends a transaction with each of its orders."""
        return {"orders": list(row.orders.order_by().values_list("pk", flat=True)[:MAX_FETCHED])}


@register(Appointment, site=site)
class AppointmentAdmin(RecordAdmin):
    words = gettext_noop("Draws, including earlier ones")
    topic = "appointment"
    patient = "user_id"
    needs = ("appointments.view", "patients.view", "records.view")
    list_display = ("id", "order_id", "type", "status", "start_at", "superseded_at")
    searched = ("pk", "order")
    search_hint = gettext_noop("Full ID or the order’s ID")

    def reasons(self, row: Appointment) -> LookupKeys:
        kind = LOOKUP_KIND_BY_TYPE.get(row.type)
        return {
            lookup_kind: [row.order_id]
            for lookup_kind in ([kind] if kind else LOOKUP_KIND_BY_METHOD.values())
        }

    def lead(self, row: Appointment) -> tuple[str, str]:
        if row.order_id is None:
            return "", ""
        return reverse("orders:detail", args=[row.order_id]), gettext("Open order")


@register(Result, site=site)
class ResultAdmin(RecordAdmin):
    words = gettext_noop("Current results")
    topic = "result"
    needs = ("results.view", "patients.view", "records.view")
    sort = Sort(("order",))
    list_display = ("order_id", "status", "interpretation", "returned", "missing", "as_of")
    search_hint = gettext_noop("The order’s full ID")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Model]:
        rows = super().get_queryset(request).select_related("order")
        return rows.defer("record", "content_hash", "order__record", "order__content_hash")

    def patients_of(self, rows: Iterable[Result]) -> list[UUID | None]:
        return [row.order.user_id if row.order else None for row in rows]

    def reasons(self, row: Result) -> LookupKeys:
        return {"results": [row.pk]}

    def lead(self, row: Result) -> tuple[str, str]:
        return reverse("reviewing:report", args=[row.pk]), gettext("Open result")


@register(UnmatchedResult, site=site)
class UnmatchedResultAdmin(RecordAdmin):
    words = gettext_noop("Results that match no order")
    topic = "unmatched result"
    needs = ("results.match", "patients.view", "records.view")
    list_display = ("id", "status", "lab_name", "created_at", "missing_since")
    patient = "resolved_user_id"

    def reasons(self, row: UnmatchedResult) -> LookupKeys:
        return {"unmatched": [row.pk]}

    def lead(self, row: UnmatchedResult) -> tuple[str, str]:
        return reverse("unmatched:detail", args=[row.pk]), gettext("Open unmatched result")
