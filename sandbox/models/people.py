"""Users, their demographics, their connected devices and the pulls of their history."""

from django.contrib.postgres.fields import ArrayField
from django.db import models


class User(models.Model):
    """A user of a team (users.md 2). `seq` is dense over all users; deleted ones keep their row."""

    id = models.UUIDField(primary_key=True)
    seq = models.BigIntegerField(unique=True)
    team = models.ForeignKey("Team", models.PROTECT)
    client_user_id = models.CharField(max_length=200)
    created_on = models.DateTimeField()
    fallback_time_zone = models.CharField(max_length=64, null=True)
    fallback_time_zone_updated_at = models.DateTimeField(null=True)
    fallback_birth_date = models.DateField(null=True)
    fallback_birth_date_updated_at = models.DateTimeField(null=True)
    ingestion_start = models.DateField(null=True)
    ingestion_end = models.DateField(null=True)
    deleted_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["team", "client_user_id"],
                condition=models.Q(deleted_at__isnull=True),
                name="user_client_id_once_per_team",
            )
        ]
        indexes = [
            models.Index(
                fields=["team", "seq"],
                condition=models.Q(deleted_at__isnull=True),
                name="user_list",
            )
        ]


class UserInfo(models.Model):
    """Demographics (users.md 3), one row per user; `medical_proxy`: GuarantorDetails or null."""

    user = models.OneToOneField(User, models.CASCADE, primary_key=True, related_name="info")
    first_name = models.CharField(max_length=50)
    last_name = models.CharField(max_length=50)
    email = models.CharField(max_length=200)
    phone_number = models.CharField(max_length=32)
    gender = models.CharField(max_length=60)
    dob = models.DateField()
    first_line = models.CharField(max_length=200)
    second_line = models.CharField(max_length=200, null=True)
    city = models.CharField(max_length=100)
    state = models.CharField(max_length=60)
    zip = models.CharField(max_length=20)
    country = models.CharField(max_length=60, default="US")
    access_notes = models.CharField(max_length=1000, null=True)
    race = models.CharField(max_length=60, null=True)
    ethnicity = models.CharField(max_length=60, null=True)
    sexual_orientation = models.CharField(max_length=60, null=True)
    gender_identity = models.CharField(max_length=80, null=True)
    medical_proxy = models.JSONField(null=True)
    updated_at = models.DateTimeField()


class Provider(models.Model):
    """A wearable or device provider (wearables.md 6); made-up slugs."""

    slug = models.CharField(max_length=40, primary_key=True)
    name = models.CharField(max_length=80)
    description = models.CharField(max_length=300)
    logo = models.CharField(max_length=200, null=True)
    auth_type = models.CharField(max_length=16)
    source_type = models.CharField(max_length=24)
    supported_resources = ArrayField(models.CharField(max_length=40))


class Connection(models.Model):
    """A user's connection (users.md 7). Deregistered ones are deleted.

    `resource_availability` maps a resource to `{status, scope_requirements}`.
    """

    user = models.ForeignKey(User, models.CASCADE, related_name="connections")
    provider = models.ForeignKey(Provider, models.PROTECT)
    created_on = models.DateTimeField()
    status = models.CharField(max_length=16)
    external_user_id = models.CharField(max_length=80, null=True)
    error_type = models.CharField(max_length=60, null=True)
    error_message = models.CharField(max_length=300, null=True)
    errored_at = models.DateTimeField(null=True)
    resource_availability = models.JSONField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["user", "provider"], name="connection_once"),
            models.CheckConstraint(
                condition=models.Q(status="error", error_type__isnull=False)
                | ~models.Q(status="error"),
                name="connection_error_has_details",
            ),
        ]


class HistoricalPull(models.Model):
    """The pull of one resource's history (specification, Historical pull report).

    A `not_pulled` resource has a row with `status` null.
    """

    user = models.ForeignKey(User, models.CASCADE, related_name="pulls")
    provider = models.ForeignKey(Provider, models.PROTECT)
    resource = models.CharField(max_length=40)
    status = models.CharField(max_length=16, null=True)
    release = models.CharField(max_length=40, default="")
    range_start = models.DateTimeField(null=True)
    range_end = models.DateTimeField(null=True)
    scheduled_at = models.DateTimeField(null=True)
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    days_with_data = models.IntegerField(default=0)
    error_details = models.CharField(max_length=60, null=True)
    trace_id = models.CharField(max_length=40, null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["user", "provider", "resource"], name="pull_once")
        ]
