"""Insurance records of patients, and payors."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models

from backoffice.core.encryption.encrypted_fields import EncryptedDateField, EncryptedTextField
from backoffice.core.prepared_queries import where
from backoffice.mirror.models import AS_RECEIVED, MirrorModel
from patients.models.patient import Patient, mirrored_patient


class Insurance(MirrorModel):
    """An insurance record (users.md 4).

    The service shows only the latest record, so only this table has the history. Records have no id
    at the service: `id` is derived from user, kind and content. Fields that identify the insured at
    their insurer are encrypted.
    """

    id = models.UUIDField(primary_key=True)
    record = EncryptedTextField(help_text="JSON, byte for byte as received")
    user = mirrored_patient("insurances")
    is_primary = models.BooleanField()
    payor_code = models.TextField()
    member_id = EncryptedTextField()
    group_id = EncryptedTextField(null=True)
    relationship = models.TextField()
    company_name = models.TextField(default="")
    insured_first_name = EncryptedTextField(default="")
    insured_last_name = EncryptedTextField(default="")
    insured_dob = EncryptedDateField(null=True)
    superseded_at = models.DateTimeField(null=True, default=None)

    class Meta:
        indexes = [models.Index(fields=["user", "is_primary", "-as_of"], name="insurance_history")]

    @classmethod
    def in_force(cls, patient: Patient) -> list[Insurance]:
        """Return the insurances in force of a patient, the primary one first."""
        condition = "user_id = %s AND superseded_at IS NULL ORDER BY is_primary DESC, as_of DESC"
        return where(cls, condition, [patient.pk], exclude=AS_RECEIVED)


class Payor(MirrorModel):
    """A payor that a search returned (users.md 5)."""

    payor_code = models.TextField(primary_key=True)
    name = models.TextField()
    aliases = ArrayField(models.TextField(), default=list)
    source = models.TextField(null=True)
    city = models.TextField(default="")
    state = models.TextField(default="")

    class Meta:
        indexes = [models.Index(fields=["name"], name="payor_by_name")]
