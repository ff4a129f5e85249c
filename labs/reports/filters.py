"""The filters of the list of reports, combined with AND, within a tab."""

from __future__ import annotations

from typing import ClassVar, Final

from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils.translation import gettext, gettext_lazy, gettext_noop

from backoffice.accounts.models import User
from backoffice.pages.lists.filters import (
    DaysFilter,
    ListFilterSet,
    PersonFilter,
    TabFilter,
    TimestampFilter,
    UUIDFilter,
    VocabularyFilter,
)
from backoffice.pages.lists.forms import FilterForm, FilterGroup
from labs.reports.models import IN_PROGRESS, IS_ACCEPTED, WAITING_FOR_STAFF, Report

TO_REVIEW: Final = "todo"
ACCEPTED: Final = "accepted"
ALL: Final = "all"
TABS: Final[dict[str, tuple[str, Q]]] = {
    TO_REVIEW: (gettext_noop("To review"), WAITING_FOR_STAFF),
    "under-way": (gettext_noop("In progress"), IN_PROGRESS),
    ACCEPTED: (gettext_noop("Accepted"), IS_ACCEPTED),
    ALL: (gettext_noop("All"), Q()),
}
"""The tabs of the list, each with its label and the condition of its reports."""

ME: Final = "me"
ELSEWHERE: Final = "elsewhere"
"""Choice of the filter by uploader: reports that were not uploaded here."""


def _uploader_choices() -> list[tuple[str, str]]:
    """Return who uploaded reports. The query takes one index step per staff account."""
    uploaders = User.objects.filter(Exists(Report.objects.filter(uploaded_by=OuterRef("pk"))))
    people = uploaders.order_by("first_name", "last_name", "username")[:200]
    named = [(str(one.pk), one.get_full_name() or one.get_username()) for one in people]
    return [(ME, gettext("Me")), (ELSEWHERE, gettext("Not uploaded here")), *named]


class ReportListForm(FilterForm):
    SORTS: ClassVar = {
        "uploaded_at": ("uploaded_at", "id"),
        "state": ("state", "uploaded_at", "id"),
        "accepted_at": ("accepted_at", "id"),
    }
    DESCENDING_FIRST = frozenset({"uploaded_at", "accepted_at"})
    TAB_FIELD, MAIN_TAB = "show", ALL
    FILTERS: ClassVar = (
        FilterGroup(gettext_noop("Status"), ("state",), always_shown=True),
        FilterGroup(
            gettext_noop("Uploaded"),
            ("uploaded", "since", "until"),
            always_shown=True,
            shows_zone=True,
        ),
        FilterGroup(gettext_noop("Uploaded by"), ("uploaded_by",), always_shown=True),
        FilterGroup(gettext_noop("Patient"), ("user_id",)),
    )

    @property
    def tab(self) -> str:
        """The open tab. For one patient all reports are shown, else those to review."""
        default = ALL if self.cleaned_data.get("user_id") else TO_REVIEW
        return super().tab or default

    @property
    def sort(self) -> tuple[str, str]:
        """The active sort. Only accepted reports can be sorted by when they were accepted."""
        key, direction = super().sort
        return (key, direction) if self.can_sort_by(key) else ("uploaded_at", "desc")

    def can_sort_by(self, key: str) -> bool:
        return super().can_sort_by(key) and (key != "accepted_at" or self.tab == ACCEPTED)


class ReportFilterSet(ListFilterSet):
    show = TabFilter({key: label for key, (label, _) in TABS.items()})
    state = VocabularyFilter("report.state", "state", label=gettext_lazy("Status"))
    uploaded = DaysFilter("uploaded_at", label=gettext_lazy("Day"))
    since = TimestampFilter("uploaded_at", "gte", label=gettext_lazy("From"))
    until = TimestampFilter(
        "uploaded_at",
        "lte",
        label=gettext_lazy("Until"),
        end_of_day=True,
        help_text=gettext_lazy("The whole day."),
    )
    uploaded_by = PersonFilter(
        "uploaded_by",
        label=gettext_lazy("Uploaded by"),
        me=ME,
        nobody=ELSEWHERE,
        read=_uploader_choices,
    )
    user_id = UUIDFilter(label=gettext_lazy("Patient ID"))

    class Meta:
        form = ReportListForm

    def filter_tab(self, reports: QuerySet[Report], name: str, tab: str) -> QuerySet[Report]:
        return reports.filter(TABS[tab][1])
