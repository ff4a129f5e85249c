"""Patients (users of the service) and their demographics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import OpClass
from django.db import models
from django.db.models import Q, Value
from django.db.models.functions import Lower

from backoffice.core.identifiers import IdentifierKey
from backoffice.mirror.models import AS_RECEIVED, MirrorModel
from patients.models.patient_queryset import FINISHED_BUCKETS, PatientQuerySet

if TYPE_CHECKING:
    # Only for types: the orders app imports this one.
    from orders.models import Order


class Patient(MirrorModel):
    """A user of the service (users.md 2) with the identity of the person.

    The identity comes from `Demographics`, or from an order where demographics lack a value.
    """

    id = models.UUIDField(primary_key=True)
    team_id = models.UUIDField()
    client_user_id = models.TextField()
    created_on = models.DateTimeField()
    fallback_time_zone = models.TextField(null=True)
    fallback_birth_date = models.DateField(null=True)
    ingestion_start = models.DateField(null=True)
    ingestion_end = models.DateField(null=True)
    # The identity. Triggers set these columns: patients/sql/identity.sql.
    first_name = models.TextField(default="", db_default="")
    last_name = models.TextField(default="", db_default="")
    name_key = models.TextField(
        default="", db_default="", help_text="First and last name, folded, for search and sort"
    )
    email = models.TextField(default="", db_default="")
    phone_number = models.TextField(default="", db_default="")
    phone_digits = models.TextField(
        default="", db_default="", help_text="Digits only, reversed: prefix search on any tail"
    )
    gender = models.TextField(default="", db_default="")
    dob = models.DateField(null=True)
    city = models.TextField(default="", db_default="")
    state = models.TextField(default="", db_default="")
    zip = models.TextField(default="", db_default="")
    fields_from_order = ArrayField(
        models.TextField(),
        default=list,
        db_default=Value([], ArrayField(models.TextField())),
        help_text="Those of name, dob, gender, phone, email that demographics lack",
    )
    source_order_id = models.UUIDField(null=True, help_text="The order that gave them")
    source_order_created_at = models.DateTimeField(null=True)

    objects = PatientQuerySet.as_manager()

    class Meta:
        indexes = [
            models.Index(fields=["-created_on", "id"], name="patient_newest"),
            models.Index(IdentifierKey("client_user_id"), name="patient_client_id"),
            models.Index(fields=["name_key", "id"], name="patient_by_name"),
            models.Index(fields=["dob", "id"], name="patient_by_birth_date"),
            models.Index(
                fields=["phone_digits"], name="patient_phone", opclasses=["text_pattern_ops"]
            ),
            models.Index(OpClass(Lower("email"), name="text_pattern_ops"), name="patient_email"),
        ]

    @property
    def full_name(self) -> str:
        return f"{self.first_name} {self.last_name}".strip()

    @property
    def is_named_by_order(self) -> bool:
        return "name" in self.fields_from_order

    def orders_open_first(self, most: int) -> list[Order]:
        """Return at most `most` orders with their transactions: open ones first, then newest."""
        return list(
            self.orders.select_related("order_transaction")
            .defer(*AS_RECEIVED, "order_transaction__record")
            .alias(is_finished=Q(bucket__in=FINISHED_BUCKETS))
            .order_by("is_finished", "-created_at", "-pk")[:most]
        )

    def open_order_count(self) -> int:
        return self.orders.exclude(bucket__in=FINISHED_BUCKETS).count()


def mirrored_patient(related_name: str) -> models.ForeignKey[Patient | None, Patient | None]:
    """Return a foreign key to a patient that may not be in the mirror yet.

    It has no constraint and is nullable, so joins are outer joins. Each model declares its own
    index that begins with the patient.
    """
    return models.ForeignKey(
        Patient,
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        null=True,
        related_name=related_name,
    )


class Demographics(MirrorModel):
    """User information (users.md 3). Searches use the columns that triggers copy to `Patient`."""

    user = models.OneToOneField(
        Patient,
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        primary_key=True,
        related_name="demographics",
    )
    first_name = models.TextField()
    last_name = models.TextField()
    name_key = models.TextField(help_text="First and last name, folded, for search and sort")
    email = models.TextField()
    phone_number = models.TextField()
    phone_digits = models.TextField(help_text="Digits only, reversed: prefix search on any tail")
    gender = models.TextField()
    dob = models.DateField(null=True)
    first_line = models.TextField(default="")
    second_line = models.TextField(default="")
    city = models.TextField(default="")
    state = models.TextField(default="")
    zip = models.TextField(default="")
    country = models.TextField(default="")
    race = models.TextField(null=True)
    ethnicity = models.TextField(null=True)
    sexual_orientation = models.TextField(null=True)
    gender_identity = models.TextField(null=True)
