"""Admin of patients, their records, payors and providers, as received from the service."""

from __future__ import annotations

from typing import ClassVar

from django.contrib.admin import register
from django.db.models import Model
from django.urls import reverse
from django.utils.translation import gettext, gettext_noop

from backoffice.admin import RecordAdmin, site
from backoffice.admin.records import LookupKeys
from backoffice.pages.paging.pages import Sort
from patients.models import Connection, Demographics, Insurance, Patient, Payor, Provider
from patients.sync import PROVIDER_LIST


class PatientRecordAdmin(RecordAdmin):
    """Base of records that belong to one patient."""

    needs: ClassVar[tuple[str, ...]] = ("patients.view", "records.view")
    patient = "user_id"
    searched: ClassVar[tuple[str, ...]] = ("pk", "user")
    search_hint = gettext_noop("Full ID, or the patient’s ID")

    def lead(self, row: Model) -> tuple[str, str]:
        patient_id = getattr(row, self.patient)
        if not patient_id:
            return "", ""
        return reverse("patients:detail", args=[patient_id]), gettext("Patient")


@register(Patient, site=site)
class PatientAdmin(PatientRecordAdmin):
    words = gettext_noop("Users of the service")
    topic = "patient"
    patient = "id"
    sort = Sort(("created_on", "id"), descending=True)
    list_display = ("id", "client_user_id", "created_on", "fallback_time_zone", "missing_since")
    searched = ("pk", "client_user_id")
    identifiers = ("client_user_id",)
    search_hint = gettext_noop("Full ID, or the full client user ID")

    def reasons(self, row: Patient) -> LookupKeys:
        return {"users": [row.pk]}


@register(Demographics, site=site)
class DemographicsAdmin(PatientRecordAdmin):
    words = gettext_noop("Names, birth dates, addresses")
    plural = gettext_noop("patient details")
    topic = "demographics"
    sort = Sort(("user",))
    list_display = ("user_id", "first_name", "last_name", "dob", "missing_since")
    searched = ("pk",)
    search_hint = gettext_noop("The patient’s full ID")

    def reasons(self, row: Demographics) -> LookupKeys:
        return {"demographics": [row.pk]}


@register(Connection, site=site)
class ConnectionAdmin(PatientRecordAdmin):
    words = gettext_noop("Connected sources of device data")
    topic = "connection"
    list_display = ("id", "user_id", "slug", "status", "error_type", "missing_since")
    code_names: ClassVar = {"slug": Provider.names}

    def reasons(self, row: Connection) -> LookupKeys:
        return {"connections": [row.user_id]}


@register(Insurance, site=site)
class InsuranceAdmin(PatientRecordAdmin):
    words = gettext_noop("Current and earlier insurance of each patient")
    plural = gettext_noop("insurance")
    topic = "insurance"
    list_display = ("id", "user_id", "is_primary", "payor_code", "superseded_at")

    def reasons(self, row: Insurance) -> LookupKeys:
        return {"insurance-primary" if row.is_primary else "insurance-secondary": [row.user_id]}


@register(Payor, site=site)
class PayorAdmin(RecordAdmin):
    words = gettext_noop("Found in searches so far")
    plural = gettext_noop("insurance companies")
    topic = "payor"
    needs = ("patients.view", "records.view")
    sort = Sort(("payor_code",))
    list_display = ("payor_code", "name", "source", "city", "state")
    searched = ("pk", "name")
    search_hint = gettext_noop("Full code or name")

    def reasons(self, row: Payor) -> LookupKeys:
        return {"payors": [row.name]}


@register(Provider, site=site)
class ProviderAdmin(RecordAdmin):
    words = gettext_noop("Sources of device data")
    plural = gettext_noop("device providers")
    topic = "provider"
    needs = ("patients.view", "records.view")
    sort = Sort(("slug",))
    list_display = ("slug", "name", "auth_type", "missing_since")
    search_hint = gettext_noop("Full slug")
    synced_list = PROVIDER_LIST
