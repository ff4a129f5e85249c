"""The filters of the list of requests to the service."""

from __future__ import annotations

from typing import ClassVar, Final

from django.db.models import QuerySet
from django_filters import CharFilter

from backoffice.accounts.staff_queries import staff_choices
from backoffice.outbox.models import CommandRecord
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

MINE: Final = "mine"
TABS: Final = {
    MINE: "Mine",
    "decide": "Need a decision",
    "open": "Under way",
    "refused": "Refused",
    "": "All",
}
TAB_STATES: Final = {
    "decide": (CommandRecord.State.UNDECIDED,),
    "open": CommandRecord.OPEN,
    "refused": (CommandRecord.State.REFUSED,),
}


class CommandListForm(FilterForm):
    SORTS: ClassVar = {
        "requested_at": ("requested_at", "id"),
        "state": ("state", "requested_at", "id"),
        "kind": ("kind", "requested_at", "id"),
    }
    DESCENDING_FIRST = frozenset({"requested_at"})
    TAB_FIELD = "show"
    FILTERS: ClassVar = (
        FilterGroup("Status", ("state",), always_shown=True),
        FilterGroup("Kind", ("kind",), always_shown=True),
        FilterGroup("By", ("person",), always_shown=True),
        FilterGroup("Date", ("day", "since", "until"), always_shown=True, shows_zone=True),
        FilterGroup("About", ("patient", "record"), always_shown=True),
    )


class CommandFilterSet(ListFilterSet):
    show = TabFilter(TABS)
    state = VocabularyFilter("command.state", "state", label="Status")
    kind = VocabularyFilter("command.kind", "kind", label="Kind")
    person = PersonFilter("requested_by", label="By", read=staff_choices)
    day = DaysFilter("requested_at", label="Day")
    since = TimestampFilter("requested_at", "gte", label="From")
    until = TimestampFilter(
        "requested_at", "lte", label="Until", end_of_day=True, help_text="The whole day."
    )
    patient = UUIDFilter("patient_id", label="Patient ID")
    record = CharFilter(
        "subject_id",
        label="Record ID",
        max_length=200,
        help_text="The whole ID of the order, lab account or other record.",
    )

    class Meta:
        form = CommandListForm

    def filter_tab(
        self, commands: QuerySet[CommandRecord], name: str, tab: str
    ) -> QuerySet[CommandRecord]:
        if tab == MINE:
            return commands.filter(requested_by=self.user.pk)
        return commands.filter(state__in=TAB_STATES[tab])
