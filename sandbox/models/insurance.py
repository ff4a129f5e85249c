"""Insurance records, payors and diagnosis codes (users.md 4-6)."""

from django.contrib.postgres.fields import ArrayField
from django.db import models


class Payor(models.Model):
    """A payor; `team` null means `source` platform. Connectivity codes map provider to code."""

    payor_code = models.CharField(max_length=40, primary_key=True)
    name = models.CharField(max_length=200)
    aliases = ArrayField(models.CharField(max_length=200), default=list)
    first_line = models.CharField(max_length=200)
    second_line = models.CharField(max_length=200, null=True)
    city = models.CharField(max_length=100)
    state = models.CharField(max_length=60)
    zip = models.CharField(max_length=20)
    country = models.CharField(max_length=60, default="US")
    access_notes = models.CharField(max_length=1000, null=True)
    team = models.ForeignKey("Team", models.CASCADE, null=True)
    provider_payor_ids = models.JSONField(default=dict)


class Insurance(models.Model):
    """One insurance record; the newest per (user, is_primary) is the latest (users.md 4).

    `insured` is a PersonDetails, `guarantor` a GuarantorDetails or null.
    """

    id = models.UUIDField(primary_key=True)
    user = models.ForeignKey("User", models.CASCADE, related_name="insurances")
    payor = models.ForeignKey(Payor, models.PROTECT)
    member_id = models.CharField(max_length=60)
    group_id = models.CharField(max_length=60, null=True)
    relationship = models.CharField(max_length=16)
    insured = models.JSONField()
    guarantor = models.JSONField(null=True)
    is_primary = models.BooleanField(default=True)
    created_at = models.DateTimeField()

    class Meta:
        indexes = [
            models.Index(fields=["user", "is_primary", "-created_at"], name="insurance_latest")
        ]


class DiagnosisCode(models.Model):
    """A diagnosis code; `excludes` may not be sent with it, `overlaps` earns a warning."""

    code = models.CharField(max_length=12, primary_key=True)
    description = models.CharField(max_length=300)
    is_secondary = models.BooleanField(default=False)
    excludes = ArrayField(models.CharField(max_length=12), default=list)
    overlaps = ArrayField(models.CharField(max_length=12), default=list)
