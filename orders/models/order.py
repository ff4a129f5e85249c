"""Orders, their status history, and the transactions that group them (orders.md 3, 4, 8.5)."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.contrib.postgres.indexes import BrinIndex, OpClass
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext

from backoffice.core import vocabulary
from backoffice.core.generated_fields import GeneratedForeignKey
from backoffice.core.identifiers import IdentifierKey
from backoffice.core.models import FastModel
from backoffice.mirror.models import MirrorModel
from orders.models.name import OrderName
from orders.models.order_queryset import OrderQuerySet
from patients.models import mirrored_patient

CANCELED_STATUSES: Final = frozenset({"cancelled", "do_not_process"})
"""Statuses of canceled orders, whether staff or somebody else canceled them."""

EXCEPTION_STATUSES: Final[dict[str, tuple[str, ...]]] = {
    "lost": ("lost", "sample_error"),
    "stuck": ("lab_processing_blocked",),
    "delivery": (
        "problem_in_transit_customer",
        "problem_in_transit_lab",
        "failure_to_deliver_to_customer",
        "failure_to_deliver_to_lab",
    ),
    "draw": ("redraw_available", "appointment_cancelled"),
}
"""Statuses that need a person, by the kind of work."""

OTHER_EXCEPTIONS: Final = Q(bucket=vocabulary.NEEDS_ACTION) & ~Q(
    low_level_status__in=tuple(
        status for statuses in EXCEPTION_STATUSES.values() for status in statuses
    )
)
"""Orders in the bucket because staff chose it for an unknown status (`orders.decided_statuses`)."""

CAN_GO_QUIET: Final = (
    vocabulary.PREPARING,
    vocabulary.WITH_PATIENT,
    vocabulary.ON_THE_WAY,
    vocabulary.AT_LAB,
)
"""Buckets of orders that are on their way to a result."""


BOOKABLE_STATUSES: Final = ("requisition_bypassed", "requisition_created")
"""Statuses of an order with complete paperwork, so that its draw can be booked."""


LIST_FILTER_COLUMNS: Final = (
    *("bucket", "low_level_status", "method", "interpretation", "lab_slug"),
    *("names", "quiet_at", "activate_by"),
)
"""Columns that lists are filtered by. Each index for a sort of a list has them after its key.

