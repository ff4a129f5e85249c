"""The list of patients: rows, columns and page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypedDict

from django.db.models import QuerySet
from django.utils.translation import gettext, gettext_noop

from backoffice.accounts.models import User
from backoffice.core import vocabulary
from backoffice.pages.lists.definition import Column, ExportCell, ListPage
from backoffice.pages.lists.filters import ListFilterSet
from backoffice.pages.paging.pages import Page, PagePosition
from patients.filters import PatientListFilterSet
from patients.models import Patient, PatientQuerySet

SORT_NOTICES: Final = {
    "name": gettext_noop("Sorted by name. Patients without a name are not shown or downloaded."),
    "born": gettext_noop(
        "Sorted by birth date. Patients without a birth date are not shown or downloaded."
    ),
}


class PatientRow(TypedDict):
    """One patient and the number of their open orders."""

    patient: Patient
    open_orders: int


def _patient_value(name: str) -> Callable[[PatientRow], object]:
    """Return a function that reads an attribute of the patient of a row."""
    return lambda row: getattr(row["patient"], name)


def _name_source(row: PatientRow) -> str:
    """Return where the name is from, for downloads."""
    patient = row["patient"]
    if not patient.name_key:
        return ""
    return gettext("Order") if patient.is_named_by_order else gettext("Demographics")


COLUMNS: Final = (
    Column(
        "name",
        gettext_noop("Name"),
        (
            ExportCell(gettext_noop("Patient ID"), lambda row: row["patient"].pk),
            ExportCell(gettext_noop("First name"), _patient_value("first_name")),
            ExportCell(gettext_noop("Last name"), _patient_value("last_name")),
            ExportCell(gettext_noop("Name from"), _name_source),
        ),
        sort="name",
    ),
    Column(
        "born",
        gettext_noop("Born"),
        (ExportCell(gettext_noop("Born"), _patient_value("dob")),),
        sort="born",
        cell_css="nowrap",
    ),
    Column(
        "sex",
        gettext_noop("Sex"),
        (
            ExportCell(
                gettext_noop("Sex"),
                lambda row: gettext(vocabulary.term("person.gender", row["patient"].gender).label),
            ),
        ),
    ),
    Column(
        "phone",
        gettext_noop("Phone"),
        (ExportCell(gettext_noop("Phone"), _patient_value("phone_number")),),
    ),
    Column(
        "lives",
        gettext_noop("City"),
        (
            ExportCell(gettext_noop("City"), _patient_value("city")),
            ExportCell(gettext_noop("State"), _patient_value("state")),
        ),
        macro="lives_in",
        cell_css="nowrap",
    ),
    Column(
        "open",
        gettext_noop("Open orders"),
        (ExportCell(gettext_noop("Open orders"), lambda row: row["open_orders"]),),
        css="num",
        macro="open_orders",
        cell_css="num",
    ),
    Column(
        "ours",
        gettext_noop("Clinic reference"),
        (ExportCell(gettext_noop("Clinic reference"), lambda row: row["patient"].client_user_id),),
        macro="our_reference",
    ),
    Column(
        "since",
        gettext_noop("Added"),
        (
            ExportCell(
                gettext_noop("Added"), lambda row: row["patient"].created_on, is_timestamp=True
            ),
        ),
        sort="created_on",
        macro="registered_on",
        cell_css="nowrap",
    ),
    Column(
        "patient", gettext_noop("Patient ID"), css="roomy", macro="patient_id", cell_css="roomy"
    ),
    Column(
        "email",
        gettext_noop("Email"),
        (ExportCell(gettext_noop("Email"), _patient_value("email")),),
        shown=False,
        cell_css="wrap",
    ),
    Column(
        "zip",
        gettext_noop("ZIP"),
        (ExportCell(gettext_noop("ZIP"), _patient_value("zip")),),
        shown=False,
    ),
)


class PatientList(ListPage):
    name = "patients"
    title = gettext_noop("Patients")
    template = "patients/list.html"
    subject = "patient"
    nouns = (gettext_noop("patient"), gettext_noop("patients"))
    patient_column = "id"
    needs = ("patients.view",)
    columns = COLUMNS
    row_macros = "patients/patient_rows.html"
    filter_set = PatientListFilterSet

    def visible_rows(self, user: User) -> PatientQuerySet:
        return Patient.objects.defer("record", "content_hash")

    def page(
        self, rows: QuerySet[Patient], filters: Any, size: int, place: PagePosition
    ) -> Page[Patient]:
        """Return a page, without patients that lack a value in the sorted column.

        This applies to selected rows as well.
        """
        return super().page(filters.with_sort_value(rows), filters, size, place)

    def with_related(self, rows: list[Patient], user: User) -> list[PatientRow]:
        open_orders = Patient.objects.filter(pk__in=[row.pk for row in rows]).open_order_counts()
        return [
            {"patient": patient, "open_orders": open_orders.get(patient.pk, 0)} for patient in rows
        ]

    def notices(self, filters: ListFilterSet) -> list[str]:
        key = filters.form.sort[0]
        return [gettext(SORT_NOTICES[key])] if key in SORT_NOTICES else []


PATIENT_LIST: Final = PatientList()
