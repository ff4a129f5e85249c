"""Appointments and their events (appointments.md 5)."""

from django.db import models


class Appointment(models.Model):
    """An appointment of an order; several over time, one at most `is_current`: the one shown."""

    id = models.UUIDField(primary_key=True)
    order = models.ForeignKey("Order", models.CASCADE, related_name="appointments")
    user = models.ForeignKey("User", models.PROTECT)
    is_current = models.BooleanField(default=True)
    type = models.CharField(max_length=24)
    provider = models.CharField(max_length=40)
    provider_id = models.CharField(max_length=40)
    external_id = models.CharField(max_length=40, null=True)
    site = models.ForeignKey("PscSite", models.PROTECT, null=True)
    first_line = models.CharField(max_length=200)
    second_line = models.CharField(max_length=200, null=True)
    city = models.CharField(max_length=100)
    state = models.CharField(max_length=2)
    zip_code = models.CharField(max_length=10)
    access_notes = models.CharField(max_length=1000, null=True)
    lng = models.FloatField()
    lat = models.FloatField()
    start_at = models.DateTimeField(null=True)
    end_at = models.DateTimeField(null=True)
    iana_timezone = models.CharField(max_length=64, null=True)
    status = models.CharField(max_length=16)
    event_status = models.CharField(max_length=16)
    event_data = models.JSONField(null=True)
    can_reschedule = models.BooleanField(default=True)
    appointment_notes = models.CharField(max_length=1000, null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["order"],
                condition=models.Q(is_current=True),
                name="appointment_one_current",
            ),
            models.CheckConstraint(
                condition=models.Q(start_at__isnull=True)
                | models.Q(end_at__gt=models.F("start_at")),
                name="appointment_ends_after_start",
            ),
        ]


class AppointmentEvent(models.Model):
    """A change of an appointment. Its id is internal: the interface shows none."""

    id = models.BigAutoField(primary_key=True)
    appointment = models.ForeignKey(Appointment, models.CASCADE, related_name="events")
    created_at = models.DateTimeField()
    status = models.CharField(max_length=16)
    data = models.JSONField(null=True)