A list is read along the index of its sort until a page is full. Where few rows match the filter, or
where the first match is far from the start (open orders, oldest first), PostgreSQL would visit the
table for each row: seconds at a million orders. With these columns in the index, PostgreSQL skips
rows inside the index, and visits the table only for the rows that are shown. This works for every
filter with every sort; one index for each pair would take thirty indexes. Extended statistics over
these columns (`order_kinds`) give PostgreSQL the values that occur together.
"""


def _list_index(name: str, *key: str, **options: Any) -> models.Index:
    """Return an index for a sort, followed by the columns that lists are filtered by."""
    key_columns = [column.removeprefix("-") for column in key]
    moments = [column for column in ("created_at", "updated_at") if column not in key_columns]
    filters = [column for column in LIST_FILTER_COLUMNS if column not in key_columns]
    return models.Index(fields=[*key, *moments, *filters], name=name, **options)


class Transaction(MirrorModel):
    """A group of orders: an initial order with its redraws and recreations."""

    id = models.UUIDField(primary_key=True)
    status = models.TextField()


class Order(MirrorModel):
    """One order. `status` and `low_level_status` are parts of the latest event's dotted status."""

    id = models.UUIDField(primary_key=True)
    team_id = models.UUIDField()
    user = mirrored_patient("orders")
    order_transaction = models.ForeignKey(
        Transaction,
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        null=True,
        related_name="orders",
    )
    parent_id = models.UUIDField(null=True, help_text="The order this one redraws or recreates")
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()
    last_event_id = models.BigIntegerField(default=0)
    last_event_at = models.DateTimeField(null=True)
    quiet_at = models.DateTimeField(
        null=True, help_text="When it is over its usual time (`orders.turnaround`); null: never"
    )
    last_status = models.TextField(default="", help_text="Dotted, as received")
    status = models.TextField(default="")
    low_level_status = models.TextField(default="")
    status_detail = models.TextField(null=True)
    bucket = models.TextField(help_text="Working bucket, from `vocabulary.order_bucket`")
    method = models.TextField(default="")
    origin = models.TextField(null=True)
    priority = models.BooleanField(default=False)
    activate_by = models.DateField(null=True)
    sample_id = models.TextField(null=True)
    outbound_tracking_number = models.TextField(null=True, help_text="Of the parcel to the patient")
    inbound_tracking_number = models.TextField(null=True, help_text="Of the parcel to the lab")
    lab_test_id = models.UUIDField(null=True)
    lab_test_name = models.TextField(default="")
    lab_slug = models.TextField(null=True)
    billing_type = models.TextField(null=True)
    interpretation = models.TextField(
        null=True, help_text="The worse of the two below; a trigger sets it where there is a result"
    )
    service_interpretation = models.TextField(
        null=True, help_text="Our reading of the order's word"
    )
    result_interpretation = models.TextField(null=True, help_text="That of its result")
    interpretation_received = models.TextField(
        null=True, help_text="The order's word, where it is not the reading"
    )
    has_missing_results = models.BooleanField(null=True)
    has_abn = models.BooleanField(null=True)
    expected_result_by_date = models.DateField(null=True)
    worst_case_result_by_date = models.DateField(null=True)
    passthrough = models.TextField(null=True)
    patient_first_name = models.TextField(default="")
    patient_last_name = models.TextField(default="")
    patient_name = models.TextField(default="", help_text="First and last name, folded")
    patient_dob = models.DateField(null=True)
    patient_gender = models.TextField(default="")
    patient_phone = models.TextField(
        default="", db_default="", help_text="The patient's, or else of the address in their name"
    )
    patient_email = models.TextField(default="", db_default="")
    recipient_name = models.TextField(default="", help_text="Shipping recipient, folded")
    names = GeneratedForeignKey(
        OrderName,
        on_delete=models.DO_NOTHING,
        expression=r"hashtextextended(patient_name || E'\n' || recipient_name, 0)",
        db_constraint=False,
        db_index=False,
        related_name="orders",
        help_text="Both of them",
    )

    # `order_with_move` sets these: the last move to another patient, and the transaction.
    last_move: int | None = None
    moved_from: UUID | None = None
    moved_name: str | None = None
    moved_at: datetime | None = None
    move_waits: bool | None = None
    transaction_status: str | None = None

    objects = OrderQuerySet.as_manager()

    class Meta:
        indexes = [
            _list_index("order_newest", "-created_at", "-id"),
            _list_index("order_last_updated", "-updated_at", "-id"),
            _list_index("order_by_patient_name", "patient_name", "id"),
            _list_index("order_by_status", "low_level_status", "created_at", "id"),
            _list_index("order_by_bucket", "bucket", "-updated_at", "-id"),
            # Reader: the API's filter by the first part of the status.
            models.Index(fields=["status", "id"], name="order_by_stage"),
            _list_index("order_by_method", "method", "-created_at", "-id"),
            # Readers: the page of a patient; the search box, which counts the open orders of many
            # patients.
            models.Index(
                fields=["user", "-created_at"], include=["id", "bucket"], name="order_of_patient"
            ),
            models.Index(fields=["patient_dob"], name="order_patient_dob"),
            BrinIndex(fields=["as_of"], name="order_as_of"),
            # Readers: the groups of the exception queue (`orders.exceptions.queue`). With the
            # included columns, a count decides inside the index whether an order is in the queue.
            *(
                models.Index(
                    fields=["quiet_at", "id"],
                    condition=Q(low_level_status__in=statuses),
                    include=["last_event_id", "missing_since"],
                    name=f"exception_{name}",
                )
                for name, statuses in EXCEPTION_STATUSES.items()
            ),
            models.Index(
                fields=["quiet_at", "id"],
                condition=OTHER_EXCEPTIONS,
                include=["last_event_id", "missing_since"],
                name="exception_other",
            ),
            # Readers: the same queue, and lists of overdue orders with any sort, also of one lab.
            _list_index(
                "exception_quiet",
                "quiet_at",
                "id",
                condition=Q(quiet_at__isnull=False),
                include=["last_event_id", "missing_since"],
            ),
            _list_index(
                "order_quiet_of_lab", "lab_slug", "id", condition=Q(quiet_at__isnull=False)
            ),
            # Readers: imports, which find a sample ID in any spelling; `search_conditions`, which
            # finds its beginning.
            models.Index(
                OpClass(IdentifierKey("sample_id"), name="text_pattern_ops"),
                condition=Q(sample_id__isnull=False),
                name="order_sample",
            ),
            # Reader: `search_conditions`, by the beginning of a courier's number.
            *(
                models.Index(
                    OpClass(IdentifierKey(f"{way}_tracking_number"), name="text_pattern_ops"),
                    condition=Q(**{f"{way}_tracking_number__isnull": False}),
                    name=f"order_{way}_parcel",
                )
                for way in ("outbound", "inbound")
            ),
            # Reader: appointments to book. In these statuses only a draw is missing.
            models.Index(
                fields=["method", "created_at", "id"],
                condition=Q(low_level_status__in=BOOKABLE_STATUSES),
                include=["missing_since"],
                name="order_to_book",
            ),
            # Readers: the filters `interpretation` and `is_critical`. Most results are normal.
            _list_index(
                "order_rare_interpretation",
                "interpretation",
                "-created_at",
                "-id",
                condition=Q(interpretation__isnull=False) & ~Q(interpretation="normal"),
            ),
            # Reader: `orders.results.rereading`, orders with a word that was ranked.
            models.Index(
                fields=["interpretation_received"],
                condition=Q(interpretation_received__isnull=False),
                name="order_odd_interpretation",
            ),
            models.Index(
                fields=["activate_by"],
                condition=Q(activate_by__isnull=False),
                name="order_scheduled",
            ),
            _list_index("order_of_name", "names", "id"),
        ]

    @property
    def patient_full_name(self) -> str:
        return f"{self.patient_first_name} {self.patient_last_name}".strip()

    @property
    def patient_label(self) -> str:
        """The patient's name, or "No patient" and the test, as for an unregistered kit."""
        unnamed = filter(None, (gettext("No patient"), self.lab_test_name))
        return self.patient_full_name or ", ".join(unnamed)

    def quiet_since(self, now: datetime) -> datetime | None:
        """Return when the order became overdue, or None.

        An order that needs a person already is not reported as overdue.
        """
        is_over = self.quiet_at is not None and self.quiet_at <= now
        return self.quiet_at if is_over and self.bucket in CAN_GO_QUIET else None

    def was_canceled(self) -> bool:
        """Whether the order was ever canceled.

        A canceled order stays canceled, even if an event of its appointment arrives later.
        """
        if self.low_level_status in CANCELED_STATUSES:
            return True
        return OrderEvent.objects.filter(
            order_id=self.pk, low_level_status__in=CANCELED_STATUSES
        ).exists()


class OrderEvent(FastModel):
    """One step of the history of an order. Rows are added, never changed."""

    pk = models.CompositePrimaryKey("order_id", "event_id")
    order = models.ForeignKey(
        Order,
        on_delete=models.CASCADE,
        db_constraint=False,
        db_index=False,
        related_name="events",
    )
    event_id = models.BigIntegerField(help_text="The service's id of the event")
    created_at = models.DateTimeField()
    status = models.TextField(help_text="Dotted, as received")
    low_level_status = models.TextField()
    status_detail = models.TextField(null=True)
