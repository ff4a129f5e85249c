"""The catalog: labs, markers, lab tests, lab accounts, physicians."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Self

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q, QuerySet
from django.db.models.functions import Lower
from django.utils import timezone
from django.utils.translation import gettext_lazy

from backoffice.core import prepared_queries
from backoffice.core.models import FastModel
from backoffice.mirror.models import MirrorModel
from labs.reports.models import Report, ReportFile, ReportJob, ReportResult, RowCheck

__all__ = [
    "ExpectedResult",
    "Lab",
    "LabAccount",
    "LabAccountMarker",
    "LabAccountTeam",
    "LabAccountTest",
    "LabTest",
    "LabTestMarker",
    "Marker",
    "Physician",
    "Report",
    "ReportFile",
    "ReportJob",
    "ReportResult",
    "RowCheck",
    "Team",
]


class Lab(MirrorModel):
    """A lab (catalogue.md 2)."""

    id = models.BigIntegerField(primary_key=True)
    slug = models.TextField()
    name = models.TextField()
    first_line_address = models.TextField(default="")
    city = models.TextField(default="")
    zipcode = models.TextField(default="")
    collection_methods = ArrayField(models.TextField(), default=list)
    sample_types = ArrayField(models.TextField(), default=list)
    logo_url = models.TextField(null=True)

    # `with_counts` sets these.
    test_count: int = 0
    marker_count: int = 0

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    @staticmethod
    def names() -> dict[str, str]:
        """Return the names of all labs by slug, sorted by name."""
        with prepared_queries.cursor() as cursor:
            cursor.execute("SELECT slug, name FROM labs_lab ORDER BY name")
            return dict(cursor.fetchall())

    @classmethod
    def choices(cls) -> list[tuple[str, str]]:
        """Return slug and name of all labs, for a form field."""
        return list(cls.names().items())

    @classmethod
    def with_counts(cls) -> list[Lab]:
        """Return all labs by name, with their numbers of lab tests and markers."""
        names = ("slug", "name", "city", "collection_methods", "sample_types", "missing_since")
        statement = f"""
            SELECT {prepared_queries.columns(cls, names)},
             coalesce(tests.count, 0) AS test_count, coalesce(markers.count, 0) AS marker_count
            FROM labs_lab
            LEFT JOIN (SELECT lab_id, count(*) FROM labs_labtest GROUP BY 1) AS tests
             ON tests.lab_id = labs_lab.id
            LEFT JOIN (SELECT lab_id, count(*) FROM labs_marker GROUP BY 1) AS markers
             ON markers.lab_id = labs_lab.id
            ORDER BY name, id
        """  # noqa: S608 - column names
        return prepared_queries.read(cls, statement, [], names)


class MarkerQuerySet(QuerySet["Marker"]):
    """Queries for markers."""

    def matching(self, text: str) -> Self:
        """Return the markers by a part of the name or the beginning of the lab's code."""
        if not text:
            return self
        return self.filter(Q(name__icontains=text) | Q(provider_id__istartswith=text))

    def orderable_at(self, lab: Lab) -> Self:
        """Return the markers that a lab test of this lab may contain."""
        markers = self.filter(lab=lab, missing_since=None).exclude(is_orderable=False)
        return markers.defer("record")


class Marker(MirrorModel):
    """An orderable or reflex marker (catalogue.md 4)."""

    id = models.BigIntegerField(primary_key=True)
    lab = models.ForeignKey(
        Lab, on_delete=models.DO_NOTHING, db_constraint=False, null=True, related_name="markers"
    )
    name = models.TextField()
    slug = models.TextField()
    description = models.TextField(null=True)
    provider_id = models.TextField(null=True)
    type = models.TextField(null=True)
    unit = models.TextField(null=True)
    price = models.TextField(null=True)
    a_la_carte_enabled = models.BooleanField(default=False)
    is_orderable = models.BooleanField(null=True)
    has_questions = models.BooleanField(default=False, help_text="Order-entry questions exist")
    common_tat_days = models.IntegerField(null=True)
    worst_case_tat_days = models.IntegerField(null=True)

    objects = MarkerQuerySet.as_manager()

    class Meta:
        indexes = [models.Index(fields=["lab", "name", "id"], name="marker_of_lab")]

    def __str__(self) -> str:
        return self.name


class ExpectedResult(FastModel):
    """An expected result of a marker (catalogue.md 4)."""

    pk = models.CompositePrimaryKey("marker_id", "position")
    marker = models.ForeignKey(
        Marker,
        on_delete=models.CASCADE,
        db_constraint=False,
        db_index=False,
        related_name="expected_results",
    )
    position = models.PositiveSmallIntegerField()
    result_id = models.BigIntegerField()
    name = models.TextField()
    slug = models.TextField()
    lab_id = models.BigIntegerField(null=True)
    provider_id = models.TextField(null=True)
    required = models.BooleanField(null=True)
    loinc_code = models.TextField(null=True)
    loinc_name = models.TextField(null=True)
    loinc_slug = models.TextField(null=True)
    unit = models.TextField(null=True)


class LabTestQuerySet(QuerySet["LabTest"]):
    """Queries for lab tests."""

    def matching(self, text: str) -> Self:
        """Return the lab tests by a part of the name or of the slug."""
        if not text:
            return self
        return self.filter(Q(name__icontains=text) | Q(slug__icontains=text))


