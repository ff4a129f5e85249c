"""The filters of the audit trail, combined with AND. In URLs: ids and kinds, no free text."""

from __future__ import annotations

from typing import ClassVar, Final

from django.db.models import QuerySet
from django.utils.translation import gettext, gettext_lazy, gettext_noop
from django_filters import CharFilter, ChoiceFilter

from backoffice.accounts.staff_queries import staff_choices
from backoffice.audit.models import AuditEntry
from backoffice.audit.recording import ACTION_LABELS, kind_label
from backoffice.core.distinct_values import distinct_values
from backoffice.pages.lists.filters import (
    ChoicesFilter,
    DaysFilter,
    DeferredChoiceFilter,
    ListFilterSet,
    PersonFilter,
    TimestampFilter,
    UUIDFilter,
)
from backoffice.pages.lists.forms import FilterForm, FilterGroup

NOBODY: Final = "nobody"
MAX_KINDS: Final = 200


def _kind_choices() -> list[tuple[str, str]]:
    """Return every kind of record that has an entry."""
    return [
        (kind, kind_label(kind)) for kind in distinct_values(AuditEntry, "object_type", MAX_KINDS)
    ]


def _person_choices() -> list[tuple[str, str]]:
    return [*staff_choices(), (NOBODY, gettext("No staff member"))]


class AuditListForm(FilterForm):
    SORTS: ClassVar = {"at": ("at", "id")}
    DESCENDING_FIRST = frozenset({"at"})
    FILTERS: ClassVar = (
        FilterGroup(gettext_noop("Who"), ("person",), always_shown=True),
        FilterGroup(gettext_noop("Action"), ("did",), always_shown=True),
        FilterGroup(gettext_noop("Kind"), ("kind",), always_shown=True),
        FilterGroup(
            gettext_noop("Date"), ("day", "since", "until"), always_shown=True, shows_zone=True
        ),
        FilterGroup(gettext_noop("About"), ("patient", "record"), always_shown=True),
        FilterGroup(gettext_noop("Outcome"), ("outcome",)),
        FilterGroup(gettext_noop("Request"), ("request",)),
    )


class AuditFilterSet(ListFilterSet):
    person = PersonFilter("actor", label=gettext_lazy("Who"), nobody=NOBODY, read=_person_choices)
    did = ChoicesFilter(
        "action",
        label=gettext_lazy("Action"),
        choices=[(action, gettext_lazy(label)) for action, label in ACTION_LABELS.items()],
    )
    kind = DeferredChoiceFilter("object_type", label=gettext_lazy("Kind"), read=_kind_choices)
    day = DaysFilter("at", label=gettext_lazy("Day"))
    since = TimestampFilter("at", "gte", label=gettext_lazy("From"))
    until = TimestampFilter(
        "at",
        "lte",
        label=gettext_lazy("Until"),
        end_of_day=True,
        help_text=gettext_lazy("Includes the whole day."),
    )
    outcome = ChoiceFilter(
        label=gettext_lazy("Outcome"),
        empty_label=gettext_lazy("Any"),
        choices=[("ok", gettext_lazy("Done")), ("refused", gettext_lazy("Refused"))],
    )
    patient = UUIDFilter("patient_ids", label=gettext_lazy("Patient ID"), method="filter_ids")
    record = CharFilter(
        "object_ids",
        label=gettext_lazy("Record ID"),
        max_length=200,
        help_text=gettext_lazy("The full ID of an order, report, request or other record."),
        method="filter_ids",
    )
    request = CharFilter(  # type: ignore[assignment] # the metaclass takes it off the class
        "request_id",
        label=gettext_lazy("Request ID"),
        max_length=64,
        help_text=gettext_lazy("As in log lines and in the X-Request-ID header of responses."),
    )

    class Meta:
        form = AuditListForm

    def filter_ids(
        self, entries: QuerySet[AuditEntry], name: str, key: object
    ) -> QuerySet[AuditEntry]:
        return entries.filter(**{f"{name}__contains": [key]})
