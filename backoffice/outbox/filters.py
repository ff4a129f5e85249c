"""The filters of the list of requests to the service."""

from __future__ import annotations

from typing import ClassVar, Final

from django.db.models import QuerySet
from django.utils.translation import gettext_lazy, gettext_noop
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
    MINE: gettext_noop("Mine"),
    "decide": gettext_noop("Need a decision"),
    "open": gettext_noop("In progress"),
    "refused": gettext_noop("Refused"),
    "": gettext_noop("All"),
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
        FilterGroup(gettext_noop("Status"), ("state",), always_shown=True),
        FilterGroup(gettext_noop("Kind"), ("kind",), always_shown=True),
        FilterGroup(gettext_noop("By"), ("person",), always_shown=True),
        FilterGroup(
            gettext_noop("Date"), ("day", "since", "until"), always_shown=True, shows_zone=True
        ),
        FilterGroup(gettext_noop("Record"), ("patient", "record"), always_shown=True),
    )


class CommandFilterSet(ListFilterSet):
    show = TabFilter(TABS)
    state = VocabularyFilter("command.state", "state", label=gettext_lazy("Status"))
    kind = VocabularyFilter("command.kind", "kind", label=gettext_lazy("Kind"))
    person = PersonFilter("requested_by", label=gettext_lazy("By"), read=staff_choices)
    day = DaysFilter("requested_at", label=gettext_lazy("Day"))
    since = TimestampFilter("requested_at", "gte", label=gettext_lazy("From"))
    until = TimestampFilter(
        "requested_at",
        "lte",
        label=gettext_lazy("Until"),
        end_of_day=True,
        help_text=gettext_lazy("The whole day."),
    )
    patient = UUIDFilter("patient_id", label=gettext_lazy("Patient ID"))
    record = CharFilter(
        "subject_id",
        label=gettext_lazy("Record ID"),
        max_length=200,
        help_text=gettext_lazy("The whole ID of the order, lab account or other record."),
    )

    class Meta:
        form = CommandListForm

    def filter_tab(
        self, commands: QuerySet[CommandRecord], name: str, tab: str
    ) -> QuerySet[CommandRecord]:
        if tab == MINE:
            return commands.filter(requested_by=self.user.pk)
        return commands.filter(state__in=TAB_STATES[tab])
