"""Appointments and their history (appointments.md 5)."""

from __future__ import annotations

from datetime import date, datetime
from typing import Final

from django.contrib.postgres.indexes import OpClass
from django.db import models
from django.db.models import Q
from django.db.models.functions import Upper

from backoffice.core.models import FastModel
from backoffice.mirror.models import MirrorModel
from orders.appointment_zones import AppointmentZone, visit_zone
from orders.models.order import Order
from patients.models import mirrored_patient


def draw_day(start_at: datetime | None, zone: AppointmentZone) -> date | None:
    """Return the calendar date on which a draw begins, in the zone that its times are shown in."""
    return start_at.astimezone(zone.zone).date() if start_at else None


APPOINTMENT_FILTER_COLUMNS: Final = ("status", "type", "state")
"""Columns that filters of appointments use. They are included in the indexes that count
appointments, so that a count visits no row of the table.
"""


models.TextField.register_lookup(Upper)
ENDED_STATUSES: Final = ("completed", "cancelled")


class Appointment(MirrorModel):
    """One appointment for a draw.

    The service shows only the active appointment of an order. `superseded_at` marks earlier ones.
    """

    id = models.UUIDField(primary_key=True)
    user = mirrored_patient("appointments")
    order = models.ForeignKey(
        Order,
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        null=True,
        related_name="appointments",
    )
    order_transaction_id = models.UUIDField(null=True)
    type = models.TextField()
    provider = models.TextField()
    provider_id = models.TextField(default="")
    external_id = models.TextField(null=True)
    status = models.TextField()
    event_status = models.TextField()
    start_at = models.DateTimeField(null=True)
    end_at = models.DateTimeField(null=True)
    draw_day = models.DateField(
        null=True, help_text="Calendar date of the start in the zone that it is shown in"
    )
    iana_timezone = models.TextField(null=True)
    can_reschedule = models.BooleanField(default=False)
    appointment_notes = models.TextField(null=True)
    first_line = models.TextField(default="")
    second_line = models.TextField(default="")
    city = models.TextField(default="")
    state = models.TextField(default="")
    zip_code = models.TextField(default="")
    lng = models.FloatField(null=True)
    lat = models.FloatField(null=True)
    superseded_at = models.DateTimeField(null=True, default=None)

    class Meta:
        indexes = [
            models.Index(fields=["start_at", "id"], name="appointment_by_start"),
            models.Index(fields=["user", "-start_at"], name="appointment_of_patient"),
            # Reader: the day list, the week and the sheet of a day.
            models.Index(
                fields=["draw_day", "start_at", "id"],
                condition=Q(superseded_at=None),
                include=APPOINTMENT_FILTER_COLUMNS,
                name="appointment_by_day",
            ),
            # Reader: the filter by city.
            models.Index(
                Upper("city"),
                "draw_day",
                "start_at",
                "id",
                condition=Q(superseded_at=None),
                include=["status"],
                name="appointment_of_city",
            ),
            # Reader: the filter by provider, and the list of providers.
            models.Index(
                fields=["provider", "draw_day", "start_at", "id"],
                condition=Q(superseded_at=None),
                name="appointment_of_provider",
            ),
            # Reader: the filter by site.
            models.Index(
                fields=["provider_id", "draw_day", "start_at", "id"],
                condition=Q(superseded_at=None, type="patient_service_center"),
                name="appointment_of_site",
            ),
            # Reader: the filter by status; some are rare.
            models.Index(
                fields=["status", "draw_day", "start_at", "id"],
                condition=Q(superseded_at=None),
                name="appointment_of_status",
            ),
            # Reader: requests without a time.
            models.Index(
                fields=["as_of", "id"],
                condition=Q(superseded_at=None, start_at=None),
                include=APPOINTMENT_FILTER_COLUMNS,
                name="appointment_requested",
            ),
            # Reader: the search box, by the beginning of the lab's number.
            models.Index(
                OpClass(Upper("external_id"), name="text_pattern_ops"),
                condition=Q(external_id__isnull=False),
                name="appointment_by_number",
            ),
        ]

    @property
    def visit_zone(self) -> AppointmentZone:
        """Return the zone that its times are shown in, and how that zone is known."""
        return visit_zone(self.iana_timezone, self.state)

    @property
    def has_ended(self) -> bool:
        """Whether its own status, or that of its latest event, is final."""
        return self.status in ENDED_STATUSES or self.event_status in ENDED_STATUSES


class AppointmentEvent(FastModel):
    """One step of an appointment. Events carry no id; they are stored in the order received."""

    pk = models.CompositePrimaryKey("appointment_id", "position")
    appointment = models.ForeignKey(
        Appointment,
        on_delete=models.CASCADE,
        db_constraint=False,
        db_index=False,
        related_name="events",
    )
    position = models.PositiveSmallIntegerField()
    created_at = models.DateTimeField()
    status = models.TextField()