class LabTest(MirrorModel):
    """A lab test of the team or the service (catalogue.md 2)."""

    id = models.UUIDField(primary_key=True)
    lab = models.ForeignKey(
        Lab, on_delete=models.DO_NOTHING, db_constraint=False, null=True, related_name="lab_tests"
    )
    slug = models.TextField()
    name = models.TextField()
    description = models.TextField(null=True)
    sample_type = models.TextField()
    method = models.TextField()
    price = models.FloatField(null=True)
    is_active = models.BooleanField(null=True)
    status = models.TextField()
    fasting = models.BooleanField(default=False)
    auto_generated = models.BooleanField(default=False)
    has_collection_instructions = models.BooleanField(null=True)
    common_tat_days = models.IntegerField(null=True)
    worst_case_tat_days = models.IntegerField(null=True)

    objects = LabTestQuerySet.as_manager()

    class Meta:
        indexes = [models.Index(fields=["name", "id"], name="lab_test_by_name")]

    def __str__(self) -> str:
        return self.name


class LabTestMarker(FastModel):
    """A marker of a lab test, reflex markers included, in the service's order."""

    pk = models.CompositePrimaryKey("lab_test_id", "marker_id")
    lab_test = models.ForeignKey(
        LabTest,
        on_delete=models.CASCADE,
        db_constraint=False,
        db_index=False,
        related_name="test_markers",
    )
    marker = models.ForeignKey(
        Marker, on_delete=models.DO_NOTHING, db_constraint=False, related_name="in_tests"
    )
    position = models.PositiveIntegerField()


def is_current(catalog_read_at: datetime | None) -> bool:
    """Whether the lists of a lab account were read recently enough to show what it lacks.

    They are read every SYNC_CATALOGUE_HOURS, but the service may refuse them or not answer for
    long.
    """
    oldest = timezone.now() - 2 * timedelta(hours=settings.SYNC_CATALOGUE_HOURS)
    return catalog_read_at is not None and catalog_read_at > oldest


class LabAccount(MirrorModel):
    """An account at a lab and how orders under it are handled (catalogue.md 7)."""

    id = models.UUIDField(primary_key=True)
    lab = models.TextField(help_text="Lab slug")
    org_id = models.UUIDField(null=True)
    status = models.TextField()
    delegated_flow = models.TextField()
    provider_account_id = models.TextField()
    account_name = models.TextField(null=True)
    default_clinical_notes = models.TextField(null=True)
    business_units = ArrayField(models.TextField(), null=True)
    catalog_read_at = models.DateTimeField(
        null=True, help_text="When its lists of lab tests and markers were last read; null: never"
    )

    class Meta:
        indexes = [models.Index(fields=["lab", "status"], name="account_of_lab")]

    @property
    def has_current_catalog(self) -> bool:
        return is_current(self.catalog_read_at)

    def __str__(self) -> str:
        return self.account_name or self.provider_account_id

    @classmethod
    def in_list_order(cls) -> list[LabAccount]:
        """Return all accounts by lab and name, with what the list of labs shows of them."""
        names = ("lab", "account_name", "provider_account_id", "status")
        statement = (
            f"SELECT {prepared_queries.columns(cls, names)} FROM labs_labaccount"  # noqa: S608 - column names
            " ORDER BY lab, account_name, id"
        )
        return prepared_queries.read(cls, statement, [], names)

    def find_lab(self) -> Lab | None:
        """Return the lab of this account, if the mirror has it."""
        return Lab.objects.filter(slug=self.lab).defer("record").first()


class LabAccountTeam(FastModel):
    """A team that may use a lab account: one entry of its allowlist."""

    pk = models.CompositePrimaryKey("account_id", "team_id")
    account = models.ForeignKey(
        LabAccount,
        on_delete=models.CASCADE,
        db_constraint=False,
        db_index=False,
        related_name="teams",
    )
    team_id = models.UUIDField()


class LabAccountTest(FastModel):
    """A lab test that can be ordered under a lab account, as of `catalog_read_at`."""

    pk = models.CompositePrimaryKey("account_id", "lab_test_id")
    account = models.ForeignKey(
        LabAccount,
        on_delete=models.CASCADE,
        db_constraint=False,
        db_index=False,
        related_name="account_tests",
    )
    lab_test = models.ForeignKey(
        LabTest,
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        related_name="test_accounts",
    )


class LabAccountMarker(FastModel):
    """A single marker that can be ordered under a lab account, as of `catalog_read_at`."""

    pk = models.CompositePrimaryKey("account_id", "marker_id")
    account = models.ForeignKey(
        LabAccount,
        on_delete=models.CASCADE,
        db_constraint=False,
        db_index=False,
        related_name="account_markers",
    )
    marker = models.ForeignKey(
        Marker,
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        related_name="marker_accounts",
    )


class Team(models.Model):
    """The name of a team of the organization. The service has only the id."""

    id = models.UUIDField(primary_key=True)
    name = models.CharField(max_length=80)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                Lower("name"),
                name="team_name_once",
                violation_error_message=gettext_lazy("Another team already has this name."),
            )
        ]

    def __str__(self) -> str:
        return self.name or str(self.pk)


class Physician(MirrorModel):
    """A physician of the team (catalogue.md 1)."""

    npi = models.TextField(primary_key=True)
    first_name = models.TextField()
    last_name = models.TextField()
