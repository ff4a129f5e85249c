"""The list of reports: its columns, tabs and download."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Final, TypedDict
from uuid import UUID

from django.db.models import QuerySet
from django.utils.translation import gettext, gettext_noop

from backoffice.accounts.access import may
from backoffice.core import vocabulary
from backoffice.pages.lists.definition import Column, ExportCell, ListPage, Preset
from backoffice.pages.lists.filters import ListFilterSet
from backoffice.pages.paging.counts import Count, capped_count
from backoffice.pages.query_strings import address_with
from backoffice.pages.tabs import Tab
from labs.reports.filters import ALL, ME, TABS, TO_REVIEW, ReportFilterSet
from labs.reports.models import FAILED, REFUSED, WAITING_FOR_STAFF, Report
from patients.models import Patient


class ListedReport(TypedDict):
    """One report, and its patient if the reader may see who that is."""

    report: Report
    person: Patient | None


def _person_value(name: str) -> Callable[[ListedReport], object]:
    """Return a function that reads an attribute of the patient of a row, for downloads."""
    return lambda row: getattr(row["person"], name, None)


def _job_value(name: str) -> Callable[[ListedReport], object]:
    """Return a function that reads an attribute of the parsing job of a row, for downloads."""
    return lambda row: getattr(row["report"].job, name, None)


def _failure(row: ListedReport) -> str:
    job = row["report"].job
    if row["report"].state != FAILED or job is None or not job.failure_reason:
        return ""
    return gettext(vocabulary.term("report.failure_reason", job.failure_reason).label)


def _uploader(row: ListedReport) -> str:
    uploader = row["report"].uploaded_by
    return uploader.get_full_name() if uploader else ""


COLUMNS: Final = (
    Column(
        "patient",
        gettext_noop("Patient"),
        (
            ExportCell(gettext_noop("Report"), lambda row: row["report"].pk),
            ExportCell(gettext_noop("Patient"), lambda row: row["report"].user_id),
            ExportCell(gettext_noop("First name"), _person_value("first_name")),
            ExportCell(gettext_noop("Last name"), _person_value("last_name")),
            ExportCell(gettext_noop("Born"), _person_value("dob")),
        ),
    ),
    Column(
        "status",
        gettext_noop("Status"),
        (
            ExportCell(
                gettext_noop("Status"),
                lambda row: gettext(vocabulary.term("report.state", row["report"].state).label),
            ),
            ExportCell(gettext_noop("Failure reason"), _failure),
        ),
        sort="state",
    ),
    Column(
        "accepted",
        gettext_noop("Accepted"),
        (
            ExportCell(
                gettext_noop("Accepted"), lambda row: row["report"].accepted_at, is_timestamp=True
            ),
            ExportCell(
                gettext_noop("Changed since accepted"),
                lambda row: row["report"].changed_since_accepted,
            ),
        ),
        sort="accepted_at",
        cell_css="nowrap",
    ),
    Column(
        "lab",
        gettext_noop("Lab on the report"),
        (ExportCell(gettext_noop("Lab on the report"), _job_value("lab_name")),),
    ),
    Column(
        "collected",
        gettext_noop("Collected, as printed"),
        (ExportCell(gettext_noop("Collected, as printed"), _job_value("date_collected")),),
        cell_css="nowrap",
    ),
    Column(
        "uploaded",
        gettext_noop("Uploaded"),
        (
            ExportCell(
                gettext_noop("Uploaded"), lambda row: row["report"].uploaded_at, is_timestamp=True
            ),
        ),
        sort="uploaded_at",
        cell_css="nowrap",
    ),
    Column("report", gettext_noop("Report"), css="roomy", macro="report_id", cell_css="roomy"),
    Column(
        "uploader",
        gettext_noop("Uploaded by"),
        (ExportCell(gettext_noop("Uploaded by"), _uploader),),
        shown=False,
        cell_css="nowrap",
    ),
)


class ReportList(ListPage):
    name = "reports"
    title = gettext_noop("Reports")
    template = "labs/reports/list.html"
    subject = "report"
    nouns = (gettext_noop("report"), gettext_noop("reports"))
    patient_column = "user_id"
    needs = ("reports.view",)
    columns = COLUMNS
    row_macros = "labs/reports/report_rows.html"
    filter_set = ReportFilterSet
    presets: ClassVar = (
        Preset(
            "mine",
            gettext_noop("Uploaded by me"),
            {"show": [ALL], "uploaded_by": [ME]},
            "reports.upload",
        ),
        Preset(
            "failed",
            gettext_noop("Failed or refused"),
            {"show": [ALL], "state": [FAILED, REFUSED]},
        ),
    )

    def visible_rows(self, user: Any) -> QuerySet[Report]:
        return Report.objects.with_job().select_related("uploaded_by")

    def with_related(self, rows: list[Report], user: Any) -> list[ListedReport]:
        """Add who the patients are, by one query, if the user may see that."""
        people: dict[UUID | None, Patient] = {}
        if may(user, "patients.view"):
            keys = {row.user_id for row in rows if row.user_id}
            people = {one.pk: one for one in Patient.objects.named("dob").filter(pk__in=keys)}
        return [{"report": row, "person": people.get(row.user_id)} for row in rows]

    def page_context(self, filters: ListFilterSet) -> dict[str, Any]:
        """Return the tabs, and the patient that the list is filtered by.

        Only reports that wait for staff are counted: the other tabs grow forever.
        """
        form = filters.form
        counts: dict[str, Count] = {}
        if form.is_valid():
            counts[TO_REVIEW] = capped_count(filters.rows_of_all_tabs().filter(WAITING_FOR_STAFF))
        current = form.tab
        tabs = [
            Tab(
                gettext(label),
                address_with(filters.data, show=key),
                key == current,
                counts.get(key),
            )
            for key, (label, _) in TABS.items()
        ]
        return {
            "tabs": tabs,
            "patient_id": form.cleaned_data.get("user_id"),
            "has_reports": Report.objects.exists,
        }


REPORT_LIST: Final = ReportList()
